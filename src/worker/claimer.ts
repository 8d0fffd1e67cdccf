/**
 * Claiming: one call in flight, for all pools of the worker, made at the end of a turn together with the settles of that turn. A
 * pool that got less than it asked for is not asked for again until a hint or the slow poll says that there may be work.
 *
 * On a store that works beside this process the next claim goes out as soon as a full one has come in, before its jobs are run: the store
 * claims while the handlers run.
 */
import type { Engine } from "../engine/engine.ts";
import { MillraceError } from "../model/error.ts";
import { Backoff } from "../platform/backoff.ts";
import type { Timer } from "../platform/platform.ts";
import { storeLimits } from "../store/limits.ts";
import type { ClaimAnswer } from "../store/operations.ts";
import type { LeasedJob, NewJob, Route } from "../store/records.ts";
import type { Hint, Unwatch } from "../store/store.ts";
import type { Aborting } from "./aborting.ts";
import type { Pool } from "./pool.ts";
import { mayHaveHappened } from "./renewal.ts";

/** Hints can be lost: every worker looks again this often. */
const pollMs = 5000;
const claimMaxMs = 90_000;
const noneArriving: ReadonlyMap<Pool, number> = new Map();
const backoffLengths = { firstMs: 100, maxMs: 5000 };

export interface ClaimerHost {
  readonly owner: string;
  readonly leaseMs: number;
  readonly pools: readonly Pool[];
  /** How many ended attempts still wait for their settle: with a store that is slow or away, claiming pauses. */
  readonly unsettled: number;
  /** A lost claim is being looked for: a new one would be mistaken for it, and its jobs would run twice. */
  readonly isLooking: boolean;
  claimed(jobs: readonly LeasedJob[], leasedUs: number): void;
  claimLost(): void;
  readonly aborting: Aborting;
}

interface SentClaim {
  readonly sentUs: number;
  readonly asked: readonly { readonly pool: Pool; readonly max: number }[];
  isGivenUp: boolean;
}

export class Claimer {
  readonly #engine: Engine;
  readonly #host: ClaimerHost;
  readonly #routes = new Map<number, { readonly route: Route; readonly pool: Pool | undefined }>();
  readonly #backoff: Backoff;
  #routesKnown = 0;
  #unwatch: Unwatch | null = null;
  #poll: Timer | null = null;
  #isStopped = true;
  #isScheduled = false;
  #inFlight: Promise<void> | null = null;
  #sent: SentClaim | null = null;
  #roundTripUs = 0;
  #lastClaimUs = 0;

  constructor(engine: Engine, host: ClaimerHost) {
    this.#engine = engine;
    this.#host = host;
    this.#backoff = new Backoff(engine.platform, backoffLengths);
  }

  start(): void {
    this.#isStopped = false;
    this.#lastClaimUs = this.#engine.platform.monotonicUs();
    this.#unwatch = this.#engine.store.watch((hint) => this.#heed(hint));
    this.#engine.arrivals.add(this.#arrives);
    this.#setPoll();
    this.consider();
  }

  /** No claim is made any more; resolves when the one in flight is answered. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unwatch?.();
    this.#engine.arrivals.delete(this.#arrives);
    this.#poll?.cancel();
    this.#backoff.cancel();
    await this.#inFlight;
  }

  routeOf(job: LeasedJob): Route | undefined {
    return this.#routes.get(job.route)?.route;
  }

  poolOf(job: LeasedJob): Pool | undefined {
    return this.#routes.get(job.route)?.pool;
  }

  /** Called whenever a slot may be free: the claim itself waits for the end of the turn. */
  consider(): void {
    if (this.#isScheduled || this.#isStopped || this.#inFlight !== null || this.#backoff.isWaiting) return;
    if (!this.#hasAppetite(noneArriving)) return;
    this.#isScheduled = true;
    this.#engine.turn.atEnd(this.#claimNow);
  }

  #hasAppetite(arriving: ReadonlyMap<Pool, number>): boolean {
    if (this.#host.isLooking) return false;
    if (this.#host.unsettled > 2 * storeLimits.claimJobsMax) return false;
    return this.#host.pools.some((pool) => this.#wantedBy(pool, arriving) > 0);
  }

  #wantedBy(pool: Pool, arriving: ReadonlyMap<Pool, number>): number {
    return pool.isHungry ? pool.wanted(this.#roundTripUs, arriving.get(pool) ?? 0) : 0;
  }

  readonly #claimNow = (): void => {
    this.#isScheduled = false;
    if (this.#isStopped || this.#inFlight !== null) return;
    this.#send(noneArriving);
  };

  #send(arriving: ReadonlyMap<Pool, number>): void {
    const sent = this.#claim(arriving).finally(() => {
      if (this.#inFlight === sent) this.#inFlight = null;
      this.consider();
    });
    this.#inFlight = sent;
  }

  async #claim(arriving: ReadonlyMap<Pool, number>): Promise<void> {
    const { owner, leaseMs, pools } = this.#host;
    const asked: { readonly pool: Pool; readonly max: number }[] = [];
    let left: number = storeLimits.claimJobsMax;
    for (const pool of pools) {
      const max = Math.min(this.#wantedBy(pool, arriving), left);
      if (max === 0) continue;
      // Before the call: a hint that comes while it is in flight must not be forgotten by its answer.
      pool.isHungry = false;
      asked.push({ pool, max });
      left -= max;
    }
    const sentUs = this.#engine.platform.monotonicUs();
    const sent: SentClaim = { sentUs, asked, isGivenUp: false };
    this.#sent = sent;
    let answer: ClaimAnswer;
    try {
      const offers = asked
        .filter(({ pool }) => pool.routes.length > 0)
        .map(({ pool, max }) => ({ routes: pool.routes, max }));
      answer = await this.#engine.store.claim({ owner, leaseMs, offers, routesKnown: this.#routesKnown });
    } catch (error) {
      if (!sent.isGivenUp) this.#failed(error, asked);
      return;
    }
    // Whatever it took after all is asked for like that of any lost claim.
    if (sent.isGivenUp) return this.#host.claimLost();
    this.#backoff.succeeded();
    this.#measure(sentUs);
    this.#learn(answer.routes);
    const got = new Map<Pool, number>();
    for (const job of answer.jobs) {
      const pool = this.poolOf(job);
      if (pool !== undefined) got.set(pool, (got.get(pool) ?? 0) + 1);
    }
    for (const { pool, max } of asked) if ((got.get(pool) ?? 0) >= max) pool.isHungry = true;
    if (this.#engine.store.claimsAhead === true && !this.#isStopped && this.#hasAppetite(got))
      this.#send(got);
    if (answer.jobs.length > 0) this.#host.claimed(answer.jobs, sentUs);
  }

  #measure(sentUs: number): void {
    const nowUs = this.#engine.platform.monotonicUs();
    this.#roundTripUs += (nowUs - sentUs - this.#roundTripUs) * 0.3;
    for (const pool of this.#host.pools) pool.claimed(nowUs - this.#lastClaimUs);
    this.#lastClaimUs = nowUs;
  }

  #learn(routes: readonly Route[]): void {
    for (const route of routes) {
      if (this.#routes.has(route.number)) continue;
      const serves = (pool: Pool): boolean =>
        pool.queue === route.queue && route.caps.length === 0 && pool.names.has(route.name);
      const pool = this.#host.pools.find(serves);
      this.#routes.set(route.number, { route, pool });
      this.#routesKnown = Math.max(this.#routesKnown, route.number);
      if (pool === undefined) continue;
      pool.routes.push(route.number);
      pool.isHungry = true;
    }
  }

  /** A claim that never comes back would end all claiming. Looked at with the slow poll: a timer for each claim costs more than the claim. */
  #giveUpHung(): void {
    const sent = this.#sent;
    const heldUs = this.#engine.platform.monotonicUs() - (sent?.sentUs ?? 0);
    if (sent === null || this.#inFlight === null || heldUs < claimMaxMs * 1000) return;
    sent.isGivenUp = true;
    this.#inFlight = null;
    this.#failed(new MillraceError("outcome-unknown", "The claim was not answered."), sent.asked);
  }

  #failed(error: unknown, asked: SentClaim["asked"]): void {
    for (const { pool } of asked) pool.isHungry = true;
    if (mayHaveHappened(error)) this.#host.claimLost();
    if (this.#isStopped) return;
    const inMs = this.#backoff.retry(() => this.consider());
    this.#engine.log.warn("claiming failed, trying again", { inMs: Math.round(inMs), error });
  }

  #heed(hint: Hint): void {
    if (hint.kind === "cancel") {
      if (hint.owner === this.#host.owner) this.#host.aborting.cancelHinted(hint.ids);
      return;
    }
    if (hint.kind !== "ready") return;
    for (const pool of this.#host.pools) {
      pool.isHungry ||= hint.routes.some((route) => route > this.#routesKnown || pool.routes.includes(route));
    }
    this.consider();
  }

  /** Claimed in the turn of its submit, if a slot is free for it; what does not fit is hinted at after the commit. */
  readonly #arrives = (job: NewJob): void => {
    if (!("inMs" in job.due) || job.due.inMs > 0) return;
    const pool = this.#host.pools.find(({ queue, names }) => queue === job.queue && names.has(job.name));
    if (pool === undefined || pool.busySlots >= pool.slots) return;
    pool.isHungry = true;
    this.consider();
  };

  #setPoll(): void {
    this.#poll = this.#engine.platform.setTimer(
      pollMs * (0.85 + this.#engine.platform.random() * 0.15),
      () => {
        this.#giveUpHung();
        for (const pool of this.#host.pools) pool.isHungry = true;
        this.consider();
        this.#setPoll();
      },
    );
  }
}
