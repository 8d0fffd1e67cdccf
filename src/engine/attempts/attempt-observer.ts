/**
 * Observers of attempts: metrics, traces and the user's own sink. Each attempt whose handler was called is reported
 * exactly once, when nothing is left to do for it here: either the store has its end, or it was lost. Observers are
 * called from the worker's hot path, so they return at once and never throw.
 */
import type { SettleNext } from "../../model/job/change.ts";
import type { EventKind } from "../../model/events/event-kind.ts";
import type { LeasedJob } from "../../store/records.ts";

/**
 * `lost`: the lease was lost, or the settle did not reach the store, so the store does not know what the attempt did.
 */
export type EndedAs = EventKind | "lost";

/** An attempt that has ended, as observers see it. It is the worker's own record, so observing it allocates nothing. */
export interface ObservedAttempt {
  readonly job: LeasedJob;
  /** The worker that ran it. */
  readonly owner: string;
  readonly title: { readonly queue: string; readonly name: string };
  /** The change that the store applied; null for a lost attempt. */
  readonly settled: SettleNext | null;
  /** From the time at which the job was due until its handler was called. */
  readonly waitedUs: number;
  /** From then until the end was decided. */
  readonly ranUs: number;
  /** From the submit of the job until the end of this attempt. */
  readonly totalUs: number;
  /** When its end was decided, by the worker's estimate of the store's clock. */
  readonly endedAt: number;
}

export type AttemptObserver = (attempt: ObservedAttempt) => void;

export function endedAs({ settled }: ObservedAttempt): EndedAs {
  return settled === null ? "lost" : settled.event;
}
