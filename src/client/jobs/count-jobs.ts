/** Exact counts of jobs per queue and state, from the state counts of the store. */
import { allGates } from "../../engine/limits/change-gate.ts";
import { gateName, queueGateKey } from "../../model/limits/gate.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { withoutHidden } from "../../model/routing/hidden-queue.ts";
import type { Store } from "../../store/store.ts";
import { readHeldByCapability } from "../explain/held-by-capability.ts";
import { readRefusing, routeUses } from "../explain/held-by-gate.ts";
import { isPaused } from "../queues/queue-settings.ts";
import { unlessMissing } from "./unless-missing.ts";

export interface QueueCounts extends Readonly<Partial<Record<JobState, number>>> {
  /**
   * How many of the ready jobs are held back by a pause, the rate or the concurrency of their queue, a limit without a
   * permit for one of them, or a missing capability; left out if none is. Jobs that a single key holds back (a group,
   * or one key of a limit) are not included, because jobs are not counted per key.
   */
  readonly held?: number;
}

type CountedStore = Pick<Store, "countJobs" | "readDocs" | "readGates" | "missing">;

export async function countJobs(store: CountedStore): Promise<Readonly<Record<string, QueueCounts>>> {
  type Counts = { -readonly [Key in keyof QueueCounts]: QueueCounts[Key] };
  const queues = Object.create(null) as Record<string, Counts>;
  const stateCounts = withoutHidden(await store.countJobs());
  const [lacking, gated] = await Promise.all([
    readHeldByCapability(store, stateCounts),
    readRefusing(
      store,
      stateCounts.map(({ state, queue, gates = [] }) =>
        state === "ready" ? routeUses({ queue, gates }) : [],
      ),
    ),
  ]);
  for (const [at, { queue, state, count }] of stateCounts.entries()) {
    const counts = (queues[queue] ??= {});
    counts[state] = (counts[state] ?? 0) + count;
    const isHeld = lacking[at] !== null || gated[at] !== null;
    if (isHeld) counts.held = (counts.held ?? 0) + count;
  }
  return queues;
}

export function pausedQueues(store: Pick<Store, "readGates" | "missing">): Promise<ReadonlySet<string>> {
  const read = async (): Promise<ReadonlySet<string>> => {
    const paused = new Set<string>();
    for await (const { gate, now } of allGates(store, queueGateKey("")))
      if (isPaused(gate, now)) paused.add(gateName(gate.key));
    return paused;
  };
  return unlessMissing(store, read, new Set());
}
