/**
 * Claiming: one call in flight, for all pools of the worker, made at the end of a lap of the event loop together with
 * the settles of that lap. A pool that got less than it asked for is sated: nothing more is asked for it until a hint,
 * a submit in this process or the slow poll says that there may be work again.
 *
 *   idle ──a pool is hungry and has room──► scheduled ──end of lap──► in flight ──answered──► idle
 *    ▲                                                                    └──failed, given up──► backing off ──┐
 *    └─────────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * On a store that works beside this process the next claim goes out as soon as one has come in that left a pool hungry,
 * before its jobs are run: the store claims while the handlers run. A claim whose reply was lost may have taken jobs;
 * the renewal looks for them. Where a gate held jobs back that opens by its own clock, the next claim goes out then.
 */
import type { Engine } from "../../engine/engine.ts";
import { RepeatedLine } from "../../engine/log/repeated-line.ts";
import { MillraceError, isMillraceError } from "../../model/error.ts";
import { laneOrderOf } from "../../model/routing/lane.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Timer } from "../../platform/platform.ts";
import { storeLimits } from "../../store/limits.ts";
import type { ClaimAnswer, ClaimOffer } from "../../store/operations.ts";
import type { LeasedJob, NewJob } from "../../store/records.ts";
import type { Hint } from "../../store/store.ts";
import { ClaimStandBy } from "./fallback-delay.ts";
import { ClaimsBehind } from "./claims-after-settles.ts";
import type { ClosedGates } from "./closed-gates.ts";
import type { Pool } from "./pool.ts";
import type { RouteKind } from "./pool-routes.ts";
import type { RenewalSeat } from "../lease/renewal.ts";
import type { RouteLearning } from "./route-learning.ts";
import type { RouteMap } from "./route-map.ts";
import type { Settling } from "../settle/settling.ts";
import type { Slots } from "../run/slots.ts";

/** A longer wait for a gate is made of several. */
const wakeInMaxMs = 10_000;
/** A claim that is not answered by then counts as lost. */
const claimMaxMs = 90_000;
const inputBytesMax = storeLimits.claimInputBytesMax;
const unsettledMax = 2 * storeLimits.claimJobsMax;
const noneArriving: ReadonlyMap<Pool, number> = new Map();
const backoffLengths = { firstMs: 100, maxMs: 5000 };

export interface ClaimerOptions {
  readonly owner: string;
  readonly leaseMs: number;
  readonly routes: RouteMap;
  readonly learning: RouteLearning;
  readonly settling: Settling;
  readonly renewal: RenewalSeat;
  readonly slots: Slots;
  readonly closedGates: ClosedGates;
  /** Told of each queue of which a claim has brought jobs, and when, by the store's clock. */
  readonly claimed: (queue: string, at: number) => void;
  /** Another process has taken the store over: no claim will ever be answered again. */
  readonly lost: (error: MillraceError) => void;
}

/** One offer of a claim: the part of a pool's slots that one kind of its routes may fill. */
interface Asked {
  readonly pool: Pool;
  readonly kind: RouteKind;
  readonly offer: ClaimOffer;
}

interface SentClaim {
  readonly sentUs: number;
  readonly asked: readonly Asked[];
  /** A hint had come since the claim before. */
  readonly isHinted: boolean;
  isGivenUp: boolean;
}

export class Claimer {
  /** Told of what ends in this worker. */
  readonly behind: ClaimsBehind;
  readonly #engine: Engine;
  readonly #options: ClaimerOptions;
  readonly #routes: RouteMap;
  readonly #backoff: Backoff;
  readonly #trouble: RepeatedLine;
  readonly #standBy: ClaimStandBy;
  /** Takes back, at the stop, what the start has entered elsewhere. */
  readonly #leave: (() => void)[] = [];
  #opening: { readonly atUs: number; readonly timer: Timer } | null = null;
  #isStopped = true;
  #isQuiet = false;
  #isScheduled = false;
  #inFlight: Promise<void> | null = null;
  #sent: SentClaim | null = null;
  #roundTripUs = 0;
  #lastClaimUs = 0;
  #isHinted = false;
  #first = 0;

  constructor(engine: Engine, options: ClaimerOptions) {
    this.#engine = engine;
    this.#options = options;
    this.#routes = options.routes;
    this.behind = new ClaimsBehind(engine, options.routes);
    this.#backoff = new Backoff(engine.platform, backoffLengths);
    this.#trouble = new RepeatedLine(engine, "warn", "claiming failed, trying again");
    this.#standBy = new ClaimStandBy(engine, (pool) => {
      this.#routes.wake(pool);
      this.consider();
    });
  }

  start(): void {
    this.#isStopped = false;
    this.#lastClaimUs = this.#engine.platform.monotonicUs();
    const { submitter, clocks, heartbeat } = this.#engine;
    this.#leave.push(
      submitter.whenSubmitted(this.#arrives),
      clocks.promoted.add(this.#promoted),
      heartbeat.addClaimer(this.#heard),
    );
    this.consider();
  }

  /** No claim is made any more; resolves when the one in flight is answered. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const leave of this.#leave.splice(0)) leave();
    this.#opening?.timer.cancel();
    this.#backoff.cancel();
    this.#standBy.stop();
    await this.#inFlight;
  }

  /** While quiet no claim is made; what is here goes on. */
  setQuiet(isQuiet: boolean): void {
    this.#isQuiet = isQuiet;
    if (!isQuiet) this.wakeAll();
  }

  /** Called whenever a slot may be free: the claim itself waits for the end of the lap. */
  consider(): void {
    if (this.#isStopped || this.#inFlight !== null || this.#backoff.isWaiting) return;
    if (this.#isScheduled || !this.#hasAppetite(noneArriving)) return;
    this.#isScheduled = true;
    this.#engine.lap.atEnd(this.#claimNow);
  }

  hinted(hint: Hint & { readonly kind: "ready" }): void {
    this.#isHinted = true;
    this.#becameReady(hint.routes, (pool) => this.#standBy.hinted(pool));
  }

  /** @param mayClaim whether the pool claims now. */
  #becameReady(routes: readonly number[], mayClaim: (pool: Pool) => boolean): void {
    const { learning, closedGates } = this.#options;
    for (const route of routes) {
      const pool = this.#routes.poolOf({ route });
      if (pool === undefined) learning.meet(route);
      else {
        if (mayClaim(pool)) this.#routes.wake(pool, this.#routes.lanesOf({ route }));
        closedGates.suspect(pool);
      }
    }
    this.consider();
  }

  /** Another process has claimed what was ready on these routes. */
  taken(routes: readonly number[]): void {
    for (const route of routes) {
      const pool = this.#routes.poolOf({ route });
      if (pool !== undefined) this.#standBy.taken(pool);
    }
  }

  /** There may be work for every pool. */
  wakeAll(): void {
    for (const pool of this.#routes.pools) this.#routes.wake(pool);
    this.consider();
  }

  #hasAppetite(arriving: ReadonlyMap<Pool, number>): boolean {
    const { renewal, settling } = this.#options;
    if (this.#isQuiet) return false;
    // A new claim would be mistaken for the lost one that is looked for, and its jobs would run twice.
    if (renewal.isLooking) return false;
    // A store that is slow or away: what has ended must be settled before more is begun.
    if (settling.count > unsettledMax) return false;
    return this.#routes.pools.some((pool) => this.#wantedBy(pool, arriving) > 0);
  }

  #wantedBy(pool: Pool, arriving: ReadonlyMap<Pool, number>): number {
    return pool.isHungry ? pool.wanted(this.#roundTripUs, arriving.get(pool) ?? 0) : 0;
  }

  readonly #claimNow = (): void => {
    this.#isScheduled = false;
    if (this.#isStopped || this.#isQuiet || this.#inFlight !== null) return;
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
    const { owner, leaseMs, renewal, slots, settling, closedGates } = this.#options;
    const asked: Asked[] = [];
    let left: number = storeLimits.claimJobsMax;
    for (const pool of this.#poolsInTurn()) {
      const max = Math.min(this.#wantedBy(pool, arriving), left);
      if (max === 0) continue;
      asked.push(...this.#offersOf(pool, max, arriving));
      left -= max;
    }
    const sentUs = this.#engine.platform.monotonicUs();
    const sent: SentClaim = { sentUs, asked, isHinted: this.#isHinted, isGivenUp: false };
    this.#sent = sent;
    this.#isHinted = false;
    let answer: ClaimAnswer;
    try {
      const offers = asked.map(({ offer }) => offer);
      answer = await this.#engine.store.claim({ owner, leaseMs, offers, inputBytesMax });
    } catch (error) {
      if (!sent.isGivenUp) this.#failed(error, asked);
      return;
    }
    // It was given up, so whatever it took after all is looked for like the jobs of any lost claim.
    if (sent.isGivenUp) return renewal.findLost();
    this.#backoff.succeeded();
    this.#trouble.over();
    this.#measure(sentUs);
    const got = new Map<Pool, number>();
    const gotOf = new Map<RouteKind, number>();
    for (const { job, count } of runsOfRoutes(answer.jobs)) {
      const pool = this.#routes.poolOf(job);
      if (pool === undefined) continue;
      got.set(pool, (got.get(pool) ?? 0) + count);
      const kind = this.#routes.kindOf(pool, job);
      gotOf.set(kind, (gotOf.get(kind) ?? 0) + count);
    }
    // A claim that was cut, by the bytes of its inputs or because it looked at many, says nothing about what it did not
    // come to.
    const isFull = asked.some(({ kind, offer }) => (gotOf.get(kind) ?? 0) >= offer.max);
    const isCut = answer.more && (!isFull || mayReach(answer.jobs, inputBytesMax));
    const filled = new Set<Pool>();
    for (const { pool, kind, offer } of asked) {
      if (isCut || (gotOf.get(kind) ?? 0) >= offer.max) {
        this.#routes.keepHungry(pool, kind.order);
        filled.add(pool);
      } else {
        kind.isHungry ||= !kind.hasOfferedAll;
        pool.isHungry ||= kind.isHungry;
        closedGates.suspect(pool);
      }
    }
    for (const pool of new Set(asked.map((each) => each.pool))) {
      this.#standBy.claimed(pool, got.has(pool));
      if (!filled.has(pool)) this.behind.cameShort(pool, got.get(pool) ?? 0, settling.count);
    }
    if (answer.opensInMs !== undefined) this.#wakeIn(answer.opensInMs);
    if (answer.mustLook === true) renewal.findLost();
    // A pool that got less is sated: what its jobs free is claimed behind their settles.
    const goesAhead = this.#engine.store.claimsAhead === true && !this.#isStopped;
    if (goesAhead && this.#hasAppetite(got)) {
      this.behind.goesAhead();
      this.#send(got);
      // The driver hands its connection out behind all that is to be done in this lap, the jobs of this claim too.
      await new Promise<void>((resolve) => this.#engine.platform.defer(resolve));
    }
    if (answer.jobs.length === 0) {
      this.#engine.clocks.nextRead.emit(answer.nextDueInMs);
    }
    if (answer.jobs.length > 0) {
      if (!isFull && !answer.more)
        this.#standBy.tell([...new Set(answer.jobs.map(({ route }) => route))], sentUs);
      for (const { queue } of got.keys()) this.#options.claimed(queue, answer.now);
      renewal.arm();
      slots.arrive(answer.jobs, sentUs);
    }
    for (const pool of this.#routes.pools) pool.handedOver();
  }

  /** The offers of a pool. Slots that are free now go to the first of them. */
  #offersOf(pool: Pool, max: number, arriving: ReadonlyMap<Pool, number>): readonly Asked[] {
    let startsLeft = pool.starts(arriving.get(pool) ?? 0);
    const shares = this.#routes.share(pool, max);
    const asked = shares.map(({ kind, max: share }): Asked => {
      const starts = shares.length === 1 ? startsLeft : Math.min(startsLeft, share);
      startsLeft -= starts;
      return { pool, kind, offer: { routes: kind.next(), max: share, starts } };
    });
    // Before the call: a hint that comes while it is in flight must not be forgotten by its answer.
    pool.isHungry = this.#routes.hasMore(pool);
    return asked;
  }

  /** Each claim begins with another pool: what one call can bring is bounded, and the last ones would starve. */
  #poolsInTurn(): readonly Pool[] {
    const { pools } = this.#routes;
    if (pools.length === 1) return pools;
    this.#first = (this.#first + 1) % pools.length;
    return [...pools.slice(this.#first), ...pools.slice(0, this.#first)];
  }

  #measure(sentUs: number): void {
    const nowUs = this.#engine.platform.monotonicUs();
    this.#roundTripUs += (nowUs - sentUs - this.#roundTripUs) * 0.3;
    for (const pool of this.#routes.pools) pool.claimed(nowUs - this.#lastClaimUs, nowUs);
    this.#lastClaimUs = nowUs;
  }

  /**
   * A claim that never comes back would end all claiming. Looked at with the heartbeat, because a timer for each claim
   * costs more than the claim.
   */
  #giveUpHung(): void {
    const sent = this.#sent;
    const heldUs = this.#engine.platform.monotonicUs() - (sent?.sentUs ?? 0);
    if (sent === null || this.#inFlight === null || heldUs < claimMaxMs * 1000) return;
    sent.isGivenUp = true;
    this.#inFlight = null;
    this.#failed(new MillraceError("outcome-unknown", "The claim was not answered."), sent.asked);
  }

  #failed(error: unknown, asked: SentClaim["asked"]): void {
    for (const { pool } of asked) this.#routes.wake(pool);
    if (mayHaveHappened(error)) this.#options.renewal.findLost();
    if (this.#isStopped) return;
    if (isMillraceError(error, "store-fenced")) return this.#options.lost(error);
    const inMs = this.#backoff.retry(() => this.consider());
    this.#trouble.say({ inMs: Math.round(inMs), error });
  }

  /**
   * A job submitted here is claimed in the lap of its submit if a slot is free; else it is hinted at after the commit.
   * Where a claim may overtake it looks before the submit has happened, and the claim behind the hint waits for that
   * look.
   */
  readonly #arrives = (job: NewJob): void => {
    if (this.#engine.store.claimsOvertake === true) return;
    const pool = this.#routes.poolFor(job);
    if (!("inMs" in job.due) || job.due.inMs > 0) return;
    if (pool === undefined || pool.busySlots >= pool.room) return;
    this.#routes.wake(pool, laneOrderOf(job));
    this.consider();
  };

  /** Behind the hint of the promotion: where that came, a claim is under way already that answers it. */
  readonly #promoted = (): void => {
    if (!this.#isScheduled && (this.#inFlight === null || this.#sent?.isHinted !== true)) this.wakeAll();
  };

  /** One timer, for the gate that opens first; a gate that is still closed then answers its next opening. */
  #wakeIn(opensInMs: number): void {
    const { platform } = this.#engine;
    // Until a far opening heartbeats ask often enough: closed gates cost an idle worker no call.
    if (opensInMs > wakeInMaxMs) return;
    const atUs = platform.monotonicUs() + opensInMs * 1000;
    if (this.#isStopped || (this.#opening !== null && this.#opening.atUs <= atUs)) return;
    this.#opening?.timer.cancel();
    const timer = platform.setTimer(opensInMs, () => {
      this.#opening = null;
      this.wakeAll();
    });
    this.#opening = { atUs, timer };
  }

  /** Hints can be lost: every heartbeat says which routes have ready jobs. @param ready null if it failed. */
  readonly #heard = (ready: readonly number[] | null): void => {
    this.#giveUpHung();
    for (const pool of this.#routes.pools) this.#options.closedGates.suspect(pool);
    if (ready === null) this.wakeAll();
    else this.#becameReady(ready, () => true);
  };
}

/** Whether the inputs may have so many bytes of UTF-8, of which a character takes three at most. */
function mayReach(jobs: readonly LeasedJob[], bytes: number): boolean {
  let chars = 0;
  for (const { input } of jobs) chars += input.length;
  return chars * 3 >= bytes;
}

/** Whether a failed claim may have taken jobs all the same. */
function mayHaveHappened(error: unknown): boolean {
  return !isMillraceError(error) || error.outcome === "unknown";
}

/** Jobs in a row that are of one route, by the first of them. */
function runsOfRoutes(
  jobs: readonly LeasedJob[],
): readonly { readonly job: LeasedJob; readonly count: number }[] {
  const runs: { job: LeasedJob; count: number }[] = [];
  let last: (typeof runs)[number] | undefined;
  for (const job of jobs) {
    if (last?.job.route === job.route) last.count += 1;
    else runs.push((last = { job, count: 1 }));
  }
  return runs;
}
