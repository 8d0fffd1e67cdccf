/**
 * A job defined once: its name, its types, and how it is to be run. It holds no handler, so a web process can import it
 * to enqueue, and defining a job needs no store.
 */
import { MillraceError } from "../model/error.ts";
import { checkName } from "../model/name.ts";
import { compileRedaction } from "../codec/redact.ts";
import { definitionKeys, readEnqueueOptions } from "./job-options.ts";
import type { EnqueueOptions, ReadOptions } from "./job-options.ts";
import { checkOptions } from "../model/option.ts";
import { isStandardSchema } from "./standard-schema.ts";
import type { SchemaInput, SchemaOutput, StandardSchema } from "./standard-schema.ts";

/**
 * Options of a definition: those of an enqueue that make sense for every job of the kind, and what only a definition
 * has.
 */
export interface JobOptions extends Omit<EnqueueOptions, "id" | "runAt" | "headers" | "trace"> {
  input?: StandardSchema<never, unknown> | StandardSchema;
  result?: StandardSchema<never, unknown> | StandardSchema;
  /** The queue that jobs of this definition go to, unless a router says otherwise. Default: "default". */
  queue?: string;
  /** Paths into input and result that no list, log, event or page ever shows, such as "card.number". */
  redact?: readonly string[];
}

/** @typeParam In what a producer gives; @typeParam Out what the handler gets; @typeParam Result what it gives back. */
export interface JobDefinition<In = unknown, Out = In, Result = unknown> {
  readonly name: string;
  readonly queue: string;
  readonly inputSchema: StandardSchema<unknown, Out> | null;
  readonly resultSchema: StandardSchema<unknown, Result> | null;
  readonly options: ReadOptions;
  /** An input and its options as one entry for enqueueMany. */
  with(input: In, options?: EnqueueOptions): Submission<In, Result>;
  /** Only for the type checker: keeps In in the type. */
  readonly __input?: (input: In) => void;
}

// oxlint-disable-next-line no-explicit-any -- the one place where any definition must do
export type AnyJob = JobDefinition<any, any, any>;

export interface Submission<In = unknown, Result = unknown> {
  readonly job: JobDefinition<In, unknown, Result>;
  readonly input: In;
  readonly options: EnqueueOptions | undefined;
}

// oxlint-disable-next-line no-explicit-any -- as above: a list of mixed submissions
export type AnySubmission = Submission<any, any>;

export type InputOf<Job> = Job extends JobDefinition<infer In, infer _Out, infer _Result> ? In : never;
export type ResultOf<Job> = Job extends JobDefinition<infer _In, infer _Out, infer Result> ? Result : never;

type ResultFrom<Options> = Options extends { result: infer Schema } ? SchemaOutput<Schema> : unknown;

export function job<
  const Options extends JobOptions & { input: StandardSchema<never, unknown> | StandardSchema },
>(
  name: string,
  options: Options,
): JobDefinition<SchemaInput<Options["input"]>, SchemaOutput<Options["input"]>, ResultFrom<Options>>;
export function job<In = unknown, Result = unknown>(
  name: string,
  options?: JobOptions,
): JobDefinition<In, In, Result>;
export function job(name: string, options: JobOptions = {}): AnyJob {
  checkName(name, "job name");
  const what = `job ${JSON.stringify(name)}`;
  checkOptions(options, what, definitionKeys);
  const { input, result, queue = "default", redact = [], ...shared } = options;
  checkName(queue, `${what}: queue`);
  const definition: AnyJob = {
    name,
    queue,
    inputSchema: readSchema(input, `${what}: input`),
    resultSchema: readSchema(result, `${what}: result`),
    options: withRedaction(readEnqueueOptions(shared, what), redact),
    with: (value, enqueueOptions) => ({ job: definition, input: value, options: enqueueOptions }),
  };
  return Object.freeze(definition);
}

/** For callers without types: anything but a definition is refused by name. */
export function checkDefinition(value: unknown, what: string): void {
  const isDefinition =
    typeof value === "object" && value !== null && "inputSchema" in value && "with" in value;
  if (!isDefinition) throw new MillraceError("invalid-option", `${what}: the job must be one made by job().`);
}

function withRedaction(options: ReadOptions, paths: readonly string[]): ReadOptions {
  if (paths.length === 0) return options;
  // The compiled form is thrown away: a bad path is to be refused here, where somebody wrote it.
  compileRedaction(paths);
  return { ...options, policy: { ...options.policy, redact: [...paths] } };
}

function readSchema(schema: unknown, what: string): StandardSchema | null {
  if (schema === undefined) return null;
  if (isStandardSchema(schema)) return schema;
  throw new MillraceError(
    "invalid-option",
    `${what} must be a Standard Schema (zod, valibot, arktype and others are).`,
  );
}
