/**
 * A node: one process with its own Millrace over the shared store, its workers, clients and duties. It can be killed,
 * paused and started again under a new name; a restarted node knows nothing of its past.
 */
import { Millrace } from "../../../src/client/millrace.ts";
import { readMillraceOptions } from "../../../src/client/millrace-options.ts";
import { createServices } from "../../../src/engine/services.ts";
import type { Logger } from "../../../src/engine/log/logger.ts";
import { isMillraceError } from "../../../src/model/error.ts";
import { partitionedStore } from "../../../src/store/partitioned/partitioned-store.ts";
import type { Store } from "../../../src/store/store.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { Worker } from "../../../src/worker/worker.ts";
import type { Effect, StepRun, Stop } from "../../history/history.ts";
import { connectStore } from "../faulty-store.ts";
import type { Network } from "../faulty-store.ts";
import { makeHandlers } from "./sim-jobs.ts";
import type { SimJob } from "./sim-jobs.ts";
import { makeRunHandlers } from "./sim-runs.ts";
import { SimProcess } from "./sim-process.ts";

export interface NodeOptions {
  readonly name: string;
  readonly network: Network;
  readonly random: SeededRandom;
  readonly jobs: readonly SimJob[];
  readonly effects: Effect[];
  readonly steps: StepRun[];
  readonly processId: number;
  readonly offsetMs: number;
  readonly drift: number;
  readonly capabilities: readonly string[];
  readonly log: Logger | false;
  readonly onCrash: (node: SimNode) => void;
}

const dayMs = 86_400_000;
const startAgainMs = 500;

/** What becomes of a start that was refused: nobody works on a node that is closed, any other tries again. */
function orAway(error: unknown): "away" | readonly Worker[] {
  if (!isMillraceError(error)) throw error;
  return error.code === "closed" ? [] : "away";
}

export class SimNode {
  readonly process: SimProcess;
  readonly mill: Millrace;
  readonly #options: NodeOptions;
  readonly #connection: Store;
  #workers: readonly Worker[] = [];
  #isStarting = false;
  #isStopping = false;
  /** What clients of this node are still at. */
  actions = 0;

  constructor(options: NodeOptions) {
    this.#options = options;
    const { name, network, random, processId, offsetMs, drift } = options;
    const { plan } = network;
    this.process = new SimProcess({
      name,
      time: network.time,
      random: random.fork("platform"),
      clock: { offsetMs, drift },
      processId,
    });
    this.#connection = this.#connect(random);
    const read = readMillraceOptions(this.process.platform, {
      log: options.log,
      giveUp: plan.giveUpMs,
      ageing: plan.ageingMs,
      retention: { completed: 30 * dayMs, failed: 30 * dayMs, other: 30 * dayMs },
    });
    this.mill = new Millrace(
      createServices(this.#connection, this.process.platform, read.settings, read.log),
      read.duties,
    );
  }

  #connect(random: SeededRandom): Store {
    const { network } = this.#options;
    const { parts, clients } = network;
    const client = clients[this.#options.processId % clients.length];
    if (parts.length === 1) return connectStore(network, this.process, random.fork("network"), client);
    const ways = parts.map((part, number) =>
      connectStore(network, this.process, random.fork(`network ${number}`), part, number),
    );
    return partitionedStore(ways, { platform: this.process.platform });
  }

  /** For what clients have no operation of their own for. */
  get store(): Store {
    return this.#connection;
  }

  get capabilities(): readonly string[] {
    return this.#options.capabilities;
  }

  get isWorking(): boolean {
    return this.#workers.length > 0;
  }

  async work(): Promise<void> {
    if (this.isWorking || this.#isStarting || !this.process.isAlive) return;
    this.#isStarting = true;
    const { network, jobs, effects, steps, capabilities } = this.#options;
    const { plan, time } = network;
    const host = {
      plan,
      process: this.process,
      effects,
      steps,
      nowUs: () => time.elapsedUs,
      partitions: network.parts.length,
      crash: () => this.crash(),
    };
    const handlers = [...makeHandlers(jobs, host), ...makeRunHandlers(host)];
    const options = {
      concurrency: plan.concurrency,
      lease: plan.leaseMs,
      abortGrace: plan.abortGraceMs,
      shutdownGrace: plan.leaseMs,
      capabilities,
    };
    const times = { invokedUs: time.elapsedUs, answeredUs: time.elapsedUs, order: null };
    network.history.push({ kind: "work", actor: this.process.name, seen: "ok", capabilities, ...times });
    const start = (): Promise<readonly Worker[]> =>
      Promise.all(Array.from({ length: plan.workers }, () => this.mill.work(handlers, options)));
    let workers = await start().catch(orAway);
    // The store must know the limits of its definitions before a worker begins.
    while (workers === "away") {
      await this.process.sleep(startAgainMs);
      workers = await start().catch(orAway);
    }
    this.#workers = workers;
    this.#isStarting = false;
  }

  /** A stop in good order; afterwards the store is asked, past all faults, what it still holds for that worker. */
  async stopWorkers(graceMs: number): Promise<void> {
    if (!this.isWorking || this.#isStopping) return;
    this.#isStopping = true;
    await Promise.all(this.#workers.map((worker) => this.#stopWorker(worker, graceMs)));
    this.#isStopping = false;
    this.#workers = [];
  }

  async #stopWorker(worker: Worker, graceMs: number): Promise<void> {
    const { network } = this.#options;
    const wasStormy = network.isStormy;
    const invokedUs = network.time.elapsedUs;
    const report = await worker.stop({ grace: graceMs });
    const page = await network.store.findJobs({
      filter: { states: ["running"] },
      max: 500,
      scanMax: 100_000,
      cursor: null,
    });
    network.history.push({
      kind: "stop",
      actor: this.process.name,
      owner: worker.id,
      invokedUs,
      answeredUs: network.time.elapsedUs,
      seen: "ok",
      order: network.orders,
      held: page.jobs.filter(({ owner }) => owner === worker.id).map(({ id }) => id),
      isUndisturbed: !wasStormy && report.notStopped === 0,
    } satisfies Stop);
  }

  /** Kill -9: nothing of the process happens any more, and its connections go with it. */
  crash(): void {
    if (!this.process.isAlive) return;
    this.process.kill();
    void this.#connection.close();
    this.#options.onCrash(this);
  }
}
