/**
 * Acquires the permits of one limit and weight for one process. The acquirer is a worker. Its handler gives the lease
 * of each claimed permit job to the waiter that has waited longest for its key; model/limits/permit.ts says what a
 * permit job is. So permits are claimed, renewed, lost and settled by the same code as jobs, and nothing polls for one.
 *
 *   waiting ──a permit job was claimed──► held ──released──► settled
 *      └──the wait is over, aborted, the number is shared──► left: one ready permit job is deleted
 *
 * Always true unless a process dies: there is one permit job for each waiter and for each held permit.
 */
import type { ObservedAttempt } from "../../engine/attempts/attempt-observer.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import { planLane } from "../../engine/submit/lane-plan.ts";
import { limit as limitOf, gatesOf } from "../../engine/limits/limit-definition.ts";
import type { AnyLimitUse } from "../../engine/limits/limit-definition.ts";
import { settlesWithin } from "../../engine/calls/settles-within.ts";
import { refusalError } from "../../engine/submit/refusal-error.ts";
import { durationText } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { writePolicy } from "../../model/job/job-policy.ts";
import type { LaneFields } from "../../model/routing/lane.ts";
import { deleteChange } from "../../model/job/operate.ts";
import {
  permitAgainMs,
  permitName,
  permitPolicy,
  permitQueue,
  permitTtlMs,
  readPermitKey,
  writePermitKey,
} from "../../model/limits/permit.ts";
import type { Timer } from "../../platform/platform.ts";
import type { NewJob } from "../../store/records.ts";
import { Snooze } from "../control.ts";
import type { JobContext } from "../run/job-context.ts";
import { HeldPermit } from "./permit.ts";
import type { Permit } from "./permit.ts";
import { PermitPool } from "./permit-pool.ts";
import { Waiters } from "./waiters.ts";
import { JobWorker } from "../worker.ts";
import type { SharedByWorkers, WorkerNeeds } from "../worker.ts";
import { readWorkerOptions } from "../worker-settings.ts";

export type PermitAcquirerNeeds = WorkerNeeds & Needs<"changes" | "attemptObservers" | "giveUpMs">;

export interface AcquirerOptions {
  readonly limit: string;
  readonly weight: number;
  readonly leaseMs: number;
  /** Whether the limit bounds more than its keys (`isBoundedInAll`): its permits then pass the limit's own gate too. */
  readonly isBoundedInAll: boolean;
  /** The acquirer number of the process, for permits of keys; null for permits without a key. */
  readonly acquirerNumber: number | null;
}

export interface AcquirerEvents {
  /** Nothing was waited for or held for a while: the acquirer can be closed. */
  readonly idle: () => void;
  /** Another process has the same acquirer number: later waiters go to an acquirer with another number. */
  readonly numberShared: () => void;
}

export interface AcquireWait {
  /** Null for a permit without a key. */
  readonly key: string | null;
  /** 0 tries once. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

type PermitContext = Pick<JobContext, "id" | "signal" | "input">;

interface Waiter {
  readonly key: string | null;
  readonly triesOnce: boolean;
  /** Null: the wait goes on at another acquirer. */
  readonly granted: (permit: Permit | null) => void;
  readonly refused: (error: unknown) => void;
  /** The permit jobs that it has submitted: a new one is submitted before the last one runs out. */
  readonly ids: string[];
  submitting: Promise<void>;
}

/**
 * For how long a permit job of another process is snoozed. A waiter here that tries once claims again in the flush in
 * which the job goes back, and without the delay would get it again and again.
 */
const anothersMs = 5;
/** How often a waiter that leaves tries to delete a ready permit job. */
const takeAwayTriesMax = 3;
const readyLooksMax = 20;
const readyPageMax = 200;
const scanMax = 10_000;
/** A permit job that was submitted longer ago is not ready any more. */
const ownKeptUs = 2 * permitTtlMs * 1000;
/** The bounds of a limit's keys are known to the store. Here it matters only that nothing else bounds the limit. */
const boundsKeysOnly = { perKey: { concurrency: 1_000_000_000 } };
/** An acquirer without waiters and permits is kept for a while, because the next use is then cheaper. */
const lingerMs = 10_000;

export class PermitAcquirer {
  readonly #needs: PermitAcquirerNeeds;
  readonly #options: AcquirerOptions;
  readonly #name: string;
  readonly #gates: NewJob["gates"] & object;
  /** From a key to the lane of its permit jobs; null without keys. */
  readonly #laneOf: ((key: string) => LaneFields) | null;
  readonly #pool: PermitPool;
  readonly #worker: JobWorker;
  readonly #events: AcquirerEvents;
  readonly #waiters = new Waiters<Waiter>();
  readonly #held = new Map<string, HeldPermit>();
  readonly #leaving = new Set<Promise<void>>();
  /**
   * By key: how many permit jobs are surplus because a waiter left. The next one that is claimed for no waiter is one
   * of them.
   */
  readonly #surplus = new Map<string | null, number>();
  /** How many permit jobs were claimed for no waiter. */
  #forNobody = 0;
  /** The permit jobs that were submitted here lately, and when (monotonic), oldest first. */
  readonly #own = new Map<string, number>();
  #lingering: Timer | null = null;
  #isClosed = false;

  constructor(
    needs: PermitAcquirerNeeds,
    shared: SharedByWorkers,
    options: AcquirerOptions,
    events: AcquirerEvents,
  ) {
    this.#needs = needs;
    this.#options = options;
    this.#events = events;
    const { limit, weight, leaseMs, acquirerNumber } = options;
    const ofKey = acquirerNumber === null ? {} : { key: (key: string) => key };
    const limits: readonly AnyLimitUse[] = [
      limitOf(limit, options.isBoundedInAll ? {} : boundsKeysOnly).use({ weight, ...ofKey }),
    ];
    const name = permitName(limit, weight, acquirerNumber);
    const gates = gatesOf(limits);
    this.#name = name;
    this.#gates = gates;
    this.#laneOf = planLane({ queue: permitQueue, name, requires: [], gates, group: null, limits });
    this.#pool = new PermitPool(name, () => this.#waiters.count);
    const definition = { ...job("permit"), name: this.#name, queue: permitQueue };
    const handler = {
      kind: "single" as const,
      definition: { ...definition, options: { ...definition.options, limits } },
      handle: (context: PermitContext) => this.#hand(context),
    };
    const settings = {
      ...readWorkerOptions(needs, { lease: leaseMs, shutdownGrace: 0, label: "permits" }),
      // A lost permit is ended by the abort of its signal.
      observers: [(held: ObservedAttempt) => held.settled !== null && this.#settled(held.job.id)],
      isAnnounced: false,
    };
    this.#worker = new JobWorker(needs, shared, [handler], settings, {
      served: new Map(),
      pools: [this.#pool],
    });
    this.#worker.start();
  }

  /**
   * Rejects with `limit-busy` when the wait is over, and with `aborted` when the signal fires.
   *
   * @returns null if another process has the same acquirer number: the wait goes on at an acquirer with another number.
   */
  async acquire({ key, waitMs, signal }: AcquireWait): Promise<Permit | null> {
    const { platform, giveUpMs } = this.#needs;
    this.#lingering?.cancel();
    const got = Promise.withResolvers<Permit | null>();
    const waiter: Waiter = {
      key,
      triesOnce: waitMs === 0,
      granted: got.resolve,
      refused: got.reject,
      ids: [],
      submitting: Promise.resolve(),
    };
    this.#waiters.add(waiter);
    const aborted = (): void =>
      this.#refuse(
        waiter,
        new MillraceError("aborted", `${this.#what(key)} was aborted.`, { cause: signal?.reason }),
      );
    const late = (): void => this.#refuse(waiter, this.#busy(key, waitMs));
    const timer = platform.setTimer(waitMs === 0 ? giveUpMs : waitMs, late);
    signal?.addEventListener("abort", aborted, { once: true });
    const again = this.#submit(waiter);
    if (waitMs === 0) void waiter.submitting.then(() => this.#tryOnce(waiter, late));
    try {
      return await got.promise;
    } finally {
      timer.cancel();
      again();
      signal?.removeEventListener("abort", aborted);
      this.#rest();
    }
  }

  /** Refuses all waiters; held permits end by their signal. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#lingering?.cancel();
    const { platform, giveUpMs } = this.#needs;
    for (const waiter of this.#waiters.all())
      this.#refuse(
        waiter,
        new MillraceError("closed", `${this.#what(waiter.key)}: this Millrace was closed.`),
      );
    await this.#worker.stop();
    await settlesWithin(platform, Promise.all(this.#leaving), giveUpMs);
  }

  #what(key: string | null): string {
    const ofKey = key === null ? "" : `, key ${JSON.stringify(key)}`;
    return `acquire ${JSON.stringify(this.#options.limit)}${ofKey}`;
  }

  #busy(key: string | null, waitMs: number): MillraceError {
    const within = waitMs === 0 ? "right now" : `within ${durationText(waitMs)}`;
    return new MillraceError("limit-busy", `${this.#what(key)}: no permit was free ${within}.`);
  }

  /** The handler of a permit job: it runs for as long as the permit is held. */
  async #hand(context: PermitContext): Promise<Snooze | undefined> {
    const key = readPermitKey(context.input as string);
    const isAnothers = key !== null && !this.#own.has(context.id);
    const waiter = isAnothers ? undefined : this.#waiters.take(key);
    if (waiter === undefined) {
      this.#forNobody += 1;
      if (isAnothers) return this.#numberShared();
      // The waiter that it was claimed for has left. Unless the job is surplus, it was meant for a waiter of another
      // process and goes back; but a permit job with a key serves only the process that submitted it, so that one just
      // ends.
      return this.#takeSurplus(key) || key !== null ? undefined : new Snooze(0);
    }
    const permit = new HeldPermit(this.#needs, { ...this.#options, key });
    this.#held.set(context.id, permit);
    waiter.granted(permit);
    await permit.holdFor(context);
    // A lost permit is never settled.
    if (permit.signal.aborted) this.#settled(context.id);
    return undefined;
  }

  /**
   * Another process with this acquirer number has submitted the job. That process gets the job back, and keeps the
   * number.
   */
  #numberShared(): Snooze {
    this.#events.numberShared();
    // Only after the other jobs of the claim are handed over.
    this.#needs.platform.defer(() => this.#moveAll());
    return new Snooze(anothersMs);
  }

  /** A waiter that tries once stays: its permit job could hold here the permit that it would try for there. */
  #moveAll(): void {
    for (const waiter of this.#waiters.all())
      if (!waiter.triesOnce && this.#leave(waiter)) waiter.granted(null);
  }

  #takeSurplus(key: string | null): boolean {
    const surplus = this.#surplus.get(key) ?? 0;
    if (surplus > 1) this.#surplus.set(key, surplus - 1);
    else this.#surplus.delete(key);
    return surplus > 0;
  }

  #addSurplus(key: string | null): void {
    this.#surplus.set(key, (this.#surplus.get(key) ?? 0) + 1);
  }

  #settled(id: string): void {
    this.#held.get(id)?.settled();
    this.#held.delete(id);
    this.#rest();
  }

  /**
   * Submits a permit job, and another whenever the last one is about to run out. @returns a function that ends this.
   */
  #submit(waiter: Waiter): () => void {
    let timer: Timer | null = null;
    const submit = (): void => {
      timer = this.#needs.platform.setTimer(permitAgainMs, submit);
      waiter.submitting = this.#submitOne(waiter.key).then(
        (id) => void waiter.ids.push(id),
        (error: unknown) => this.#refuse(waiter, error),
      );
    };
    submit();
    return () => timer?.cancel();
  }

  async #submitOne(key: string | null): Promise<string> {
    const permitJob: NewJob = {
      ...{ id: this.#needs.ids.mint(), digest: null, queue: permitQueue, name: this.#name },
      ...{ input: writePermitKey(key), policy: writePolicy(permitPolicy), meta: null, tags: null },
      ...{ due: { inMs: 0 }, rankBase: 0, rankSlope: 1, deadline: null, ttlMs: permitTtlMs, unique: null },
      gates: this.#gates,
      ...(key === null ? {} : this.#laneOf?.(key)),
    };
    const unit = this.#needs.ids.placed({ jobs: [permitJob] });
    if (key !== null) for (const { id } of unit.jobs) this.#enterOwn(id);
    const answer = await this.#needs.submitter.submit(unit);
    if (answer.kind === "refused") throw refusalError(answer, unit.jobs);
    return answer.ids[0] as string;
  }

  #enterOwn(id: string): void {
    const nowUs = this.#needs.platform.monotonicUs();
    for (const [old, atUs] of this.#own) {
      if (nowUs - atUs <= ownKeptUs) break;
      this.#own.delete(old);
    }
    this.#own.set(id, nowUs);
  }

  /** The permit job was submitted. A waiter that the next claim does not serve is too late. */
  #tryOnce(waiter: Waiter, late: () => void): void {
    if (!this.#waiters.has(waiter)) return;
    const before = this.#forNobody;
    // The jobs of the claim are handed to waiters before the flush ends. If a job for no waiter came instead of its
    // own, it tries again.
    const over = (): void => (this.#forNobody === before ? late() : this.#tryOnce(waiter, late));
    this.#pool.afterNextClaim(() => this.#needs.platform.defer(over));
    this.#worker.look();
  }

  #refuse(waiter: Waiter, error: unknown): void {
    if (this.#leave(waiter)) waiter.refused(error);
  }

  /** @returns false if the waiter does not wait any more. */
  #leave(waiter: Waiter): boolean {
    if (!this.#waiters.remove(waiter)) return false;
    this.#addSurplus(waiter.key);
    const leaving = this.#takeAway(waiter)
      .catch((trouble: unknown) =>
        this.#needs.log.debug("a permit job that nobody waits for stays until its time is over", {
          trouble,
        }),
      )
      .finally(() => {
        this.#leaving.delete(leaving);
        this.#rest();
      });
    this.#leaving.add(leaving);
    return true;
  }

  /** Deletes one ready permit job, unless a job that was claimed for no waiter was ended instead. */
  async #takeAway(waiter: Waiter): Promise<void> {
    const { key } = waiter;
    await waiter.submitting;
    if (waiter.ids.length === 0) {
      // Its submit failed, so every permit job that is there belongs to another waiter. If a job was made all the same,
      // it runs out.
      this.#takeSurplus(key);
      return;
    }
    for (let tries = 0; tries < takeAwayTriesMax && this.#takeSurplus(key); tries++) {
      if (await this.#takeOne(waiter)) return;
      this.#addSurplus(key);
    }
    // A permit job with a key that is claimed for no waiter is ended in any case.
    if (key !== null) this.#takeSurplus(key);
  }

  /**
   * Deletes its own permit job. If that was claimed for another waiter, deletes any other: they are alike. With a key,
   * only jobs that were submitted here are alike.
   */
  async #takeOne({ key, ids }: Waiter): Promise<boolean> {
    for (const id of ids) if (await this.#takeReady(id)) return true;
    const { jobs } = await this.#needs.store.findJobs({
      filter: { queue: permitQueue, name: this.#name, states: ["ready"] },
      max: readyPageMax,
      scanMax,
      cursor: null,
    });
    const alike = key === null ? jobs : jobs.filter((job) => this.#isOwnOf(key, job));
    for (const { id } of alike.slice(0, readyLooksMax)) if (await this.#takeReady(id)) return true;
    return false;
  }

  #isOwnOf(key: string, { id, input }: Pick<NewJob, "id" | "input">): boolean {
    return this.#own.has(id) && readPermitKey(input) === key;
  }

  async #takeReady(id: string): Promise<boolean> {
    const cases = [{ guard: { states: ["ready"] as const }, next: deleteChange.next }];
    return (await this.#needs.changes.add({ id, cases })).kind === "ok";
  }

  #rest(): void {
    if (this.#isClosed || this.#waiters.count + this.#held.size + this.#leaving.size > 0) return;
    this.#lingering?.cancel();
    this.#lingering = this.#needs.platform.setTimer(lingerMs, this.#events.idle, false);
  }
}
