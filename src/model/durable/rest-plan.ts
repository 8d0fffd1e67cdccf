/**
 * How a run rests once it has nothing to do: which of its clocks wakes it, and whether anything else may.
 *
 *  only times are waited for (sleeps, retries of steps)   scheduled: a snooze; signals are buffered and wake nobody
 *  a signal, an approval or a child is waited for         suspended: an append wakes it, or the earliest time
 */
import type { Due } from "../job/change.ts";
import type { CallKind } from "./journal-entry.ts";

export interface OpenWait {
  readonly kind: CallKind;
  /** When its time is over; null for no time. */
  readonly wakeAt: number | null;
  /** Its time counts from the entry that is about to be appended; null if `wakeAt` says all. */
  readonly endsInMs: number | null;
}

export interface RestPlan {
  readonly as: "scheduled" | "suspended";
  /** Null: only an append wakes it. */
  readonly wake: Due | null;
}

const timeAlone: ReadonlySet<CallKind> = new Set(["sleep", "run", "run-in"]);

/** @param now the worker's estimate of the store's time. It only decides which clock is the earliest. */
export function planRest(waits: readonly OpenWait[], now: number): RestPlan {
  let wake: Due | null = null;
  let earliest = Infinity;
  for (const { wakeAt, endsInMs } of waits) {
    const at = endsInMs === null ? (wakeAt ?? Infinity) : now + endsInMs;
    if (at >= earliest) continue;
    earliest = at;
    wake = endsInMs === null ? { at } : { inMs: endsInMs };
  }
  const as = wake !== null && waits.every(({ kind }) => timeAlone.has(kind)) ? "scheduled" : "suspended";
  return { as, wake };
}
