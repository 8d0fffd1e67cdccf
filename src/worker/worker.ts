/**
 * A worker: pools of slots, the jobs it has claimed for them, and their way through a handler to a settle. What it holds is in `leases`
 * from the claim until the settle is answered; every write carries the fence.
 *
 *   running ──stop()──► stopping ──nothing left──► stopped
 */
import type { Engine } from "../engine/engine.ts";
import type { LeaseBook } from "../engine/lease-book.ts";
import { settlesWithin } from "../engine/race.ts";
import { handBack } from "../model/after-run.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { checkOptions } from "../model/option.ts";
import type { SettleAnswer } from "../store/operations.ts";
import type { Route } from "../model/route.ts";
import type { LeasedJob } from "../store/records.ts";
import { Aborting } from "./aborting.ts";
import { Announcing } from "./announcing.ts";
import { Attempt } from "./attempt.ts";
import type { AttemptOwner } from "./attempt.ts";
import { BatchPool } from "./batch-pool.ts";
import { Claimer } from "./claimer.ts";
import type { Handler, SingleHandler } from "./handler.ts";
import type { JobContext } from "./job-context.ts";
import type { ContextHost } from "./job-context.ts";
import { wrapHandler } from "./middleware.ts";
import type { Pool } from "./pool.ts";
import { makePools } from "./make-pools.ts";
import type { Renewals, RenewalSeat } from "./renewal.ts";
import { Settling } from "./settling.ts";
import { endByReturn, endByThrow, prepareContext } from "./run-attempt.ts";
import { runBatch } from "./run-batch.ts";
import type { AttemptEnd } from "./run-attempt.ts";
import type { WorkerSettings } from "./worker-settings.ts";

interface Runnable {
  readonly handler: Handler;
  /** Through all middleware. */
  readonly run: (context: JobContext) => unknown;
}

export interface StopReport {
  /** Handlers that ignored the abort: their jobs went back, but their code still runs. */
  readonly notStopped: number;
}

/** A worker as its user sees it. */
export interface Worker extends AsyncDisposable {
  /** Unique, and shown in lists and attempt records. */
  readonly id: string;
  /** Jobs whose handler is running now. */
  readonly running: number;
  /** Jobs held here: waiting for a slot, running, or being settled. */
  readonly held: number;
  /** Stops once, however often it is called. No attempt is burnt: what did not finish in time goes back. */
  stop(options?: { readonly grace?: Duration }): Promise<StopReport>;
}

/** What the workers of one process share. */
export interface SharedByWorkers {
  readonly leaseBook: LeaseBook;
  readonly renewals: Renewals;
  readonly stopped: (worker: JobWorker) => void;
}

export class JobWorker implements Worker, AttemptOwner, ContextHost {
  readonly id: string;
  readonly engine: Engine;
  readonly owner: string;
  readonly leaseMs: number;
  readonly abortGraceMs: number;
  readonly leases = new Map<string, Attempt>();
  readonly pools: readonly Pool[];
  readonly settling: Settling;
  readonly aborting: Aborting;
  readonly #settings: WorkerSettings;
  readonly #stopped: (worker: JobWorker) => void;
  readonly #runnables = new Map<string, Runnable>();
  readonly #claimer: Claimer;
  readonly #renewal: RenewalSeat;
  readonly #announcing: Announcing;
  readonly #leaveBook: () => void;
  #running = 0;
  #stopping: Promise<StopReport> | null = null;
  #leaveHandled: (() => void) | null = null;
  #leaveSignals: (() => void) | null = null;
  #whenQuiet: (() => void) | null = null;

  constructor(
    engine: Engine,
    shared: SharedByWorkers,
    handlers: readonly Handler[],
    settings: WorkerSettings,
  ) {
    this.engine = engine;
    this.#settings = settings;
    this.#stopped = shared.stopped;
    this.id = this.owner = settings.owner;
    this.leaseMs = settings.leaseMs;
    this.abortGraceMs = settings.abortGraceMs;
    this.pools = makePools(engine, handlers, settings);
    for (const handler of handlers) {
      const run = wrapHandler(
        settings.middleware,
        (handler as SingleHandler).run as (context: JobContext) => unknown,
      );
      this.#runnables.set(handler.definition.name, { handler, run });
    }
    this.#claimer = new Claimer(engine, this);
    this.#renewal = shared.renewals.join(this);
    const queues = [...new Set(this.pools.map(({ queue }) => queue))];
    this.#announcing = new Announcing(engine, this.owner, { queues, names: [...this.#runnables.keys()] });
    this.settling = new Settling(this);
    this.aborting = new Aborting(this);
    this.#leaveBook = shared.leaseBook.addHolder(
      (lease) => this.leases.get(lease.id)?.job.fence === lease.fence,
    );
  }

  start(): void {
    if (this.#settings.wantsSignals)
      this.#leaveSignals = this.engine.platform.onTermination(() => void this.stop());
    this.#leaveHandled = this.engine.addHandled([...this.#runnables.keys()]);
    this.#announcing.start();
    this.#claimer.start();
  }

  get running(): number {
    return this.#running;
  }

  get held(): number {
    return this.leases.size;
  }

  routeOf(job: LeasedJob): Route | undefined {
    return this.#claimer.routeOf(job);
  }

  get unsettled(): number {
    return this.settling.count;
  }

  // from the claim to the handler -----------------------------------------------------------------------------------

  claimed(jobs: readonly LeasedJob[], leasedUs: number): void {
    const touched = new Set<Pool>();
    // An answer that took as long as the lease: the jobs may be somebody else's by now, so none is started.
    const isLate = this.engine.platform.monotonicUs() - leasedUs >= this.leaseMs * 1000;
    if (isLate)
      this.engine.log.warn("a claim was answered after its leases had ended; its jobs go back", {
        jobs: jobs.length,
      });
    for (const job of jobs) {
      const pool = this.#claimer.poolOf(job);
      const attempt = new Attempt(job, this.engine.readPolicy(job.policy), this, leasedUs, this.leaseMs);
      const earlier = this.leases.get(job.id);
      // The same claim told twice: by its own late reply and by "what else is mine".
      if (earlier?.job.fence === job.fence) continue;
      this.leases.set(job.id, attempt);
      // The job came back to this very worker: whatever still runs here for it has lost its lease.
      if (earlier !== undefined) this.aborting.leaseLost(earlier);
      if (pool === undefined || this.#stopping !== null || isLate) {
        this.settling.settle(attempt, { next: handBack, attempts: null });
        continue;
      }
      pool.push(attempt);
      touched.add(pool);
    }
    this.#renewal.arm();
    for (const pool of touched) this.#fill(pool);
  }

  get isLooking(): boolean {
    return this.#renewal.isLooking;
  }

  claimLost(): void {
    this.#renewal.findLost();
  }

  adopt(jobs: readonly LeasedJob[], leasedUs: number): void {
    this.claimed(
      jobs.filter((job) => !this.aborting.wasGivenUp(job)),
      leasedUs,
    );
    this.#claimer.consider();
    this.#checkQuiet();
  }

  #fill(pool: Pool): void {
    if (pool instanceof BatchPool) {
      pool.fill(this.engine.platform, (attempts) => void this.#runBatch(pool, attempts));
    } else {
      while (pool.busySlots < pool.slots) {
        const attempt = pool.take();
        if (attempt === undefined) break;
        this.#run(pool, attempt);
      }
    }
    this.#claimer.consider();
  }

  #run(pool: Pool, attempt: Attempt): void {
    const runnable = this.#runnables.get(this.#claimer.routeOf(attempt.job)?.name ?? "") as Runnable;
    const { definition } = runnable.handler;
    pool.busySlots += 1;
    this.#begin(attempt);
    const succeeded = (value: unknown): void =>
      this.#ended(pool, attempt, endByReturn(this, attempt, definition, value));
    const failed = (error: unknown): void => this.#ended(pool, attempt, endByThrow(this, attempt, error));
    try {
      const context = prepareContext(this, attempt, definition);
      const returned = context instanceof Promise ? context.then(runnable.run) : runnable.run(context);
      // Always a promise, also for a handler that answers at once: a backlog of such must not grow the stack.
      Promise.resolve(returned).then(succeeded, failed);
    } catch (error) {
      Promise.reject(error).then(succeeded, failed);
    }
  }

  async #runBatch(pool: BatchPool, attempts: readonly Attempt[]): Promise<void> {
    const { definition } = pool.handler;
    pool.busySlots += 1;
    for (const attempt of attempts) this.#begin(attempt);
    const prepared = await Promise.allSettled(
      attempts.map(async (attempt) => prepareContext(this, attempt, definition)),
    );
    const ready: { readonly attempt: Attempt; readonly context: JobContext }[] = [];
    for (const [index, each] of prepared.entries()) {
      const attempt = attempts[index] as Attempt;
      if (each.status === "fulfilled") ready.push({ attempt, context: each.value });
      else this.#ended(null, attempt, endByThrow(this, attempt, each.reason));
    }
    const contexts = ready.map(({ context }) => context);
    const outcomes = await runBatch(pool.handler, this.#settings.middleware, contexts);
    for (const [index, { attempt }] of ready.entries()) {
      const outcome = outcomes[index] as PromiseSettledResult<unknown>;
      const end =
        outcome.status === "fulfilled"
          ? endByReturn(this, attempt, definition, outcome.value)
          : endByThrow(this, attempt, outcome.reason);
      this.#ended(null, attempt, end);
    }
    pool.busySlots -= 1;
    pool.finished(attempts.length);
    this.#fill(pool);
  }

  #begin(attempt: Attempt): void {
    attempt.phase = "running";
    attempt.startedUs = this.engine.platform.monotonicUs();
    this.#running += 1;
    this.aborting.watch(attempt);
  }

  // from the handler to the settle ----------------------------------------------------------------------------------

  #ended(pool: Pool | null, attempt: Attempt, end: AttemptEnd | Promise<AttemptEnd>): void {
    if (end instanceof Promise) {
      void end.then((decided) => this.#ended(pool, attempt, decided));
      return;
    }
    this.#running -= 1;
    this.aborting.unwatch(attempt);
    // An abandoned attempt was settled when its grace ended; only its slot was still busy.
    if (attempt.phase === "running") {
      if (end === null) this.forget(attempt);
      else this.settling.settle(attempt, end);
    }
    if (pool !== null) {
      pool.busySlots -= 1;
      pool.finished(1);
      this.#fill(pool);
    }
    this.#checkQuiet();
  }

  attemptSettled(attempt: Attempt, answer: SettleAnswer): void {
    this.settling.answered(attempt, answer);
  }

  attemptUnsettled(attempt: Attempt, error: unknown): void {
    this.settling.failed(attempt, error);
  }

  /** Nothing of this attempt is left to do in the store. */
  forget(attempt: Attempt): void {
    attempt.phase = "ended";
    if (this.leases.get(attempt.job.id) === attempt) this.leases.delete(attempt.job.id);
    this.#claimer.consider();
    this.#checkQuiet();
  }

  // told to stop ------------------------------------------------------------------------------------------------------

  attemptRang(attempt: Attempt): void {
    this.aborting.rang(attempt);
  }

  dropWaiting(attempt: Attempt): void {
    this.#claimer.poolOf(attempt.job)?.drop(attempt);
  }

  async extendLease(attempt: Attempt, leaseMs: number): Promise<void> {
    const { id, seq, fence } = attempt.job;
    const leasedUs = this.engine.platform.monotonicUs();
    const { answers } = await this.engine.store.extendIfLeased({
      owner: this.owner,
      leaseMs,
      leases: [{ id, seq, fence }],
      wantsOthers: false,
    });
    if (answers[0] === "stale" || answers[0] === "gone") {
      this.aborting.leaseLost(attempt);
      throw new MillraceError("lease-lost", `The job ${id} is no longer leased to this attempt.`);
    }
    if (attempt.leasedUs + attempt.leaseMs * 1000 < leasedUs + leaseMs * 1000) {
      attempt.leasedUs = leasedUs;
      attempt.leaseMs = leaseMs;
    }
    if (answers[0] === "cancel-asked") this.aborting.cancelAsked(attempt);
  }

  // shutdown ------------------------------------------------------------------------------------------------------------

  stop(options: { readonly grace?: Duration } = {}): Promise<StopReport> {
    const { grace } = checkOptions(options, "stop", ["grace"]);
    const graceMs = grace === undefined ? this.#settings.shutdownGraceMs : durationMs(grace, "stop: grace");
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(graceMs: number): Promise<StopReport> {
    // A claim that hangs must not hold the stop; what it takes is handed back, or reclaimed when its lease ends.
    await settlesWithin(this.engine.platform, this.#claimer.stop(), Math.max(graceMs, this.abortGraceMs));
    for (const pool of this.pools) {
      if (pool instanceof BatchPool) pool.stop();
      for (const attempt of pool.takeAll()) this.settling.settle(attempt, { next: handBack, attempts: null });
    }
    if (!(await this.#quiet(graceMs))) {
      for (const attempt of this.leases.values()) this.aborting.abort(attempt, "shutdown");
      if (!(await this.#quiet(this.abortGraceMs))) {
        for (const attempt of [...this.leases.values()])
          if (attempt.phase === "running") this.aborting.abandon(attempt);
        await this.#quiet(this.abortGraceMs);
      }
    }
    await settlesWithin(this.engine.platform, this.engine.records.whenIdle(), this.abortGraceMs);
    this.#renewal.leave();
    await settlesWithin(this.engine.platform, this.#announcing.stop(), this.abortGraceMs);
    this.#leaveBook();
    this.#leaveHandled?.();
    this.#leaveSignals?.();
    this.#stopped(this);
    return { notStopped: this.#running };
  }

  /** @returns true once every lease is settled, false when the time is over first. */
  async #quiet(limitMs: number): Promise<boolean> {
    if (this.leases.size === 0 && !this.#renewal.isLooking) return true;
    const quiet = new Promise<void>((resolve) => (this.#whenQuiet = resolve));
    await settlesWithin(this.engine.platform, quiet, limitMs);
    return this.leases.size === 0;
  }

  #checkQuiet(): void {
    if (this.#whenQuiet !== null && this.leases.size === 0 && !this.#renewal.isLooking) this.#whenQuiet();
  }
}
