/**
 * The outposts of one handler: warm ones are used again, new ones are started as jobs come, up to the slots of the
 * worker; the worn are replaced, the idle ended. Jobs never wait here: a slot of the worker is an outpost.
 *
 * An outpost that ends takes the job in it along and nothing else. While none can be started, each job fails by itself
 * with the reason; nothing stands still.
 */
import type { Engine } from "../../engine/engine.ts";
import type { JobDefinition } from "../../engine/definition.ts";
import { nodePlatform } from "../../platform/node-platform.ts";
import type { Timer } from "../../platform/platform.ts";
import { AttemptAborted } from "../control.ts";
import type { JobContext } from "../job-context.ts";
import { Outpost } from "./outpost.ts";
import type { OutpostStart } from "./outpost.ts";
import { RemoteRun } from "./remote-run.ts";

export interface CrewOptions extends Omit<OutpostStart, "gone" | "hello"> {
  readonly file: URL | null;
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

export class Crew {
  readonly #engine: Engine;
  readonly #options: CrewOptions;
  readonly #all = new Set<Outpost>();
  /** Those that take the next jobs, also while they start; the last one goes first, so that surplus ones stay idle. */
  readonly #idle: Outpost[] = [];
  #users = 0;
  #weighing: Timer | null = null;
  #shrinking: Timer | null = null;

  constructor(engine: Engine, options: CrewOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** Starts one outpost, so that a handler that cannot be loaded is told before the first job. @returns what undoes it. */
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
    const run = new RemoteRun(context, this.#options.jobs);
    const outpost = this.#idle.pop() ?? this.#start();
    const { signal } = context;
    if (!outpost.isReady) await this.#startOf(outpost, signal);
    if (signal.aborted) {
      this.#enter(outpost);
      throw signal.reason;
    }
    const abort = (): void =>
      outpost.abort(run, signal.reason instanceof AttemptAborted ? signal.reason.reason : "cancel");
    signal.addEventListener("abort", abort);
    outpost.run(run, () => this.#freed(outpost));
    this.#weighing ??= this.#weighSoon();
    try {
      return await run.outcome;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** @returns when it can run; throws where it cannot, or where the job is told to stop meanwhile. */
  async #startOf(outpost: Outpost, signal: AbortSignal): Promise<void> {
    const stopped = Promise.withResolvers<void>();
    const stop = (): void => stopped.resolve();
    signal.addEventListener("abort", stop);
    try {
      await Promise.race([outpost.ready, stopped.promise]);
    } finally {
      signal.removeEventListener("abort", stop);
    }
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
      gone: (gone) => this.#gone(gone),
    });
    this.#all.add(outpost);
    return outpost;
  }

  #enter(outpost: Outpost): Outpost {
    if (this.#all.has(outpost)) this.#idle.push(outpost);
    return outpost;
  }

  #freed(outpost: Outpost): void {
    if (!this.#all.has(outpost)) return;
    const { recycleJobs } = this.#options;
    if (outpost.isWorn || outpost.runs >= recycleJobs) {
      this.#retire(outpost);
      // Started before the next job needs it.
      if (this.#idle.length === 0) this.#enter(this.#start());
    } else this.#enter(outpost);
    if (this.#idle.length > 1) this.#shrinking ??= this.#shrinkLater();
  }

  #retire(outpost: Outpost): void {
    this.#forget(outpost);
    void outpost.retire();
  }

  #gone(outpost: Outpost): void {
    const wasIdle = this.#idle.includes(outpost);
    this.#forget(outpost);
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
    const busy = [...this.#all].filter(({ isBusy }) => isBusy);
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
