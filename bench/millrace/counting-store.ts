/**
 * A store in front of a store that counts: every call that goes through, and every settle that was acknowledged. The
 * only place that knows when a job is really finished, because a handler's return is not yet an acknowledged write.
 */
import type { SettleNext } from "../../src/model/job/change.ts";
import type { Store } from "../../src/store/store.ts";

export interface Counts {
  calls: number;
  /**
   * Told how many attempts a call has just ended, by the store's own answer: jobs completed, and jobs that failed
   * and are to be tried again. What a worker that stops hands back does not count.
   */
  settled: (count: number) => void;
  /** Told how many jobs a call has just made ready because they were due. */
  promoted: (count: number) => void;
}

/** Not work for the database: told once, or answered from memory. */
const uncounted = new Set<string | symbol>(["watch", "inTransaction", "close"]);

export function countingStore(store: Store, counts: Counts): Store {
  const counted: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(store)) {
    if (typeof value !== "function") continue;
    const call = value.bind(store) as (...values: unknown[]) => unknown;
    counted[name] = uncounted.has(name)
      ? call
      : (...values: unknown[]) => {
          counts.calls += 1;
          return call(...values);
        };
  }
  const settleIfLeased: Store["settleIfLeased"] = async (settles) => {
    counts.calls += 1;
    const answers = await store.settleIfLeased(settles);
    let ended = 0;
    for (const [index, { kind }] of answers.entries())
      if (kind === "ok" && endsAttempt(settles[index]?.next.to)) ended += 1;
    counts.settled(ended);
    return answers;
  };
  const promoteDue: Store["promoteDue"] = async (...values) => {
    counts.calls += 1;
    const answer = await store.promoteDue(...values);
    counts.promoted(answer.count);
    return answer;
  };
  return { ...store, ...counted, settleIfLeased, promoteDue };
}

function endsAttempt(next: SettleNext["to"] | undefined): boolean {
  return next === "completed" || next === "scheduled";
}
