/**
 * One run: a world from a seed, a phase with faults and work, then healing, draining, closing, and the evidence for the
 * checker. The same seed gives the same run, event by event, on a store in memory. On a real server it gives the same
 * plan and the same faults, but hints arrive when they like, and calls that meet there are served in any order.
 */
import { createHash } from "node:crypto";
import type { Logger } from "../../src/engine/log/logger.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { VirtualTime } from "../../src/testing/virtual-time.ts";
import { isTerminal } from "../../src/model/job/job-state.ts";
import type { Effect, Evidence, StepRun } from "../history/history.ts";
import { takeSnapshot } from "../history/snapshot.ts";
import type { Network } from "./faulty-store.ts";
import { openNetwork } from "./open-network.ts";
import type { RealStore } from "./open-network.ts";
import type { Plan } from "./plan.ts";
import { actOnce } from "./actors/sim-client.ts";
import type { ClientHost } from "./actors/sim-client.ts";
import { defineJobs } from "./actors/sim-jobs.ts";
import { openAllGates } from "./actors/sim-gate-operator.ts";
import { releaseGroups } from "./actors/sim-group-operator.ts";
import { resetAllKeys } from "./actors/sim-key-operator.ts";
import { resumeSchedules } from "./actors/sim-schedule-operator.ts";
import { signalAll } from "./actors/sim-run-client.ts";
import { readAllDocs } from "../support/walk.ts";
import { SimNode } from "./actors/sim-node.ts";

export interface Run {
  readonly evidence: Evidence;
  readonly plan: Plan;
  readonly hash: string;
  readonly events: number;
  readonly clockSteps: number;
}

export interface RunOptions {
  readonly log?: Logger;
  /** Replaces what skew drew: for the test that wall clocks decide nothing. */
  readonly offsetMs?: number;
  /** Of the store; one where it is not given. */
  readonly partitions?: number;
  /** In place of the store in memory. */
  readonly realStore?: RealStore;
  readonly isBucket?: boolean;
}

const dayMs = 86_400_000;
const drainMaxUs = 30 * 60_000_000;
/**
 * Longer than every grace, poll and backoff that a closed node could still wait for, and than a handler that ignores
 * its abort.
 */
const restMs = 120_000;
const longestHandlerLeases = 4;
/** Ten times what the busiest runs have: workers that ask again at once, and again, come to more. */
const eventsMax = 300_000;

export async function runSimulation(plan: Plan, options: RunOptions = {}): Promise<Run> {
  const world = new World(plan, options);
  await world.open();
  try {
    await world.storm();
    await world.heal();
    return await world.finish();
  } finally {
    await world.network.close();
  }
}

class World {
  readonly time: VirtualTime;
  readonly plan: Plan;
  network!: Network;
  readonly #options: RunOptions;
  readonly #random: SeededRandom;
  readonly #effects: Effect[] = [];
  readonly #steps: StepRun[] = [];
  readonly #jobs;
  readonly #storeClock = { offsetMs: 0 };
  #nodes: SimNode[] = [];
  /** Does not work; opens what was left closed, once the world has healed. */
  #operator: SimNode | null = null;
  #client!: ClientHost;
  #started = 0;
  #events = 0;
  #clockSteps = 0;
  #healedAt: number | null = null;
  #isOver = false;
  #isClosing = false;

  constructor(plan: Plan, options: RunOptions) {
    this.plan = plan;
    this.#options = options;
    this.#random = createSeededRandom(plan.seed).fork("world");
    const ties = createSeededRandom(plan.seed).fork("ties");
    this.time = new VirtualTime({ tieBreak: () => ties.next() });
    this.#jobs = defineJobs(plan);
  }

  async open(): Promise<void> {
    const random = this.#random.fork("store");
    const { partitions = 1, realStore, isBucket = false } = this.#options;
    const { plan, time } = this;
    this.network = await openNetwork({
      plan,
      time,
      random,
      clock: this.#storeClock,
      partitions,
      realStore,
      isBucket,
    });
    this.#client = {
      network: this.network,
      jobs: this.#jobs,
      knownIds: [],
      given: new Map(),
      keys: 0,
      runs: [],
      travels: [],
      rotations: [],
    };
  }

  async storm(): Promise<void> {
    const { plan } = this;
    for (let index = 0; index < plan.nodes; index++) this.#startNode();
    this.#scheduleClients();
    if (plan.isOn.crash)
      this.#repeatedly("crash", 600 / plan.rate.crash ** 0.6, () => this.#pickNode()?.crash());
    if (plan.isOn.pause) this.#repeatedly("pause", 600 / plan.rate.pause ** 0.6, () => this.#pauseOne());
    if (plan.isOn.skew) this.#repeatedly("skew", 600 / plan.rate.skew ** 0.6, () => this.#stepClock());
    if (plan.isOn.outage) this.#repeatedly("outage", 600 / plan.rate.outage ** 0.6, () => this.#goAway());
    this.#repeatedly("stop", 8000, () => void this.#restartWorker());
    await this.#runFor(plan.phaseMs * 1000);
  }

  /** All faults off, everything awake; then everything that was accepted must come to its end. */
  async heal(): Promise<void> {
    this.network.isStormy = false;
    this.network.isAway = false;
    this.#isOver = true;
    for (const node of this.#nodes) node.process.resume();
    while (this.#nodes.length < Math.max(1, this.plan.nodes)) this.#startNode();
    for (const node of this.#nodes) void node.work();
    if (!this.#canServeAll()) this.#startNode();
    // A poison pill takes the leaders down also after the healing, and then nobody is there to be punctual.
    if (!this.plan.isOn.poison) this.#healedAt = (await this.network.observer.describe()).now;
    const untilUs = this.time.elapsedUs + drainMaxUs;
    while (this.time.elapsedUs < untilUs) {
      await this.#runFor(2_000_000);
      // Before that somebody may be about to close a queue or to change a limit.
      if (this.#operator === null && !this.#isActing()) this.#openGates();
      if (!(await this.#hasWork())) return;
      const isHeld = this.plan.laning.groups.some(({ holdsOnFailure }) => holdsOnFailure);
      // Behind the question, because its own calls would be taken for work.
      if (this.#operator !== null && isHeld) void releaseGroups(this.#operator);
      if (this.#operator !== null && this.plan.running.share > 0) void signalAll(this.#operator);
    }
  }

  #openGates(): void {
    this.#operator = this.#createNode("operator", []);
    void openAllGates(this.network, this.#operator);
    void resetAllKeys(this.network, this.#operator);
    void resumeSchedules(this.plan.scheduling, this.#operator);
  }

  async finish(): Promise<Run> {
    this.#isClosing = true;
    const nodes = this.#operator === null ? this.#nodes : [...this.#nodes, this.#operator];
    const closing = nodes.map(async (node) => {
      await node.stopWorkers(this.plan.leaseMs);
      await node.mill.close();
    });
    let isClosed = false;
    void Promise.all(closing).then(() => (isClosed = true));
    for (let wait = 0; wait < 100 && !isClosed; wait++) await this.#runFor(5_000_000);
    await this.#runFor((restMs + longestHandlerLeases * this.plan.leaseMs) * 1000);
    const snapshot = await takeSnapshot(this.network.observer, this.#random.fork("pages"));
    const pending = nodes.reduce((sum, node) => sum + node.process.pending, 0);
    const evidence: Evidence = {
      ...this.network.witnessed({ operations: this.network.history, effects: this.#effects }),
      snapshot,
      steps: this.#steps,
      miscounts: await this.network.miscounts(),
      isFaultFree: this.plan.isFaultFree,
      healedAt: this.#healedAt,
      leftovers: { timers: pending, watchers: this.network.watchers, "unclosed nodes": isClosed ? 0 : 1 },
    };
    return {
      evidence,
      plan: this.plan,
      hash: hashOf(evidence),
      events: this.#events,
      clockSteps: this.#clockSteps,
    };
  }

  #startNode(): void {
    const number = ++this.#started;
    const { capabilities } = this.plan.gating;
    const random = this.#random.fork(`capabilities ${number}`);
    const offered = capabilities.filter(() => this.#isOver || random.chance(0.5));
    const node = this.#createNode(`node-${number}`, offered);
    this.#nodes.push(node);
    void node.work();
  }

  #createNode(name: string, capabilities: readonly string[]): SimNode {
    const number = this.#started;
    const random = this.#random.fork(`node ${number}`);
    const isSkewed = this.plan.isOn.skew;
    return new SimNode({
      name,
      network: this.network,
      random,
      jobs: this.#jobs,
      effects: this.#effects,
      steps: this.#steps,
      processId: 1000 + number,
      offsetMs: this.#options.offsetMs ?? (isSkewed ? random.whole(-dayMs, dayMs) : 0),
      drift: isSkewed ? (random.next() - 0.5) / 50 : 0,
      capabilities,
      log: this.#options.log ?? false,
      onCrash: (crashed) => this.#crashed(crashed),
    });
  }

  #crashed(crashed: SimNode): void {
    this.#nodes = this.#nodes.filter((node) => node !== crashed);
    this.time.after(this.#random.whole(1000, 5_000_000), () => {
      const isEnough = this.#nodes.length >= this.plan.nodes && (!this.#isOver || this.#canServeAll());
      if (!isEnough && !this.#isClosing) this.#startNode();
    });
  }

  #canServeAll(): boolean {
    const { capabilities } = this.plan.gating;
    return this.#nodes.some((node) => node.capabilities.length === capabilities.length);
  }

  #pickNode(): SimNode | undefined {
    return this.#nodes.length === 0 ? undefined : this.#random.pick(this.#nodes);
  }

  #pauseOne(): void {
    const node = this.#pickNode();
    if (node === undefined) return;
    node.process.pause();
    this.time.after(this.#random.whole(1000, this.plan.leaseMs * 3000), () => node.process.resume());
  }

  /** Shorter and longer than a lease, and than the time after which callers give up. */
  #goAway(): void {
    this.network.isAway = true;
    this.time.after(this.#random.whole(50_000, 15_000_000), () => (this.network.isAway = false));
  }

  #stepClock(): void {
    this.#clockSteps += 1;
    const node = this.#pickNode();
    if (node !== undefined && this.#random.chance(0.7))
      node.process.clock.offsetMs += this.#random.whole(-dayMs, dayMs);
    // Backwards the store's clock stands still until time has caught up, so a long step would only stretch the run.
    else this.#storeClock.offsetMs += this.#random.whole(-3000, 6000);
  }

  async #restartWorker(): Promise<void> {
    const node = this.#pickNode();
    if (node === undefined || !node.isWorking) return;
    await node.stopWorkers(this.#random.whole(0, 2 * this.plan.leaseMs));
    if (!this.#isClosing) await node.work();
  }

  #scheduleClients(): void {
    const random = this.#random.fork("clients");
    for (let count = 0; count < this.plan.jobs; count++) {
      this.time.after(random.whole(0, Math.floor(this.plan.phaseMs * 700)), () => {
        const node = this.#pickNode();
        if (node === undefined) return;
        node.process.deliver(0, () => void actOnce(this.#client, node, random.fork(count)));
      });
    }
  }

  /** At random times, on average once per period. */
  #repeatedly(name: string, periodMs: number, act: () => void): void {
    const random = this.#random.fork(name);
    const next = (): void => {
      this.time.after(random.whole(1000, Math.floor(periodMs * 2000)), () => {
        if (this.#isOver) return;
        act();
        next();
      });
    };
    next();
  }

  /** Somebody is still at something, or a call of a dead process is on its way. */
  #isActing(): boolean {
    return this.#nodes.some(({ actions }) => actions > 0) || this.network.onTheWay > 0;
  }

  async #hasWork(): Promise<boolean> {
    if (this.#isActing()) return true;
    if (this.plan.scheduling.schedules.length > 0) {
      const schedules = await readAllDocs(this.network.observer, "schedule", "", 500);
      if (schedules.some(({ dueAt }) => dueAt !== null)) return true;
    }
    const stateCounts = await this.network.observer.countJobs();
    return stateCounts.some(({ state, count }) => count > 0 && !isTerminal(state));
  }

  async #runFor(us: number): Promise<void> {
    const untilUs = this.time.elapsedUs + us;
    while (await this.network.inFlight.step(untilUs))
      if (++this.#events > eventsMax)
        throw new Error(`seed ${this.plan.seed}: more than ${eventsMax} events`);
    await this.time.advance(Math.max(0, untilUs - this.time.elapsedUs));
  }
}

function hashOf(evidence: Evidence): string {
  const { operations, effects, snapshot } = evidence;
  // V8 tells the same error with other frames once it has compiled its caller.
  const told = JSON.stringify([operations, effects, snapshot]).replaceAll(/\\+n {4}at [^\\"]*/g, "");
  return createHash("sha256").update(told).digest("hex").slice(0, 16);
}
