/**
 * The present state per queue and of the store. It is read on request from what the store keeps anyway, so it costs
 * nothing otherwise.
 */
import type { Needs } from "../../engine/services.ts";
import { allGates } from "../../engine/limits/change-gate.ts";
import { readWorkers } from "../../engine/fleet/registration.ts";
import type { LiveWorker } from "../../engine/fleet/registration.ts";
import { gateName, limitGateKey, queueGateKey } from "../../model/limits/gate.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { withoutHidden } from "../../model/routing/hidden-queue.ts";
import type { ReadyHead, StoreMeasure } from "../../store/store.ts";
import { countJobs } from "../jobs/count-jobs.ts";
import { isPaused } from "../queues/queue-settings.ts";
import { unlessMissing } from "../jobs/unless-missing.ts";

export interface QueueGauges {
  readonly queue: string;
  /** Jobs by state, finished ones included as long as they are kept; a state without jobs is left out. */
  readonly jobs: Readonly<Partial<Record<JobState, number>>>;
  /**
   * How long the next job in line has been due, in milliseconds; with one priority that is the oldest ready job. Null
   * if none is ready.
   */
  readonly oldestReadyMs: number | null;
  /** Ready jobs that something holds back, counted as in count-jobs.ts. */
  readonly held: number;
  /** Live workers that serve the queue. */
  readonly workers: number;
  /** Slots of these workers for the queue. */
  readonly slots: number;
  /** Slots that have a job; jobs that wait in a worker for a slot are not among them. */
  readonly busy: number;
  readonly paused: boolean;
  readonly intakeClosed: boolean;
  /** Limits used by jobs of the queue that cool down after a throttle: none of their jobs starts meanwhile. */
  readonly cooling: number;
}

export async function readQueueGauges(needs: Needs<"store">): Promise<readonly QueueGauges[]> {
  const { store } = needs;
  const [counts, workers, gates, cooling, heads] = await Promise.all([
    countJobs(store),
    readWorkers(store, true),
    unlessMissing(store, () => queueGates(needs), new Map<string, QueueGate>()),
    unlessMissing(store, () => coolingLimits(needs), new Map<string, number>()),
    unlessMissing(store, async () => (await store.readHeads?.()) ?? [], []),
  ]);
  const served = workers.flatMap(({ queues }) => queues);
  const queues = [...new Set([...Object.keys(counts), ...gates.keys(), ...served])].sort();
  return queues.map((queue) => {
    const { held = 0, ...jobs } = counts[queue] ?? {};
    const serving = workers.filter((worker) => worker.queues.includes(queue));
    const slots = serving.reduce((sum, worker) => sum + slotsOf(worker, queue), 0);
    const gate = gates.get(queue);
    return {
      ...{ queue, jobs, oldestReadyMs: oldestOf(heads, queue), held, workers: serving.length, slots },
      busy: Math.min(jobs.running ?? 0, slots),
      paused: gate?.isPaused ?? false,
      intakeClosed: gate?.intakeClosed ?? false,
      cooling: cooling.get(queue) ?? 0,
    };
  });
}

function oldestOf(heads: readonly ReadyHead[], queue: string): number | null {
  const ages = heads.filter((head) => head.queue === queue).map(({ ageMs }) => ageMs);
  return ages.length === 0 ? null : Math.max(...ages);
}

function slotsOf({ slots }: LiveWorker, queue: string): number {
  return Object.hasOwn(slots, queue) ? (slots[queue] as number) : 0;
}

/** Empty if the store cannot measure itself. */
export async function readStoreGauges({ store }: Needs<"store">): Promise<readonly StoreMeasure[]> {
  return unlessMissing(store, async () => (await store.measure?.()) ?? [], []);
}

interface QueueGate {
  readonly isPaused: boolean;
  readonly intakeClosed: boolean;
}

async function queueGates({ store }: Needs<"store">): Promise<Map<string, QueueGate>> {
  const found = new Map<string, QueueGate>();
  for await (const { gate, now } of allGates(store, queueGateKey("")))
    found.set(gateName(gate.key), { isPaused: isPaused(gate, now), intakeClosed: gate.isIntakeClosed });
  return found;
}

/** How many of its limits are closed, by queue. */
async function coolingLimits({ store }: Needs<"store">): Promise<Map<string, number>> {
  const closed = new Set<string>();
  for await (const { gate, now } of allGates(store, limitGateKey("")))
    if (isPaused(gate, now)) closed.add(gate.key);
  const limits = new Map<string, Set<string>>();
  if (closed.size > 0)
    for (const { queue, gates } of withoutHidden(await store.readRoutes()))
      for (const { key } of gates.filter((gate) => closed.has(gate.key)))
        limits.set(queue, (limits.get(queue) ?? new Set()).add(key));
  return new Map([...limits].map(([queue, keys]) => [queue, keys.size]));
}
