/**
 * Handlers: what runs when a job is claimed. A handler belongs to one definition; types flow from there.
 */
import { checkDefinition } from "../engine/definition.ts";
import type { JobDefinition } from "../engine/definition.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { checkOptions, checkWhole } from "../model/option.ts";
import type { Cancel, Snooze } from "./control.ts";
import type { JobContext } from "./job-context.ts";

/** What a handler may give back: its result, or a control outcome. */
export type HandlerReturn<Result> = Result | Snooze | Cancel;

export type HandlerFunction<Out, Result> = (
  context: JobContext<Out>,
) => HandlerReturn<Result> | Promise<HandlerReturn<Result>>;

/** One outcome per job, in order: a result, a control outcome or an Error that fails that job alone. Nothing completes all. */
export type BatchFunction<Out, Result> = (
  contexts: readonly JobContext<Out>[],
) => Promise<readonly (HandlerReturn<Result> | Error)[] | void>;

export interface BatchOptions {
  /** At most so many jobs per call. */
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
  readonly run: HandlerFunction<unknown, unknown>;
}

export interface BatchHandler {
  readonly kind: "batch";
  readonly definition: JobDefinition;
  readonly size: number;
  readonly waitMs: number;
  readonly concurrency: number;
  readonly run: BatchFunction<unknown, unknown>;
}

export function handler<In, Out, Result>(
  definition: JobDefinition<In, Out, Result>,
  run: HandlerFunction<Out, Result>,
): SingleHandler {
  checkFunction(definition, run);
  return {
    kind: "single",
    definition: definition as unknown as JobDefinition,
    run: run as unknown as HandlerFunction<unknown, unknown>,
  };
}

const batchSizeMax = 500;

export function batchHandler<In, Out, Result>(
  definition: JobDefinition<In, Out, Result>,
  options: BatchOptions,
  run: BatchFunction<Out, Result>,
): BatchHandler {
  checkFunction(definition, run);
  const what = `batchHandler(${JSON.stringify(definition.name)})`;
  checkOptions(options, what, ["size", "wait", "concurrency"]);
  return {
    kind: "batch",
    definition: definition as unknown as JobDefinition,
    size: checkWhole(options.size, `${what}: size`, 1, batchSizeMax),
    waitMs: durationMs(options.wait ?? 0, `${what}: wait`),
    concurrency: checkWhole(options.concurrency ?? 1, `${what}: concurrency`, 1, 1000),
    run: run as unknown as BatchFunction<unknown, unknown>,
  };
}

function checkFunction(definition: unknown, run: unknown): void {
  checkDefinition(definition, "handler");
  if (typeof run !== "function")
    throw new MillraceError("invalid-option", "A handler's last argument must be a function.");
}
