/**
 * A job defined once: its name, its types, and how it is to be run. It holds no handler, so a web process can import it
 * to enqueue, and defining a job needs no store.
 */
import { MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { compilePick } from "../../codec/digest.ts";
import type { FieldPathOf } from "../../codec/field-path.ts";
import { readDurable } from "../durable/durable-definition.ts";
import type { DurableOptions, DurablePart, SignalSchemas } from "../durable/durable-definition.ts";
import { compileRedaction } from "../../codec/redact.ts";
import { definitionKeys, readEnqueueOptions } from "./job-options.ts";
import type { EnqueueOptions, OwnOption, ReadOptions } from "./job-options.ts";
import { checkOptions, checkWhole } from "../../model/option.ts";
import { outputLimits } from "../../model/output/output-limits.ts";
import { isStandardSchema } from "./standard-schema.ts";
import type { AnySchema, SchemaInput, SchemaOutput, StandardSchema } from "./standard-schema.ts";

/**
 * Options of a definition: those of an enqueue that make sense for every job of the kind, and what only a definition
 * has.
 */
// oxlint-disable-next-line no-explicit-any -- options of some definition, whichever its input is
export interface JobOptions<In = any> extends Omit<
  EnqueueOptions<In>,
  OwnOption | "runAt" | "headers" | "trace"
> {
  input?: AnySchema;
  result?: AnySchema;
  /**
   * What an input means that a worker's schema refuses or its codec cannot read: the end of the job as `invalid-input`
   * ("fail", the default), or a failed attempt that is tried again ("retry"), for fleets in which old and new versions
   * of the schema run beside each other. Frozen with the job.
   */
  onInvalidInput?: "fail" | "retry";
  /** Paths into input and result that no list, log, event or page ever shows, such as "card.number". */
  redact?: readonly string[];
  /** Of the output that the handler writes with `stream`: keep the newest n frames, at most 10,000. All by default. */
  frames?: { keep: number };
  /** Its runs remember what they did: the handler gets `step`. */
  durable?: DurableOptions;
  /** Of a durable job: the schemas of the signals that its runs take, by name. */
  signals?: SignalSchemas;
}

/**
 * @typeParam In what a producer gives; @typeParam Out what the handler gets; @typeParam Result what a waiter gets;
 * @typeParam Returned what the handler gives back, before the schema of the result has read it.
 */
export interface JobDefinition<In = unknown, Out = In, Result = unknown, Returned = Result> {
  readonly name: string;
  /** The declared queue; null leaves it to the router. */
  readonly queue: string | null;
  readonly inputSchema: StandardSchema<unknown, Out> | null;
  readonly resultSchema: StandardSchema<Returned, Result> | null;
  readonly options: ReadOptions;
  /** How many of its newest output frames are kept; null for all. */
  readonly framesKept: number | null;
  /** Null for a job that is not durable. */
  readonly durable: DurablePart["durable"] | null;
  /** An input and its options as one entry for enqueueMany. */
  with(input: In, options?: EnqueueOptions<In>): Submission<In, Result>;
  /** Only for the type checker: keeps In in the type. */
  readonly __input?: (input: In) => void;
}

/** A definition whose runs are durable. */
export interface DurableJobDefinition<
  In = unknown,
  Out = In,
  Result = unknown,
  Returned = Result,
  Schemas extends SignalSchemas = SignalSchemas,
>
  extends JobDefinition<In, Out, Result, Returned>, DurablePart<Schemas> {
  readonly durable: DurablePart["durable"];
}

// oxlint-disable-next-line no-explicit-any -- the one place where any definition must do
export type AnyJob = JobDefinition<any, any, any, any>;

export interface Submission<In = unknown, Result = unknown> {
  readonly job: JobDefinition<In, unknown, Result, unknown>;
  readonly input: In;
  readonly options: EnqueueOptions<In> | undefined;
}

// oxlint-disable-next-line no-explicit-any -- as above: a list of mixed submissions
export type AnySubmission = Submission<any, any>;

export type InputOf<Job> =
  Job extends JobDefinition<infer In, infer _Out, infer _Result, infer _Returned> ? In : never;
/** What a handler of the job gets. */
export type OutOf<Job> =
  Job extends JobDefinition<infer _In, infer Out, infer _Result, infer _Returned> ? Out : never;
/** What a handler of the job gives back. */
export type ReturnedOf<Job> =
  Job extends JobDefinition<infer _In, infer _Out, infer _Result, infer Returned> ? Returned : never;
export type ResultOf<Job> =
  Job extends JobDefinition<infer _In, infer _Out, infer Result, infer _Returned> ? Result : never;

type Read<Schema> = Schema extends AnySchema ? SchemaOutput<Schema> : unknown;
type Written<Schema> = Schema extends AnySchema ? SchemaInput<Schema> : unknown;

type OptionsOf<In, Result> = Omit<JobOptions<In>, "input" | "result" | "signals" | "redact"> & {
  /**
   * Paths into input, result and progress that no list, log, event or page ever shows, such as "card.number" or
   * "data.secret". A path into a result needs the result's type.
   */
  redact?: readonly (
    | FieldPathOf<In, "*">
    | (unknown extends Result ? never : FieldPathOf<Result, "*">)
    | ("data" | `data.${string}`)
  )[];
};
type InferredJob<In, Out, Result, Returned, Schemas extends SignalSchemas, Durable> = [Durable] extends [
  DurableOptions,
]
  ? DurableJobDefinition<In, Out, Result, Returned, Schemas>
  : JobDefinition<In, Out, Result, Returned>;

// The compiler speaks of the last overload only. So the last one takes whatever the others take, and names what is
// wrong in it. With the types of input and result given, TypeScript infers no signals: any name is a signal then.
export function job<In = unknown, Result = unknown, const Schemas extends SignalSchemas = SignalSchemas>(
  name: string,
  options: OptionsOf<In, Result> & {
    input?: undefined;
    result?: AnySchema;
    signals?: Schemas;
    durable: DurableOptions;
  },
): DurableJobDefinition<In, In, Result, Result, Schemas>;
export function job<In = unknown, Result = unknown>(
  name: string,
  options?: OptionsOf<In, Result> & { input?: undefined; result?: AnySchema; signals?: SignalSchemas },
): JobDefinition<In, In, Result>;
export function job<
  Input extends AnySchema | undefined = undefined,
  Result extends AnySchema | undefined = undefined,
  const Schemas extends SignalSchemas = Record<never, never>,
  Durable extends DurableOptions | undefined = undefined,
>(
  name: string,
  options?: OptionsOf<Written<Input>, Read<Result>> & {
    input?: Input;
    result?: Result;
    signals?: Schemas;
    durable?: Durable;
  },
): InferredJob<Written<Input>, Read<Input>, Read<Result>, Written<Result>, Schemas, Durable>;
export function job(name: string, options: JobOptions = {}): AnyJob {
  checkName(name, "job name");
  const what = `job ${JSON.stringify(name)}`;
  checkOptions(options, what, definitionKeys);
  const { input, result, onInvalidInput, redact = [], frames, durable, signals, ...shared } = options;
  const durablePart = readDurable({ durable, signals }, what);
  const read = readEnqueueOptions(shared, what);
  // The compiled form is thrown away: a bad path is to be refused here, where somebody wrote it.
  compilePick(read.unique?.fields ?? [], `${what}: unique.fields`);
  const definition: AnyJob = {
    name,
    queue: read.queue ?? null,
    inputSchema: readSchema(input, `${what}: input`),
    resultSchema: readSchema(result, `${what}: result`),
    options: asDurable(withRedaction(withInvalidInput(read, onInvalidInput, what), redact), durablePart),
    framesKept: readFrames(frames, what),
    durable: null,
    ...durablePart,
    with: (value, enqueueOptions) => ({ job: definition, input: value, options: enqueueOptions }),
  };
  return Object.freeze(definition);
}

function readFrames(frames: unknown, what: string): number | null {
  if (frames === undefined) return null;
  const { keep } = checkOptions(frames as object, `${what}: frames`, ["keep"]) as { readonly keep?: unknown };
  return checkWhole(keep, `${what}: frames.keep`, 1, outputLimits.keepMax);
}

/** Past the public signatures the types of one job no longer matter. */
export function anySubmission<In, Out, Result, Returned>(
  definition: JobDefinition<In, Out, Result, Returned>,
  input: In,
  options: EnqueueOptions<In> | undefined,
): Submission {
  return {
    job: definition as unknown as JobDefinition,
    input,
    options: options as EnqueueOptions | undefined,
  };
}

/** For callers without types: anything but a definition is refused by name. */
export function checkDefinition(value: unknown, what: string): void {
  const isDefinition =
    typeof value === "object" && value !== null && "inputSchema" in value && "with" in value;
  if (!isDefinition) throw new MillraceError("invalid-option", `${what}: the job must be one made by job().`);
}

function withInvalidInput(options: ReadOptions, given: unknown, what: string): ReadOptions {
  if (given === undefined || given === "fail") return options;
  if (given === "retry") return { ...options, policy: { ...options.policy, retriesInvalidInput: true } };
  throw new MillraceError("invalid-option", `${what}: onInvalidInput must be "fail" or "retry".`);
}

/** The names of the signals are frozen with the job, so that any process can refuse an unknown one. */
function asDurable(options: ReadOptions, part: DurablePart | null): ReadOptions {
  if (part === null) return options;
  return { ...options, policy: { ...options.policy, durable: Object.keys(part.signals) } };
}

function withRedaction(options: ReadOptions, paths: readonly string[]): ReadOptions {
  if (paths.length === 0) return options;
  // The compiled form is thrown away: a bad path is to be refused here, where somebody wrote it.
  compileRedaction(paths);
  return { ...options, policy: { ...options.policy, redact: [...paths] } };
}

export function readSchema(schema: unknown, what: string): StandardSchema | null {
  if (schema === undefined) return null;
  if (isStandardSchema(schema)) return schema;
  throw new MillraceError(
    "invalid-option",
    `${what} must be a Standard Schema (zod, valibot, arktype and others are).`,
  );
}
