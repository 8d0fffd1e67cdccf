/** How many jobs each queue has in each state, from the tallies; and how many of them its pause holds back. */
import { allGates } from "../engine/gates.ts";
import { gateName, queueGateKey } from "../model/gate.ts";
import type { JobState } from "../model/job-state.ts";
import type { Store } from "../store/store.ts";
import { isPaused } from "./queues.ts";
import { unlessMissing } from "./unless-missing.ts";

/** A state without jobs is left out. `held` counts ready jobs a second time: those that wait for a resume. */
export type QueueCounts = Readonly<Partial<Record<JobState | "held", number>>>;

type CountedStore = Pick<Store, "tallyJobs" | "readGates" | "missing">;

export async function countJobs(store: CountedStore): Promise<Readonly<Record<string, QueueCounts>>> {
  const queues = Object.create(null) as Record<string, Partial<Record<JobState | "held", number>>>;
  for (const { queue, state, count } of await store.tallyJobs()) {
    const counts = (queues[queue] ??= {});
    counts[state] = (counts[state] ?? 0) + count;
  }
  for (const queue of await unlessMissing(store, () => pausedQueues(store), [])) {
    const counts = queues[queue];
    if (counts?.ready !== undefined) counts.held = counts.ready;
  }
  return queues;
}

async function pausedQueues(store: CountedStore): Promise<readonly string[]> {
  const paused: string[] = [];
  for await (const { gate, now } of allGates(store, queueGateKey("")))
    if (isPaused(gate, now)) paused.push(gateName(gate.key));
  return paused;
}
