/**
 * A world for one flow and one crash: a process submits it and works on it, and dies before or behind one of its calls
 * to the store. Whatever it waited for never comes. Then another process, which knows nothing, works on until
 * everything has ended. The calls of an undisturbed life are counted first, so that a test can let the process die at
 * each of them.
 */
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import type { FlowRun } from "../../src/client/flows/flows.ts";
import { createServices } from "../../src/engine/services.ts";
import type { Flow } from "../../src/engine/flows/flow.ts";
import type { SubmitFlowOptions } from "../../src/client/flows/flows.ts";
import { flowQueue } from "../../src/model/flow/flow-meta.ts";
import { isTerminal } from "../../src/model/job/job-state.ts";
import type { FeedRecord, JobRecord } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { VirtualTime } from "../../src/testing/virtual-time.ts";
import type { Handler } from "../../src/worker/handler.ts";
import { findAll, readAllDocs, readWholeFeed } from "../support/walk.ts";
import type { Network } from "./faulty-store.ts";
import { openNetwork } from "./open-network.ts";
import type { RealStore } from "./open-network.ts";
import { drawPlan } from "./plan.ts";
import { SimProcess } from "./actors/sim-process.ts";

export interface Scenario {
  readonly name: string;
  readonly flow: () => Flow;
  readonly options?: SubmitFlowOptions;
  readonly handlers: (process: SimProcess) => readonly Handler[];
  /** What an operator does behind the submit; nobody does it again after the crash. */
  readonly acts?: (mill: Millrace, run: FlowRun, process: SimProcess) => Promise<unknown>;
  /** Whether nothing is left of the flow in the end. */
  readonly isPruned?: boolean;
}

export interface CrashPoint {
  readonly call: number;
  readonly when: "before" | "behind";
}

export interface WorldOptions {
  readonly realStore?: RealStore | undefined;
  /** Plants a bug in the store. */
  readonly bend?: (store: Store) => Store;
}

export interface Life {
  /** How many calls the first process made until everything had ended. */
  readonly calls: number;
  readonly jobs: readonly JobRecord[];
  readonly feed: readonly FeedRecord[];
}

const patienceUs = 30 * 60_000_000;
const lookUs = 1_000_000;
const latencyUs = 100;
const docKinds = ["deferred", "flow-cancel", "flow-replay"];

export async function liveThrough(
  scenario: Scenario,
  crash: CrashPoint | null,
  { realStore, bend = (store) => store }: WorldOptions = {},
): Promise<Life> {
  const time = new VirtualTime();
  const random = createSeededRandom(1);
  const clock = { offsetMs: 0 };
  const opened = await openNetwork({ plan: drawPlan(0), time, random, clock, realStore });
  const network: Network = { ...opened, store: bend(opened.store) };
  const first = new CrashingProcess("first", network, crash);
  let second: CrashingProcess | null = null;
  try {
    void first.live(scenario, true);
    for (const untilUs = time.elapsedUs + patienceUs; time.elapsedUs < untilUs;) {
      const nextUs = time.elapsedUs + lookUs;
      while (await network.inFlight.step(nextUs));
      await time.advance(Math.max(0, nextUs - time.elapsedUs));
      const { isDone } = second ?? first;
      if (isDone && (first.isAlive || second !== null) && (await isOver(scenario, network.store)))
        return await lookBack(network, first.calls);
      if (first.isAlive || second !== null) continue;
      second = new CrashingProcess("second", network, null);
      const stateCounts = await network.store.countJobs();
      void second.live(
        scenario,
        !stateCounts.some(({ queue }) => queue === flowQueue) && scenario.isPruned !== true,
      );
    }
    const left = (await findAll(network.store)).filter(({ state }) => !isTerminal(state));
    const told = left.map(({ id, state, waits }) => `${id.slice(id.indexOf("."))} ${state} ${waits}`);
    throw new Error(`${scenario.name}, crash ${JSON.stringify(crash)}: hangs at ${told.join("; ")}`);
  } finally {
    first.process.kill();
    second?.process.kill();
    await network.close();
  }
}

async function isOver({ isPruned = false }: Scenario, store: Store): Promise<boolean> {
  const stateCounts = (await store.countJobs()).filter(({ count }) => count > 0);
  if (isPruned ? stateCounts.length > 0 : !stateCounts.every(({ state }) => isTerminal(state))) return false;
  for (const kind of docKinds) if ((await readAllDocs(store, kind, "")).length > 0) return false;
  return true;
}

async function lookBack({ store, miscounts }: Network, calls: number): Promise<Life> {
  const [wrong] = await miscounts();
  if (wrong !== undefined) throw new Error(`behind some commit ${wrong}`);
  return { calls, jobs: await findAll(store), feed: await readWholeFeed(store) };
}

class CrashingProcess {
  readonly process: SimProcess;
  readonly #mill: Millrace;
  readonly #network: Network;
  readonly #crash: CrashPoint | null;
  calls = 0;
  /** Behind the submit, and what an operator did. */
  isDone = false;

  constructor(name: string, network: Network, crash: CrashPoint | null) {
    this.#network = network;
    this.#crash = crash;
    const random = createSeededRandom(1).fork(name);
    const clock = { offsetMs: 0, drift: 0 };
    this.process = new SimProcess({ name, time: network.time, random, clock, processId: 1 });
    const { platform } = this.process;
    const read = readMillraceOptions(platform, { log: false });
    this.#mill = new Millrace(
      createServices(this.#connect(), platform, read.settings, read.log),
      read.duties,
    );
  }

  get isAlive(): boolean {
    return this.process.isAlive;
  }

  async live({ flow, options = {}, handlers, acts }: Scenario, submits: boolean): Promise<void> {
    await this.#mill.work(handlers(this.process), { concurrency: 50, lease: 5000 });
    if (submits) {
      const run = await this.#mill.submit(flow(), options);
      await acts?.(this.#mill, run, this.process);
    }
    this.isDone = true;
  }

  #connect(): Store {
    const { store } = this.#network;
    const calls = Object.entries(store).map(([kind, operation]: [string, unknown]) => [
      kind,
      typeof operation === "function"
        ? (request: unknown) => this.#call(() => operation(request) as Promise<unknown>)
        : operation,
    ]);
    return {
      ...(Object.fromEntries(calls) as Store),
      watch: (listener) => store.watch((hint) => void this.process.deliver(latencyUs, () => listener(hint))),
      inTransaction: (connection) => store.inTransaction(connection),
      close: () => Promise.resolve(),
    };
  }

  #call(invoke: () => Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.process.deliver(latencyUs, () => {
        this.calls += 1;
        const isPoint = this.calls === this.#crash?.call;
        if (isPoint) this.process.kill();
        if (isPoint && this.#crash?.when === "before") return;
        invoke().then(
          (answer) => void this.process.deliver(latencyUs, () => resolve(answer)),
          (error: unknown) => void this.process.deliver(latencyUs, () => reject(error as Error)),
        );
      });
    });
  }
}
