/**
 * Draining: a worker is started, everything that can run now runs, the worker is stopped again. The clock stands still
 * meanwhile, except where nothing but a timer of the engine (a batch that waits to fill) keeps work from going on.
 */
import type { Millrace } from "../client/millrace.ts";
import { missingCapabilities } from "../model/routing/capability.ts";
import { MillraceError } from "../model/error.ts";
import { nodePlatform } from "../platform/node-platform.ts";
import type { JobRecord } from "../store/records.ts";
import type { Handler } from "../worker/handler.ts";
import type { Worker } from "../worker/worker.ts";
import type { WorkerOptions } from "../worker/worker-settings.ts";
import type { Memory } from "./remembering-store.ts";
import { HeldTimers } from "./held-timers.ts";
import { settleTurn } from "./virtual-time.ts";
import type { VirtualTime } from "./virtual-time.ts";

export interface DrainReport {
  /** How many handlers were called. */
  readonly ran: number;
}

interface DrainOptions {
  readonly mill: Millrace;
  readonly memory: Memory;
  readonly time: VirtualTime;
  readonly handlers: readonly Handler[];
  readonly worker: WorkerOptions;
  readonly timeoutMs: number;
  /** How far the clock may be moved for the engine's own timers; a minute by default. */
  readonly timersMaxUs?: number;
  /** Jobs that a killed process had, by their fences: the clock is moved until each has begun again. */
  readonly taken?: ReadonlyMap<string, number>;
}

/** The duties that answer a clock; the others are upkeep and matter to no test. */
const clockDuties = [
  ...["promote", "reclaim", "attempt-timeout", "deadline", "time-to-live"],
  ...["suspension-timeout", "due-documents"],
];
/** After this many turns without a change the drain searches for what keeps jobs from ending. */
const quietTurnsMax = 20;
const realPauseMs = 2;
/** The longest wait of a batch that makes sense in a test. */
const timersMaxUs = 60_000_000;
const namedMax = 5;

export class Drain {
  readonly #options: DrainOptions;
  readonly #names: ReadonlySet<string>;
  readonly #capabilities: ReadonlySet<string>;
  #worker: Worker | null = null;
  #ran = 0;
  #running: Promise<DrainReport> | null = null;
  #quiet: (() => void)[] = [];
  #isAbandoned = false;
  readonly #timers: HeldTimers | null;
  #found: MillraceError | null = null;

  constructor(options: DrainOptions) {
    this.#options = options;
    this.#names = new Set(options.handlers.map(({ definition }) => definition.name));
    this.#capabilities = new Set(options.worker.capabilities);
    const isDurable = options.handlers.some(({ definition }) => "durable" in definition);
    this.#timers = isDurable ? new HeldTimers() : null;
  }

  /** How many handlers were called so far, in all drains. */
  get ran(): number {
    return this.#ran;
  }

  /** A drain that is asked for during a drain is the same drain. */
  run(timeoutMs: number | null): Promise<DrainReport> {
    this.#running ??= this.#run(timeoutMs ?? this.#options.timeoutMs).finally(() => {
      this.#running = null;
      this.#timers?.end();
      this.#reportQuiet();
    });
    return this.#running;
  }

  /** Resolves once every handler that can start has started, so that moving the clock then is felt by them. */
  whenQuiet(): Promise<void> {
    return this.#running === null ? Promise.resolve() : new Promise((resolve) => this.#quiet.push(resolve));
  }

  /** Of a process that was killed: a drain that runs never ends, and does nothing more. */
  abandon(): void {
    this.#isAbandoned = true;
  }

  #reportQuiet(): void {
    for (const resolve of this.#quiet.splice(0)) resolve();
  }

  async #run(timeoutMs: number): Promise<DrainReport> {
    const { mill, time } = this.#options;
    const ranBefore = this.#ran;
    this.#found = null;
    this.#timers?.begin();
    const untilUs = nodePlatform.monotonicUs() + timeoutMs * 1000;
    const timersUntilUs = time.elapsedUs + (this.#options.timersMaxUs ?? timersMaxUs);
    // A worker that is still there belongs to a drain that ran out of time; its handlers may have ended since.
    this.#worker ??= await mill.work(this.#options.handlers, this.#workerOptions());
    let quietTurns = 0;
    let lastSeen = "";
    for (;;) {
      await settleTurn();
      if (this.#isAbandoned) return new Promise(() => undefined);
      const unfinished = this.#unfinished();
      if (unfinished.length === 0) {
        let processed = 0;
        for (const name of clockDuties) processed += (await mill.duties.run(name)).processed;
        // The end of a node may leave work for the next one, and that work frees or ends further nodes.
        if (processed === 0 && this.#unfinished().length === 0 && this.#worker.running === 0) break;
      }
      if (nodePlatform.monotonicUs() >= untilUs) throw notDrained(unfinished, timeoutMs);
      const seen = `${this.#ran} ${unfinished.length} ${unfinished.reduce((sum, { rev }) => sum + rev, 0)}`;
      quietTurns = seen === lastSeen ? quietTurns + 1 : 0;
      lastSeen = seen;
      if (quietTurns < quietTurnsMax) continue;
      this.#reportQuiet();
      if (this.#worker.running > 0) await pauseReally();
      else if (await this.#areHeld(unfinished)) break;
      else if (!(await time.step(timersUntilUs))) throw notDrained(unfinished, timeoutMs);
    }
    const worker = this.#worker;
    this.#worker = null;
    await worker.stop();
    if (this.#found !== null) throw this.#found;
    return { ran: this.#ran - ranBefore };
  }

  #workerOptions(): WorkerOptions {
    const { worker } = this.#options;
    return {
      ...worker,
      middleware: [
        (_context, next) => {
          this.#ran += 1;
          return next();
        },
        ...(worker.middleware ?? []),
        ...(this.#timers === null ? [] : [this.#timers.layer((error) => (this.#found ??= error))]),
      ],
    };
  }

  /**
   * Jobs that have no handler here, or require what the worker does not offer, stay as they are: a test often only
   * checks that they were enqueued.
   */
  #unfinished(): readonly JobRecord[] {
    const { memory, time, taken } = this.#options;
    return memory
      .live()
      .filter(
        ({ id, name, requires = [], state, dueAt, fence }) =>
          this.#names.has(name) &&
          missingCapabilities(requires, this.#capabilities).length === 0 &&
          (state === "ready" ||
            state === "running" ||
            (state === "scheduled" && (dueAt <= time.now || taken?.get(id) === fence))),
      );
  }

  /**
   * Whether a pause, a limit or a group holds all of these back while nothing runs: they wait for the clock, or for
   * somebody.
   */
  async #areHeld(jobs: readonly JobRecord[]): Promise<boolean> {
    if (jobs.some(({ state }) => state !== "ready")) return false;
    for (const { id } of jobs)
      if (((await this.#options.mill.jobs.get(id))?.held ?? null) === null) return false;
    return true;
  }
}

function pauseReally(): Promise<void> {
  return new Promise((resolve) => nodePlatform.setTimer(realPauseMs, resolve));
}

function notDrained(jobs: readonly JobRecord[], timeoutMs: number): MillraceError {
  const named = jobs
    .slice(0, namedMax)
    .map(({ name, id, state, attempt }) => `${JSON.stringify(name)} (${id}, ${state}, attempt ${attempt})`);
  const rest = jobs.length > namedMax ? ` and ${jobs.length - namedMax} more` : "";
  return new MillraceError(
    "wait-timeout",
    `drain: after ${timeoutMs} ms these jobs had not ended: ${named.join(", ")}${rest}. A handler that waits for the test's clock needs clock.advance() during the drain.`,
  );
}
