/** Handlers: the code that runs a claimed job. A handler belongs to one definition; its types come from there. */
import { checkDefinition } from "../engine/submit/job-definition.ts";
import type { AnyJob, JobDefinition, OutOf, ReturnedOf } from "../engine/submit/job-definition.ts";
import type { Needs } from "../engine/services.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { checkOptions, checkWhole } from "../model/option.ts";
import type { Cancel, Snooze } from "./control.ts";
import { readOlder, refuseDurable } from "./durable/durable-handler.ts";
import type { ContextOf, HandlerOptions } from "./durable/durable-handler.ts";
import type { JobContext } from "./run/job-context.ts";

/** A value that is only read, so a result may have readonly parts, as literals have. */
type Readable<Value> = unknown extends Value
  ? Value
  : Value extends Leaf
    ? Value
    : { readonly [Key in keyof Value]: Readable<Value[Key]> };
type Leaf =
  | (string | number | boolean | bigint | symbol | null | undefined)
  | (Date | Uint8Array | ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>);

/** What a handler may return: its result, or a control outcome. */
export type HandlerReturn<Returned> = Readable<Returned> | Snooze | Cancel;

export type HandlerFunction<Out, Returned> = (
  context: JobContext<Out, Returned>,
) => HandlerReturn<Returned> | Promise<HandlerReturn<Returned>>;

/**
 * The function that handles a job, for a file that has it as its default export: the compiler then checks the file
 * against the job, its input, its result and its signals.
 *
 * @example
 *   export default (async ({ input }) => ({ pixels: input.width * 100 })) satisfies HandlerOf<typeof resize>;
 */
export type HandlerOf<Job extends AnyJob> = (
  context: ContextOf<Job>,
) => HandlerReturn<ReturnedOf<Job>> | Promise<HandlerReturn<ReturnedOf<Job>>>;

/**
 * Returns one outcome per job, in order: a result, a control outcome, or an Error that fails that job alone. If it
 * returns nothing, all jobs are completed.
 */
export type BatchFunction<Out, Returned> = (
  contexts: readonly JobContext<Out, Returned>[],
) => Promise<readonly (HandlerReturn<Returned> | Error)[] | void>;

export interface BatchOptions {
  /** At most N jobs per call. */
  size: number;
  /** A batch that is not full starts after this long. */
  wait?: Duration;
  /** How many batches run at once in this worker; 1 by default. */
  concurrency?: number;
}

export type Handler = SingleHandler | BatchHandler;

export interface SingleHandler {
  readonly kind: "single";
  readonly definition: JobDefinition;
  readonly handle: HandlerFunction<unknown, unknown>;
  /** Of a durable job: the code for runs that began with an older version. */
  readonly older?: ReadonlyMap<number, HandlerFunction<unknown, unknown>>;
  /** Set if the code of the handler runs in threads, child processes or as commands. */
  readonly sandbox?: HandlerSandbox;
}

export interface HandlerSandbox {
  /** Whether it starts child processes; otherwise it uses threads, or the worker's own event loop. */
  readonly startsChildren: boolean;
  /** At most this many of its jobs run at once in a worker: the handler has slots of its own. */
  readonly size: number;
  /** How many more jobs a busy slot may be given now; more than 0 while all jobs are quick. */
  readonly ahead: (needs: Needs<"store">) => number;
  /** Prepares for the first job, or throws. @returns a function that ends everything it has started. */
  readonly open: (needs: Needs<"store" | "log">) => Promise<() => Promise<void>>;
}

export interface BatchHandler {
  readonly kind: "batch";
  readonly definition: JobDefinition;
  readonly size: number;
  readonly waitMs: number;
  readonly concurrency: number;
  readonly handle: BatchFunction<unknown, unknown>;
}

export function isHandler(value: unknown): value is Handler {
  if (typeof value !== "object" || value === null) return false;
  const { kind, definition, handle } = value as Partial<Handler>;
  const isKind = kind === "single" || kind === "batch";
  return isKind && typeof handle === "function" && typeof definition === "object" && definition !== null;
}

/**
 * `Got` is inferred from the handler and bounded by the definition. It is a type parameter of its own, because the
 * compiler would widen the literals that a handler returns if it had to infer the definition's types from them as well.
 */
export function handler<Job extends AnyJob, const Got extends HandlerReturn<ReturnedOf<Job>>>(
  definition: Job,
  handle: (context: ContextOf<Job>) => Got | Promise<Got>,
  options?: HandlerOptions<Job>,
): SingleHandler {
  checkFunction(definition, handle);
  const older = readOlder(definition, options);
  return {
    kind: "single",
    definition: definition as unknown as JobDefinition,
    handle: handle as HandlerFunction<unknown, unknown>,
    ...(older === undefined
      ? {}
      : { older: older as ReadonlyMap<number, HandlerFunction<unknown, unknown>> }),
  };
}

const batchSizeMax = 500;

export function batchHandler<Job extends AnyJob, const Got extends HandlerReturn<ReturnedOf<Job>> | Error>(
  definition: Job,
  options: BatchOptions,
  handle: (contexts: readonly JobContext<OutOf<Job>, ReturnedOf<Job>>[]) => Promise<readonly Got[] | void>,
): BatchHandler {
  checkFunction(definition, handle);
  const what = `batchHandler(${JSON.stringify(definition.name)})`;
  refuseDurable(definition, what);
  checkOptions(options, what, ["size", "wait", "concurrency"]);
  return {
    kind: "batch",
    definition: definition as unknown as JobDefinition,
    size: checkWhole(options.size, `${what}: size`, 1, batchSizeMax),
    waitMs: durationMs(options.wait ?? 0, `${what}: wait`),
    concurrency: checkWhole(options.concurrency ?? 1, `${what}: concurrency`, 1, 1000),
    handle: handle as unknown as BatchFunction<unknown, unknown>,
  };
}

function checkFunction(definition: unknown, handle: unknown): void {
  checkDefinition(definition, "handler");
  if (typeof handle !== "function")
    throw new MillraceError(
      "invalid-option",
      "A handler must be a function. For code in a file of its own use fileHandler(), for another program programHandler().",
    );
}
