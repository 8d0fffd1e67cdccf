/**
 * A world for one scenario and one crash: a process begins it and works on it, and dies before or behind one of its
 * calls to the store. Whatever it waited for never comes. Then another process, which knows nothing, works on until
 * everything has ended. The calls of an undisturbed life are counted first, so that a test can let the process die at
 * each of them.
 */
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import type { FlowRun } from "../../src/client/flows/flows.ts";
import { createServices } from "../../src/engine/services.ts";
import type { Flow } from "../../src/engine/flows/flow.ts";
import type { SubmitFlowOptions } from "../../src/engine/flows/submit-options.ts";
import { flowQueue } from "../../src/model/flow/flow-meta.ts";
import { roundOf } from "../../src/model/durable/durable-marks.ts";
import { isTerminal } from "../../src/model/job/job-state.ts";
import type { Entry, FeedRecord, JobRecord } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { VirtualTime } from "../../src/testing/virtual-time.ts";
import type { Handler } from "../../src/worker/handler.ts";
import { findAll, readAllDocs, readWholeFeed, readWholeJournal } from "../support/walk.ts";
import type { Network } from "./faulty-store.ts";
import { openNetwork } from "./open-network.ts";
import type { RealStore } from "./open-network.ts";
import { drawPlan } from "./plan.ts";
import { SimProcess } from "./actors/sim-process.ts";

interface AnyScenario {
  readonly name: string;
  /** Called for each process. @param effect notes what the living process does outside of the store. */
  readonly handlers: (process: SimProcess, effect: (what: string) => void) => readonly Handler[];
}

export interface FlowScenario extends AnyScenario {
  readonly flow: () => Flow;
  readonly options?: SubmitFlowOptions;
  /** What an operator does behind the submit; nobody does it again after the crash. */
  readonly acts?: (mill: Millrace, run: FlowRun, process: SimProcess) => Promise<unknown>;
  /** Whether nothing is left of the flow in the end. */
  readonly isPruned?: boolean;
}

export interface RunScenario extends AnyScenario {
  /** What clients do. After the crash they do it again from the start, as with all that has ids and keys. */
  readonly operates: (mill: Millrace, process: SimProcess) => Promise<unknown>;
}

export type Scenario = FlowScenario | RunScenario;

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
  /** Those of the first process's calls that changed something, by their numbers. */
  readonly commits: readonly number[];
  readonly jobs: readonly JobRecord[];
  readonly feed: readonly FeedRecord[];
  /** Of each durable run that has one. */
  readonly journals: readonly Journal[];
  /** What handlers did outside of the store, in order. */
  readonly effects: readonly Effect[];
  /** The journals at the time at which the second process began. */
  readonly atCrash: readonly Journal[];
}

export interface Journal {
  readonly id: string;
  readonly round: number;
  readonly entries: readonly Entry[];
}

interface Effect {
  readonly by: string;
  readonly what: string;
}

const commitKinds: ReadonlySet<string> = new Set<keyof Store>([
  ...(["submit", "claim", "settleIfLeased", "recordIfLeased", "changeIf", "promoteDue", "putDocs"] as const),
]);

/** A claim or a promotion without a job. */
function foundNothing(answer: unknown): boolean {
  const { jobs, count } = answer as { readonly jobs?: readonly unknown[]; readonly count?: number };
  return jobs?.length === 0 || count === 0;
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
  const effects: Effect[] = [];
  let atCrash: readonly Journal[] = [];
  const first = new CrashingProcess("first", network, crash, effects);
  let second: CrashingProcess | null = null;
  try {
    void first.live(scenario, true);
    for (const untilUs = time.elapsedUs + patienceUs; time.elapsedUs < untilUs;) {
      const nextUs = time.elapsedUs + lookUs;
      while (await network.inFlight.step(nextUs));
      await time.advance(Math.max(0, nextUs - time.elapsedUs));
      const { isDone } = second ?? first;
      if (isDone && (first.isAlive || second !== null) && (await isOver(scenario, network.store)))
        return { ...(await lookBack(network, first)), effects, atCrash };
      if (first.isAlive || second !== null) continue;
      second = new CrashingProcess("second", network, null, effects);
      const stateCounts = await network.store.countJobs();
      atCrash = await readJournals(network.store, await findAll(network.store));
      void second.live(
        scenario,
        !stateCounts.some(({ queue }) => queue === flowQueue) && !isPruned(scenario),
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

function isPruned(scenario: Scenario): boolean {
  return "flow" in scenario && scenario.isPruned === true;
}

async function isOver(scenario: Scenario, store: Store): Promise<boolean> {
  const stateCounts = (await store.countJobs()).filter(({ count }) => count > 0);
  if (isPruned(scenario) ? stateCounts.length > 0 : !stateCounts.every(({ state }) => isTerminal(state)))
    return false;
  for (const kind of docKinds) if ((await readAllDocs(store, kind, "")).length > 0) return false;
  return true;
}

async function lookBack(
  { store, miscounts }: Network,
  { calls, commits }: CrashingProcess,
): Promise<Omit<Life, "effects" | "atCrash">> {
  const [wrong] = await miscounts();
  if (wrong !== undefined) throw new Error(`behind some commit ${wrong}`);
  const jobs = await findAll(store);
  return {
    calls,
    commits,
    jobs,
    feed: await readWholeFeed(store),
    journals: await readJournals(store, jobs),
  };
}

async function readJournals(store: Store, jobs: readonly JobRecord[]): Promise<readonly Journal[]> {
  const journals: Journal[] = [];
  for (const { id, durable } of jobs) {
    if (durable === 0) continue;
    const read = await readWholeJournal(store, { id, after: 0, max: 1000 });
    if (read.kind === "ok") journals.push({ id, round: roundOf(read.durable), entries: read.entries });
  }
  return journals;
}

class CrashingProcess {
  readonly process: SimProcess;
  readonly #mill: Millrace;
  readonly #network: Network;
  readonly #crash: CrashPoint | null;
  readonly #effects: Effect[];
  calls = 0;
  readonly commits: number[] = [];
  /** Behind the submit, and what an operator did. */
  isDone = false;

  constructor(name: string, network: Network, crash: CrashPoint | null, effects: Effect[]) {
    this.#effects = effects;
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

  async live(scenario: Scenario, submits: boolean): Promise<void> {
    const effect = (what: string): void => {
      if (this.isAlive) this.#effects.push({ by: this.process.name, what });
    };
    await this.#mill.work(scenario.handlers(this.process, effect), { concurrency: 50, lease: 5000 });
    if ("operates" in scenario) await scenario.operates(this.#mill, this.process);
    else if (submits) {
      const { flow, options = {}, acts } = scenario;
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
        ? (request: unknown) => this.#call(kind, () => operation(request) as Promise<unknown>)
        : operation,
    ]);
    return {
      ...(Object.fromEntries(calls) as Store),
      watch: (listener) => store.watch((hint) => void this.process.deliver(latencyUs, () => listener(hint))),
      inTransaction: (connection) => store.inTransaction(connection),
      close: () => Promise.resolve(),
    };
  }

  #call(kind: string, invoke: () => Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.process.deliver(latencyUs, () => {
        const number = ++this.calls;
        const isPoint = number === this.#crash?.call;
        if (isPoint) this.process.kill();
        if (isPoint && this.#crash?.when === "before") return;
        invoke().then(
          (answer) => {
            if (commitKinds.has(kind) && !foundNothing(answer)) this.commits.push(number);
            void this.process.deliver(latencyUs, () => resolve(answer));
          },
          (error: unknown) => void this.process.deliver(latencyUs, () => reject(error as Error)),
        );
      });
    });
  }
}
