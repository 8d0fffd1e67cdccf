/**
 * The outposts of one handler: warm ones are used again, new ones are started as jobs come, up to the slots of the
 * worker; the worn are replaced, the idle ended.
 *
 *   the handler's runs                                  jobs sent to an outpost behind the one that runs
 *   quick on average, and nothing printed               up to `aheadMax`: its next job is there when it ends one
 *   slow, or something was printed                      none, until that is long past
 *
 * Without that, an outpost and its worker would wait for each other between any two jobs, which takes longer than a
 * quick job itself. An outpost that ends takes the job in it along and nothing else. While none can be started, each
 * job fails by itself with the reason; nothing stands still.
 */
import type { Engine } from "../../engine/engine.ts";
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import { nodePlatform } from "../../platform/node-platform.ts";
import type { Timer } from "../../platform/platform.ts";
import { AttemptAborted } from "../control.ts";
import type { JobContext } from "../run/job-context.ts";
import { Outpost } from "./sandbox.ts";
import type { EndedRun, OutpostStart } from "./sandbox.ts";
import { notBegun, RemoteRun } from "./sandbox-run.ts";

export interface CrewOptions extends Omit<OutpostStart, "freed" | "gone" | "hello"> {
  readonly file: URL | null;
  /** How many outposts it may have for each worker that uses it. */
  readonly size: number;
  /** The jobs that the handler may enqueue, by their names. */
  readonly jobs: ReadonlyMap<string, JobDefinition>;
  /** After so many jobs an outpost is replaced. */
  readonly recycleJobs: number;
  /** An outpost with more in memory is replaced after its job. */
  readonly recycleBytes: number;
}

const weighEveryMs = 1000;
/** Outposts beyond the first that had nothing to do for this long are ended. */
const idleMs = 60_000;
/** Enough that a lap of the worker settles several jobs at once; what waits behind a slow job is bounded by it. */
const aheadMax = 15;
/** Runs are quick below this average. */
const quickUs = 2000;
/** How much of a new run goes into the average. A slow one is felt at once, and for as many runs as it was slow. */
const smoothing = 1 / 16;
/** What a run counts that has printed: which run printed what is known only while one is sent at a time. */
const printedUs = 1_000_000;

export class Crew {
  readonly #engine: Engine;
  readonly #options: CrewOptions;
  readonly #all = new Set<Outpost>();
  /** Those that take the next jobs, also while they start; the last one goes first, so that surplus ones stay idle. */
  readonly #idle: Outpost[] = [];
  #users = 0;
  #takesAhead = false;
  /** Told when a job that found no outpost may look again. */
  #changed = Promise.withResolvers<void>();
  #averageUs = 10 * quickUs;
  #weighing: Timer | null = null;
  #shrinking: Timer | null = null;

  constructor(engine: Engine, options: CrewOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** How many jobs may be sent now behind each that runs. */
  get ahead(): number {
    return this.#averageUs < quickUs && this.#takesAhead ? aheadMax : 0;
  }

  /**
   * Starts one outpost, so that a handler that cannot be loaded is told before the first job. @returns what undoes it.
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
      const outpost = this.#pick();
      if (outpost === null) await settledOr(this.#changed.promise, signal);
      else if (!outpost.isReady) await settledOr(outpost.ready, signal);
      if (signal.aborted) {
        if (outpost?.load === 0) this.#enter(outpost);
        throw signal.reason;
      }
      const outcome = outpost === null ? notBegun : await this.#runIn(outpost, context);
      if (outcome !== notBegun) return outcome;
    }
  }

  /** Null where all are starting or busy: a worker that has just handed over jobs ahead may find it so. */
  #pick(): Outpost | null {
    const free = this.#idle.pop() ?? this.#leastLoaded(this.ahead);
    if (free !== undefined) return free;
    if (this.#all.size < this.#options.size * Math.max(1, this.#users)) return this.#start();
    return this.#leastLoaded(aheadMax) ?? null;
  }

  async #runIn(outpost: Outpost, context: JobContext): Promise<unknown> {
    const run = new RemoteRun(context, this.#options.jobs);
    const { signal } = context;
    const abort = (): void =>
      outpost.abort(run, signal.reason instanceof AttemptAborted ? signal.reason.reason : "cancel");
    signal.addEventListener("abort", abort);
    outpost.run(run);
    this.#weighing ??= this.#weighSoon();
    try {
      return await run.outcome;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** One that may be sent a job behind so many others. */
  #leastLoaded(ahead: number): Outpost | undefined {
    if (ahead === 0) return undefined;
    let found: Outpost | undefined;
    for (const outpost of this.#all)
      if (outpost.takesAhead && outpost.load <= ahead && !this.#isWorn(outpost))
        if (found === undefined || outpost.load < found.load) found = outpost;
    return found;
  }

  #start(): Outpost {
    const { file, jobs } = this.#options;
    const outpost = new Outpost({
      ...this.#options,
      hello: {
        ...(file === null ? {} : { file: file.href }),
        jobs: [...jobs.keys()],
        partitions: this.#engine.store.partitions ?? 1,
      },
      freed: (freed, ended) => this.#freed(freed, ended),
      gone: (gone) => this.#gone(gone),
    });
    this.#all.add(outpost);
    void outpost.ready.then(
      () => {
        this.#takesAhead = outpost.takesAhead;
        this.#tellChange();
      },
      () => {},
    );
    return outpost;
  }

  #tellChange(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  #enter(outpost: Outpost): Outpost {
    if (this.#all.has(outpost)) this.#idle.push(outpost);
    return outpost;
  }

  #isWorn(outpost: Outpost): boolean {
    return outpost.isWorn || outpost.runs >= this.#options.recycleJobs;
  }

  #freed(outpost: Outpost, { ranUs, hasPrinted }: EndedRun): void {
    this.#averageUs += ((hasPrinted ? printedUs : ranUs) - this.#averageUs) * smoothing;
    if (!this.#all.has(outpost) || outpost.load > 0) return;
    if (this.#isWorn(outpost)) {
      this.#retire(outpost);
      // Started before the next job needs it.
      if (this.#idle.length === 0) this.#enter(this.#start());
    } else this.#enter(outpost);
    if (this.#idle.length > 1) this.#shrinking ??= this.#shrinkLater();
    this.#tellChange();
  }

  #retire(outpost: Outpost): void {
    this.#forget(outpost);
    void outpost.retire();
  }

  #gone(outpost: Outpost): void {
    const wasIdle = this.#idle.includes(outpost);
    this.#forget(outpost);
    this.#tellChange();
    if (!wasIdle || !outpost.isReady) return;
    const { what } = this.#options;
    this.#engine.log.warn(`${what} ended while it had nothing to do; the next job gets a new one`);
  }

  #forget(outpost: Outpost): void {
    this.#all.delete(outpost);
    const at = this.#idle.indexOf(outpost);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  #weighSoon(): Timer {
    return nodePlatform.setTimer(weighEveryMs, () => void this.#weigh(), false);
  }

  async #weigh(): Promise<void> {
    const busy = [...this.#all].filter(({ load }) => load > 0);
    await Promise.all(
      busy.map(async (outpost) => {
        if ((await outpost.weigh()) > this.#options.recycleBytes) outpost.isWorn = true;
      }),
    );
    this.#weighing = busy.length === 0 ? null : this.#weighSoon();
  }

  #shrinkLater(): Timer {
    const idleBefore = new Map(this.#idle.map((outpost) => [outpost, outpost.runs]));
    const shrink = (): void => {
      this.#shrinking = null;
      // One stays warm.
      for (const outpost of this.#idle.slice(0, -1))
        if (idleBefore.get(outpost) === outpost.runs) this.#retire(outpost);
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
    await Promise.all(all.map((outpost) => outpost.retire()));
  }
}

/** Resolves with the promise, or when the job is told to stop; throws what the promise is rejected with. */
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
