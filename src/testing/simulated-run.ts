/**
 * One run of a scenario on virtual time. The scenario's own calls come from a process that lives on. The handlers and
 * the duties are those of a worker process, which is killed at the crash point; another one takes its place at once.
 */
import { openStore } from "../open.ts";
import type { JobRecord } from "../store/records.ts";
import type { Store } from "../store/store.ts";
import type { Handler } from "../worker/handler.ts";
import { readLease } from "../worker/worker-settings.ts";
import { CommitCounter, ProcessStore } from "./crash-points.ts";
import type { CrashPoint } from "./crash-points.ts";
import { Drain } from "./drain.ts";
import type { DrainReport } from "./drain.ts";
import { rememberJobs } from "./remembering-store.ts";
import type { Memory } from "./remembering-store.ts";
import { createSeededRandom } from "./seeded-random.ts";
import { closeInVirtualTime, TestMillrace } from "./test-millrace.ts";
import { openTestMill } from "./test-options.ts";
import type { TestMill, TestSettings } from "./test-options.ts";
import { createVirtualPlatform } from "./virtual-platform.ts";
import type { VirtualPlatform } from "./virtual-platform.ts";
import { VirtualTime } from "./virtual-time.ts";

export interface RunSettings extends TestSettings {
  /** Called for each process. */
  readonly handlers: () => readonly Handler[];
  /** For how long after the scenario the clock goes on. */
  readonly afterwardsMs: number;
}

/** Longer than the delays of most retries: a drain after a kill goes on until the lost jobs have begun again. */
const backoffMaxMs = 3_600_000;
/** A run that never comes to rest ends here; each round moves the clock. */
const roundsMax = 10_000;

export class SimulatedRun {
  readonly t: TestMillrace;
  readonly counter: CommitCounter;
  readonly #world: World;
  readonly #settings: RunSettings;
  readonly #inner: Store;
  #worker: WorkerProcess;
  #restarts = 0;

  static async open(settings: RunSettings, crash: CrashPoint | null): Promise<SimulatedRun> {
    const time = new VirtualTime({ startAt: settings.startAt });
    const inner = await openStore(platformOf(time, settings, "store"), "sqlite::memory:");
    const { store, memory } = rememberJobs(inner);
    let run: SimulatedRun | null = null;
    const counter = new CommitCounter(crash, () => run?.kill());
    const world: World = { time, store, memory, counter };
    const client = await openTestMill(
      platformOf(time, settings, "client"),
      new ProcessStore(store, counter).store,
      settings.rest,
      false,
    );
    run = new SimulatedRun(settings, world, inner, client);
    await run.#worker.opened;
    return run;
  }

  private constructor(settings: RunSettings, world: World, inner: Store, client: TestMill) {
    this.#settings = settings;
    this.#world = world;
    this.#inner = inner;
    this.counter = world.counter;
    this.#worker = new WorkerProcess(settings, world, "worker 0", new Map());
    const drain = {
      run: (timeoutMs: number | null) => this.#drain(timeoutMs),
      whenQuiet: async () => {
        await this.#worker.opened;
        await Promise.race([this.#worker.drain?.whenQuiet(), this.#worker.killed]);
        await this.#worker.opened;
      },
    };
    const { time, memory } = world;
    this.t = new TestMillrace({
      ...client,
      memory,
      time,
      handlers: settings.handlers(),
      drain,
      isInline: false,
    });
  }

  kill(): void {
    const { memory } = this.#world;
    const running = memory.live().filter(({ state }) => state === "running");
    this.#worker.kill();
    this.#restarts += 1;
    const taken = new Map(running.map(({ id, fence }) => [id, fence]));
    this.#worker = new WorkerProcess(this.#settings, this.#world, `worker ${this.#restarts}`, taken);
  }

  /** Lets run what is due within the time after the scenario: retries, waits that time out. */
  async comeToRest(): Promise<void> {
    const { time, memory } = this.#world;
    const endAt = time.now + this.#settings.afterwardsMs;
    for (let round = 0; round < roundsMax; round++) {
      await this.#drain(null);
      const nextAt = Math.min(
        ...memory
          .live()
          .map(wakesAt)
          .filter((at) => at > time.now),
      );
      if (nextAt > endAt) return;
      await this.t.clock.advance(nextAt - time.now);
    }
  }

  async close(): Promise<void> {
    const { time } = this.#world;
    await this.t.close();
    const { mill } = this.#worker;
    if (mill !== null) await closeInVirtualTime(mill, time);
    await this.#inner.close();
  }

  async #drain(timeoutMs: number | null): Promise<DrainReport> {
    let ran = 0;
    for (;;) {
      const worker = this.#worker;
      await worker.opened;
      const ranBefore = worker.ran;
      const report = await Promise.race([worker.drain?.run(timeoutMs), worker.killed]);
      ran += worker.ran - ranBefore;
      if (report !== undefined) return { ran };
    }
  }
}

function wakesAt({ state, dueAt, ttlAt }: JobRecord): number {
  if (state === "scheduled") return dueAt;
  return state === "suspended" && ttlAt !== null ? ttlAt : Number.POSITIVE_INFINITY;
}

interface World {
  readonly time: VirtualTime;
  readonly store: Store;
  readonly memory: Memory;
  readonly counter: CommitCounter;
}

class WorkerProcess {
  /** Resolves when the process is up, or killed. */
  readonly opened: Promise<unknown>;
  readonly killed: Promise<undefined>;
  readonly #store: ProcessStore;
  readonly #resolveKilled: (value: undefined) => void;
  #isKilled = false;
  mill: TestMill["mill"] | null = null;
  drain: Drain | null = null;

  constructor(settings: RunSettings, world: World, name: string, taken: ReadonlyMap<string, number>) {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.killed = promise;
    this.#resolveKilled = resolve;
    this.#store = new ProcessStore(world.store, world.counter);
    this.opened = Promise.race([this.#open(settings, world, name, taken), promise]);
  }

  get ran(): number {
    return this.drain?.ran ?? 0;
  }

  async #open(
    settings: RunSettings,
    { time, memory }: World,
    name: string,
    taken: ReadonlyMap<string, number>,
  ): Promise<void> {
    const platform = platformOf(time, settings, name);
    const { mill } = await openTestMill(
      {
        ...platform,
        setTimer: (delayMs, run) => platform.setTimer(delayMs, () => (this.#isKilled ? undefined : run())),
        defer: (run) => platform.defer(() => (this.#isKilled ? undefined : run())),
      },
      this.#store.store,
      settings.rest,
      true,
    );
    const { worker, drainTimeoutMs } = settings;
    this.mill = mill;
    this.drain = new Drain({
      ...{ mill, memory, time, worker, taken },
      handlers: settings.handlers(),
      timeoutMs: drainTimeoutMs,
      timersMaxUs: (readLease(worker.lease, "simulate: worker.lease") + backoffMaxMs) * 1000,
    });
  }

  /** Nothing of it happens any more. Code of a handler that has begun goes on, as that of a process that stalled. */
  kill(): void {
    this.#isKilled = true;
    this.#store.kill();
    this.drain?.abandon();
    this.#resolveKilled(undefined);
  }
}

function platformOf(time: VirtualTime, { seed }: TestSettings, name: string): VirtualPlatform {
  return createVirtualPlatform({ time, turns: "real", random: createSeededRandom(seed).fork(name) });
}
