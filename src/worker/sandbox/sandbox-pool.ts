/**
 * The sandboxes of one handler. Idle ones are used again; new ones are started as jobs come, up to the slots of the
 * worker; worn ones are replaced, and long idle ones ended.
 *
 *   the handler's runs                                  jobs sent ahead to a busy sandbox
 *   quick on average, and nothing printed               up to `aheadMax`: it starts the next one without a wait
 *   slow, or something was printed                      none, until that is long past
 *
 * Without jobs ahead, the sandbox and the worker would wait for each other between any two jobs, which takes longer
 * than a quick job. If a sandbox ends, only the job that runs in it fails. While no sandbox can be started, each job
 * fails with the reason, and nothing hangs.
 */
import type { Needs } from "../../engine/services.ts";
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import { nodePlatform } from "../../platform/node-platform.ts";
import type { Timer } from "../../platform/platform.ts";
import { AttemptAborted } from "../control.ts";
import type { JobContext } from "../run/job-context.ts";
import { Sandbox } from "./sandbox.ts";
import type { EndedRun, SandboxStart } from "./sandbox.ts";
import { notBegun, SandboxRun } from "./sandbox-run.ts";

type SandboxPoolNeeds = Needs<"store" | "log">;

export interface SandboxPoolOptions extends Omit<SandboxStart, "freed" | "gone" | "hello"> {
  readonly file: URL | null;
  /** The maximum of sandboxes for each worker that uses the pool. */
  readonly size: number;
  /** The jobs that the handler may enqueue, by their names. */
  readonly jobs: ReadonlyMap<string, JobDefinition>;
  /** A sandbox is replaced after N jobs. */
  readonly recycleJobs: number;
  /** A sandbox that uses more memory is replaced after its job. */
  readonly recycleBytes: number;
}

const weighEveryMs = 1000;
/** Sandboxes that were idle for this long are ended, except one. */
const idleMs = 60_000;
/** Enough that the worker settles several jobs in a flush. It also bounds how many jobs wait for a slow one. */
const aheadMax = 15;
/** Runs are quick if their average is below this. */
const quickUs = 2000;
/** The weight of a new run in the average. A slow run ends sending ahead at once, for as many runs as it was slow. */
const smoothing = 1 / 16;
/**
 * A run that has printed counts as this slow, because the pool knows which run printed what only while jobs are sent
 * one at a time.
 */
const printedUs = 1_000_000;

export class SandboxPool {
  readonly #needs: SandboxPoolNeeds;
  readonly #options: SandboxPoolOptions;
  readonly #all = new Set<Sandbox>();
  /**
   * Sandboxes that take the next jobs, even if they still start. The last one is used first, so that surplus ones stay
   * idle.
   */
  readonly #idle: Sandbox[] = [];
  #users = 0;
  #takesAhead = false;
  /** Resolves when a job that found no sandbox may try again. */
  #changed = Promise.withResolvers<void>();
  #averageUs = 10 * quickUs;
  #weighing: Timer | null = null;
  #shrinking: Timer | null = null;

  constructor(needs: SandboxPoolNeeds, options: SandboxPoolOptions) {
    this.#needs = needs;
    this.#options = options;
  }

  /** How many jobs may be sent ahead to a busy sandbox now. */
  get ahead(): number {
    return this.#averageUs < quickUs && this.#takesAhead ? aheadMax : 0;
  }

  /**
   * Starts one sandbox, so that a handler that cannot be loaded is reported before the first job. @returns a function
   * that undoes it.
   */
  async open(): Promise<() => Promise<void>> {
    this.#users += 1;
    try {
      const first = this.#idle.at(-1) ?? this.#enter(this.#start());
      await first.ready;
    } catch (error) {
      this.#users -= 1;
      throw error;
    }
    return () => this.#leave();
  }

  async run(context: JobContext): Promise<unknown> {
    const { signal } = context;
    for (;;) {
      const sandbox = this.#pick();
      if (sandbox === null) await settledOr(this.#changed.promise, signal);
      else if (!sandbox.isReady) await settledOr(sandbox.ready, signal);
      if (signal.aborted) {
        if (sandbox?.load === 0) this.#enter(sandbox);
        throw signal.reason;
      }
      const outcome = sandbox === null ? notBegun : await this.#runIn(sandbox, context);
      if (outcome !== notBegun) return outcome;
    }
  }

  /** Null if all sandboxes are starting or busy, which is possible just after jobs were sent ahead. */
  #pick(): Sandbox | null {
    const free = this.#idle.pop() ?? this.#leastLoaded(this.ahead);
    if (free !== undefined) return free;
    if (this.#all.size < this.#options.size * Math.max(1, this.#users)) return this.#start();
    return this.#leastLoaded(aheadMax) ?? null;
  }

  async #runIn(sandbox: Sandbox, context: JobContext): Promise<unknown> {
    const run = new SandboxRun(context, this.#options.jobs);
    const { signal } = context;
    const abort = (): void =>
      sandbox.abort(run, signal.reason instanceof AttemptAborted ? signal.reason.reason : "cancel");
    signal.addEventListener("abort", abort);
    sandbox.run(run);
    this.#weighing ??= this.#weighSoon();
    try {
      return await run.outcome;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** The least busy sandbox that may be sent another job, if it has at most this many. */
  #leastLoaded(ahead: number): Sandbox | undefined {
    if (ahead === 0) return undefined;
    let found: Sandbox | undefined;
    for (const sandbox of this.#all)
      if (sandbox.takesAhead && sandbox.load <= ahead && !this.#isWorn(sandbox))
        if (found === undefined || sandbox.load < found.load) found = sandbox;
    return found;
  }

  #start(): Sandbox {
    const { file, jobs } = this.#options;
    const sandbox = new Sandbox({
      ...this.#options,
      hello: {
        ...(file === null ? {} : { file: file.href }),
        jobs: [...jobs.keys()],
        partitions: this.#needs.store.partitions ?? 1,
      },
      freed: (freed, ended) => this.#freed(freed, ended),
      gone: (gone) => this.#gone(gone),
    });
    this.#all.add(sandbox);
    void sandbox.ready.then(
      () => {
        this.#takesAhead = sandbox.takesAhead;
        this.#announceChange();
      },
      () => {},
    );
    return sandbox;
  }

  #announceChange(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  #enter(sandbox: Sandbox): Sandbox {
    if (this.#all.has(sandbox)) this.#idle.push(sandbox);
    return sandbox;
  }

  #isWorn(sandbox: Sandbox): boolean {
    return sandbox.isWorn || sandbox.runs >= this.#options.recycleJobs;
  }

  #freed(sandbox: Sandbox, { ranUs, hasPrinted }: EndedRun): void {
    this.#averageUs += ((hasPrinted ? printedUs : ranUs) - this.#averageUs) * smoothing;
    if (!this.#all.has(sandbox) || sandbox.load > 0) return;
    if (this.#isWorn(sandbox)) {
      this.#retire(sandbox);
      // Started before the next job needs it.
      if (this.#idle.length === 0) this.#enter(this.#start());
    } else this.#enter(sandbox);
    if (this.#idle.length > 1) this.#shrinking ??= this.#shrinkLater();
    this.#announceChange();
  }

  #retire(sandbox: Sandbox): void {
    this.#delete(sandbox);
    void sandbox.retire();
  }

  #gone(sandbox: Sandbox): void {
    const wasIdle = this.#idle.includes(sandbox);
    this.#delete(sandbox);
    this.#announceChange();
    if (!wasIdle || !sandbox.isReady) return;
    const { what } = this.#options;
    this.#needs.log.warn(`${what} ended while it had nothing to do; the next job gets a new one`);
  }

  #delete(sandbox: Sandbox): void {
    this.#all.delete(sandbox);
    const at = this.#idle.indexOf(sandbox);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  #weighSoon(): Timer {
    return nodePlatform.setTimer(weighEveryMs, () => void this.#weigh(), false);
  }

  async #weigh(): Promise<void> {
    const busy = [...this.#all].filter(({ load }) => load > 0);
    await Promise.all(
      busy.map(async (sandbox) => {
        if ((await sandbox.weigh()) > this.#options.recycleBytes) sandbox.isWorn = true;
      }),
    );
    this.#weighing = busy.length === 0 ? null : this.#weighSoon();
  }

  #shrinkLater(): Timer {
    const idleBefore = new Map(this.#idle.map((sandbox) => [sandbox, sandbox.runs]));
    const shrink = (): void => {
      this.#shrinking = null;
      // One sandbox is kept.
      for (const sandbox of this.#idle.slice(0, -1))
        if (idleBefore.get(sandbox) === sandbox.runs) this.#retire(sandbox);
      if (this.#idle.length > 1) this.#shrinking = this.#shrinkLater();
    };
    return nodePlatform.setTimer(idleMs, shrink, false);
  }

  async #leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#shrinking?.cancel();
    this.#weighing?.cancel();
    this.#shrinking = this.#weighing = null;
    const all = [...this.#all];
    this.#all.clear();
    this.#idle.length = 0;
    await Promise.all(all.map((sandbox) => sandbox.retire()));
  }
}

/** Resolves with the promise, or when the job is aborted; rejects as the promise does. */
async function settledOr(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  const stopped = Promise.withResolvers<void>();
  const stop = (): void => stopped.resolve();
  signal.addEventListener("abort", stop);
  try {
    await Promise.race([promise, stopped.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
