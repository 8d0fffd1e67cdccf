/** Counts of jobs, per queue and state: exact, from the tallies of the store. */
import type { JobState } from "../model/job-state.ts";
import type { Store } from "../store/store.ts";
import { readHeld } from "./held.ts";

export interface QueueCounts extends Readonly<Partial<Record<JobState, number>>> {
  /** How many of the ready ones are held back; left out for none. */
  readonly held?: number;
}

export async function countJobs(
  store: Pick<Store, "tallyJobs" | "readDocs">,
): Promise<Readonly<Record<string, QueueCounts>>> {
  type Counts = { -readonly [Key in keyof QueueCounts]: QueueCounts[Key] };
  const queues = Object.create(null) as Record<string, Counts>;
  const tallies = await store.tallyJobs();
  const held = await readHeld(store, tallies);
  for (const [at, { queue, state, count }] of tallies.entries()) {
    const counts = (queues[queue] ??= {});
    counts[state] = (counts[state] ?? 0) + count;
    if (held[at] !== null) counts.held = (counts.held ?? 0) + count;
  }
  return queues;
}
