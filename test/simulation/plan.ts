/**
 * Swarm testing: each seed draws its own mix, so that a run without one fault shows what that fault hides in the
 * others. Every class of faults is off with probability 1/2; every fifth seed has none at all and is the control run.
 */
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { describeGating, drawGating } from "./gating.ts";
import type { Gating } from "./gating.ts";
import { describeLaning, drawLaning } from "./lanes.ts";
import type { Laning } from "./lanes.ts";
import { describeScheduling, drawScheduling } from "./scheduling.ts";
import type { Scheduling } from "./scheduling.ts";
import { describeFlowing, drawFlowing } from "./flowing.ts";
import type { Flowing } from "./flowing.ts";
import { describeRunning, drawRunning } from "./actors/sim-run-client.ts";
import type { Running } from "./actors/sim-run-client.ts";

export const faultClasses = [
  "crash",
  "poison",
  "lost-reply",
  "lost-request",
  "unavailable",
  "outage",
  "slow",
  "hang",
  "pause",
  "skew",
  "hints",
] as const;
export type FaultClass = (typeof faultClasses)[number];

export interface Plan {
  readonly seed: number;
  readonly nodes: number;
  /** Workers per node: they share its duties and the renewal of their leases. */
  readonly workers: number;
  readonly queues: number;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly abortGraceMs: number;
  readonly giveUpMs: number;
  /** Strict priority, or the ageing that one level is worth. */
  readonly ageingMs: number | false;
  /** How many jobs clients enqueue, roughly. */
  readonly jobs: number;
  readonly phaseMs: number;
  readonly isOn: Readonly<Record<FaultClass, boolean>>;
  /** Per class, how often it strikes, from 0 to 1. */
  readonly rate: Readonly<Record<FaultClass, number>>;
  /** How often clients interfere: cancel, retry, reschedule, delete. */
  readonly interference: number;
  /** How often operators interfere: take a job from its worker, empty a queue, clear its history. */
  readonly operating: number;
  /** What holds jobs back, beside free slots. */
  readonly gating: Gating;
  /** Which jobs stand in line with others. */
  readonly laning: Laning;
  /** What makes jobs by the clock. */
  readonly scheduling: Scheduling;
  /** What clients do with flows. */
  readonly flowing: Flowing;
  /** How often clients add to counters instead of enqueueing. */
  readonly counting: number;
  /** What clients do with durable runs. */
  readonly running: Running;
  /** No hint ever arrives, as on a store without push: only the slow reads behind them are left. */
  readonly hearsNothing: boolean;
  readonly isFaultFree: boolean;
}

const controlEvery = 5;

export function drawPlan(seed: number): Plan {
  const random = createSeededRandom(seed).fork("plan");
  const isFaultFree = seed % controlEvery === 0;
  const leaseMs = Math.round(200 * 300 ** (random.next() ** 1.5));
  const isOn = {} as Record<FaultClass, boolean>;
  const rate = {} as Record<FaultClass, number>;
  for (const name of faultClasses) {
    // Each from a stream of its own: a new class must not change what an old seed means more than it has to.
    const own = random.fork(name);
    isOn[name] = own.chance(0.5) && !isFaultFree;
    rate[name] = drawRate(own);
  }
  return {
    seed,
    nodes: random.whole(1, 6),
    workers: random.fork("workers").pick([1, 1, 2, 3]),
    queues: random.whole(1, 4),
    concurrency: random.whole(1, 8),
    leaseMs,
    abortGraceMs: Math.round(leaseMs * (0.5 + random.next())),
    // The least that leaves a call its way there and back.
    giveUpMs: random.pick([100, 1000, 10_000]),
    ageingMs: random.pick([false, 1, 5000, 30_000]),
    jobs: random.whole(10, 70),
    phaseMs: Math.min(Math.max(leaseMs * 5, 15_000), 120_000),
    isOn,
    rate,
    interference: random.pick([0, 0.1, 0.4]),
    // From a stream of its own, and 0 for every seed of seeds.ts, so that those mean what they meant.
    operating: random.fork("operating").pick([0.1, 0, 0, 0.3]),
    gating: drawGating(random.fork("gates")),
    laning: drawLaning(random.fork("lanes")),
    scheduling: drawScheduling(random.fork("schedules")),
    flowing: drawFlowing(random.fork("flows")),
    // 0 for every seed of seeds.ts, so that those mean what they meant.
    counting: random.fork("sums").pick([0.15, 0, 0]),
    running: drawRunning(random.fork("runs")),
    hearsNothing: random.chance(0.1),
    isFaultFree,
  };
}

/** Mostly gentle, sometimes a storm. */
function drawRate(random: SeededRandom): number {
  return random.pick([0.01, 0.03, 0.1, 0.3]);
}

/** The plan in one line, for the report of a failure. */
export function describePlan(plan: Plan): string {
  const faults = faultClasses.filter((name) => plan.isOn[name]).map((name) => `${name}:${plan.rate[name]}`);
  return `${plan.nodes} nodes with ${plan.workers} workers, ${plan.queues} queues, ${plan.concurrency} slots, lease ${plan.leaseMs} ms, ${plan.jobs} jobs, faults ${faults.join(" ") || "none"}${describeGating(plan.gating)}${describeLaning(plan.laning)}${describeScheduling(plan.scheduling)}${describeFlowing(plan.flowing)}${describeRunning(plan.running)}${plan.hearsNothing ? ", without hints of others" : ""}`;
}
