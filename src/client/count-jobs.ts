/** How many jobs each queue has in each state, from the tallies; and how many of them its pause holds back. */
import { allGates } from "../engine/gates.ts";
import { gateName, queueGateKey } from "../model/gate.ts";
import type { JobState } from "../model/job-state.ts";
import type { Store } from "../store/store.ts";
import { isPaused } from "./queues.ts";

/** A state without jobs is left out. `held` counts ready jobs a second time: those that wait for a resume. */
export type QueueCounts = Readonly<Partial<Record<JobState | "held", number>>>;

export async function countJobs(
  store: Pick<Store, "tallyJobs" | "readGates">,
): Promise<Readonly<Record<string, QueueCounts>>> {
  const queues = Object.create(null) as Record<string, Partial<Record<JobState | "held", number>>>;
  for (const { queue, state, count } of await store.tallyJobs()) {
    const counts = (queues[queue] ??= {});
    counts[state] = (counts[state] ?? 0) + count;
  }
  for await (const { gate, now } of allGates(store, queueGateKey(""))) {
    const counts = queues[gateName(gate.key)];
    if (counts?.ready !== undefined && isPaused(gate, now)) counts.held = counts.ready;
  }
  return queues;
}
