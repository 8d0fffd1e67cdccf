/**
 * Handlers of durable jobs: what they get, and the code of older versions. Only a handler that is a function in this
 * process can be one, because `step` hands it results in the order of the journal.
 */
import { versionMax } from "../../engine/durable/durable-definition.ts";
import type { DurablePart, SignalsOf } from "../../engine/durable/durable-definition.ts";
import type { AnyJob, OutOf, ReturnedOf } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { checkOptions } from "../../model/option.ts";
import type { JobContext } from "../run/job-context.ts";
import type { Step } from "./step.ts";

/** A step is recorded with the run, so what happens with the end of a plain job is done in steps. */
type NotInRuns = "enqueue" | "submit" | "kv" | "whenFailed" | "flow" | "completeIn";

/** The context of a handler whose job is durable. */
export type DurableContext<Out = unknown, Returned = unknown, Signals = Record<never, never>> = Omit<
  JobContext<Out, Returned>,
  NotInRuns
> & { readonly step: Step<Signals> };

/** What the handler of a job gets. */
export type ContextOf<Job> =
  Job extends DurablePart<infer _Schemas>
    ? DurableContext<OutOf<Job>, ReturnedOf<Job>, SignalsOf<Job>>
    : JobContext<OutOf<Job>, ReturnedOf<Job>>;

/** A run continues with the version that it began with. */
export type OlderHandlers<Job> = Readonly<
  Record<number, (context: ContextOf<Job>) => unknown | Promise<unknown>>
>;

export interface HandlerOptions<Job> {
  /** Of a durable job: the code for runs that began with an older version, by version. */
  older?: OlderHandlers<Job>;
}

type AnyHandle = (context: never) => unknown;

/** @returns the handlers of older versions by version; undefined for none. */
export function readOlder(definition: AnyJob, options: unknown): ReadonlyMap<number, AnyHandle> | undefined {
  const what = `handler(${JSON.stringify(definition.name)})`;
  const { older } = checkOptions(options ?? {}, what, ["older"]);
  if (older === undefined) return undefined;
  const { durable } = definition;
  if (durable === null)
    throw new MillraceError("invalid-option", `${what}: only a durable job has older versions.`);
  if (typeof older !== "object" || older === null)
    throw new MillraceError("invalid-option", `${what}: older must be an object of functions, by version.`);
  const entries = Object.entries(older).map(([key, handle]) => {
    const version = Number(key);
    if (!Number.isInteger(version) || version < 1 || version > versionMax || version === durable.version)
      throw new MillraceError(
        "invalid-option",
        `${what}: older.${key} must be a version other than the current one (${durable.version}).`,
      );
    if (typeof handle !== "function")
      throw new MillraceError("invalid-option", `${what}: older.${key} must be a function.`);
    return [version, handle as AnyHandle] as const;
  });
  return new Map(entries);
}

/** Batches, threads, child processes and commands have no steps. */
export function refuseDurable({ name, durable }: AnyJob, what: string): void {
  if (durable === null) return;
  throw new MillraceError(
    "invalid-option",
    `${what}: the job ${JSON.stringify(name)} is durable, so its handler must be a function in the worker's own process: handler(job, async ({ input, step }) => …).`,
  );
}
