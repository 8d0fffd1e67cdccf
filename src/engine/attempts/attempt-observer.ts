/**
 * Who is told of attempts: metrics, traces and the user's own sink. Each attempt whose handler was called is told
 * exactly once, when nothing of it is left to do here: the store has its end, or it was lost. An observer is called in
 * the middle of the worker's work: it returns at once and never throws.
 */
import type { SettleNext } from "../../model/job/change.ts";
import type { EventKind } from "../../model/events/event-kind.ts";
import type { LeasedJob } from "../../store/records.ts";

/** `lost`: its lease was lost, or its settle did not reach the store, so what it did is not known to the store. */
export type EndedAs = EventKind | "lost";

/** An attempt that has ended, as observers see it. It is the worker's own record: nothing is made for them. */
export interface ObservedAttempt {
  readonly job: LeasedJob;
  /** The worker that ran it. */
  readonly owner: string;
  readonly title: { readonly queue: string; readonly name: string };
  /** What the store has taken; null for a lost attempt. */
  readonly settled: SettleNext | null;
  /** From the time at which the job was due until its handler was called. */
  readonly waitedUs: number;
  /** From then until the end was decided. */
  readonly ranUs: number;
  /** From the submit of the job until the end of this attempt. */
  readonly totalUs: number;
  /** When its end was decided, by the store's clock as well as its worker knows it. */
  readonly endedAt: number;
}

export type AttemptObserver = (attempt: ObservedAttempt) => void;

export function endedAs({ settled }: ObservedAttempt): EndedAs {
  return settled === null ? "lost" : settled.event;
}
