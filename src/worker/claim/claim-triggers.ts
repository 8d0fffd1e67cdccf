/**
 * Why and when a claim is made: the only place that decides it (`claimer.ts` makes the claim). A pool has demand while
 * there may be jobs for it in the store. A trigger gives demand to pools and requests a claim. The claim is made if a
 * pool with demand has room. A pool is idle again after a claim has brought less than it asked for.
 *
 *   trigger                                    demand                     the claim is made
 *   a slot is free, a settle was answered      none                       with this flush
 *   hint: routes have ready jobs               pools of the routes        with this flush, or after the fallback delay
 *   hint: another process has taken them       none                       not at all, if the fallback delay runs
 *   heartbeat: routes have ready jobs          pools of the routes        with this flush
 *   heartbeat failed: nobody knows             all                        with this flush
 *   a submit in this process                   its pool, if it has room   with this flush, after the submit
 *   a promotion by this process                all                        with this flush, unless a hint asked before
 *   a member of a flow has ended here          all                        with this flush, after the settle
 *   a job with permits has ended here          its pool                   with this flush, after the settle
 *   a claim has brought all it asked for       that pool                  at once, or when a slot is free
 *   a closed gate opens                        all                        then
 *   a route was learned, a queue got slots     its pool                   with this flush
 *   a claim failed or was given up             its pools                  after the backoff
 *   the jobs of a lost claim were looked for   none                       with this flush; until then none is made
 *   a permit is tried once, a quiet worker     all                        with this flush
 *   works again
 *
 *   idle ──request, a pool wants jobs──► scheduled ──the flush──► in flight ──answered──► idle
 *    ▲                                                               └──failed, given up──► backing off ──┐
 *    └────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * At most one claim is in flight. A store that works beside this process (`claimsAhead`) gets the next claim before the
 * jobs of the last one run, if a pool still has demand: the store claims while the handlers run. If a hint was lost,
 * the heartbeat says the same within a second. The jobs of a lost claim are found by the renewal of leases.
 */
import type { Needs } from "../../engine/services.ts";
import { RepeatedLine } from "../../engine/log/repeated-line.ts";
import { MillraceError, isMillraceError } from "../../model/error.ts";
import { laneOrderOf } from "../../model/routing/lane.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Timer } from "../../platform/platform.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { LeasedJob, NewJob } from "../../store/records.ts";
import type { Hint } from "../../store/store.ts";
import type { WorkerRenewal } from "../lease/renewal.ts";
import type { Settling } from "../settle/settling.ts";
import type { Claimer, ClaimOutcome, SentClaim } from "./claimer.ts";
import { ClosedGates } from "./closed-gates.ts";
import { FallbackDelay } from "./fallback-delay.ts";
import type { Pool } from "./pool.ts";
import { RouteLearning } from "./route-learning.ts";
import type { RouteMap } from "./route-map.ts";

export type ClaimTriggersNeeds = Needs<
  "platform" | "log" | "store" | "flush" | "limits" | "submitter" | "clocks" | "otherWorkers" | "heartbeat"
>;

/**
 * If a gate opens later than this, no timer is set: a heartbeat asks in time. So closed gates cost an idle worker no
 * call.
 */
const openingMaxMs = 10_000;
/** A claim without an answer after this time counts as lost. */
const claimMaxMs = 90_000;
const unsettledMax = 2 * storeLimits.claimJobsMax;
const backoffLengths = { firstMs: 100, maxMs: 5000 };

export interface ClaimTriggersOptions {
  readonly routes: RouteMap;
  readonly settling: Settling;
  readonly renewal: WorkerRenewal;
  /** Called if another process has taken the store over: no claim will ever be answered again. */
  readonly lost: (error: MillraceError) => void;
}

export class ClaimTriggers {
  readonly #needs: ClaimTriggersNeeds;
  readonly #options: ClaimTriggersOptions;
  readonly #routes: RouteMap;
  readonly #learning: RouteLearning;
  readonly #closedGates: ClosedGates;
  readonly #fallback: FallbackDelay;
  readonly #backoff: Backoff;
  readonly #trouble: RepeatedLine;
  /** The store runs a claim after the settles that were sent before it, so the claim gets what they free. */
  readonly #seesSettles: boolean;
  /** Undoes at the stop what the start has registered elsewhere. */
  readonly #leave: (() => void)[] = [];
  #claimer: Claimer | null = null;
  #isQuiet = false;
  #isScheduled = false;
  #inFlight: Promise<void> | null = null;
  #sent: SentClaim | null = null;
  readonly #givenUp = new WeakSet<SentClaim>();
  /** `#isHinted`: a hint has come since the last claim was sent. `#wasHinted`: that claim was sent after a hint. */
  #isHinted = false;
  #wasHinted = false;
  /** Jobs with permits have ended since the last claim; their settles may still wait for the flush. */
  #hasFreedPermits = false;
  #opening: { readonly atUs: number; readonly timer: Timer } | null = null;

  constructor(needs: ClaimTriggersNeeds, options: ClaimTriggersOptions) {
    const { routes, settling } = options;
    const { claimsOvertake, partitions = 1 } = needs.store;
    this.#needs = needs;
    this.#options = options;
    this.#routes = routes;
    this.#seesSettles = claimsOvertake !== true && partitions === 1;
    this.#learning = new RouteLearning(needs, routes, () => this.request());
    this.#closedGates = new ClosedGates(needs, routes, (attempt) => settling.handBack(attempt));
    this.#fallback = new FallbackDelay(needs, (pool) => {
      pool.addDemand();
      this.request();
    });
    this.#backoff = new Backoff(needs.platform, backoffLengths);
    this.#trouble = new RepeatedLine(needs, "warn", "claiming failed, trying again");
  }

  start(claimer: Claimer): void {
    this.#claimer = claimer;
    const { store, submitter, clocks, heartbeat } = this.#needs;
    this.#leave.push(
      store.watch((hint) => this.#hinted(hint)),
      submitter.whenSubmitted((job) => this.#submitted(job)),
      clocks.promoted.add(() => this.#promoted()),
      heartbeat.addClaimer((ready) => this.#heartbeat(ready)),
    );
    this.#learning.start();
    this.request();
  }

  /** Makes no further claim; resolves when the claim in flight is answered. */
  async stop(): Promise<void> {
    this.#claimer = null;
    for (const leave of this.#leave.splice(0)) leave();
    this.#learning.stop();
    this.#closedGates.stop();
    this.#fallback.stop();
    this.#opening?.timer.cancel();
    this.#backoff.cancel();
    await this.#inFlight;
  }

  /** A quiet worker makes no claim; jobs that it holds go on. */
  setQuiet(isQuiet: boolean): void {
    this.#isQuiet = isQuiet;
    if (!isQuiet) this.requestAll();
  }

  /** Makes a claim with this flush, if a pool with demand has room. */
  request(): void {
    if (this.#claimer === null || this.#isScheduled || this.#inFlight !== null || this.#backoff.isWaiting)
      return;
    if (!this.#isWanted()) return;
    this.#isScheduled = true;
    this.#needs.flush.atEnd(this.#flush);
  }

  /** As `request`, with demand for every pool. */
  requestAll(): void {
    for (const pool of this.#routes.pools) pool.addDemand();
    this.request();
  }

  /** A member of a flow has ended, and its settle goes with this flush. That may free other members, on any route. */
  memberEnded(): void {
    if (this.#seesSettles) for (const pool of this.#routes.pools) pool.addDemand();
  }

  /**
   * A job that held permits has ended, and its settle goes with this flush. If other processes wait for the permits, no
   * claim is requested here: a claim right after the settle would always be the first, and the others would get none.
   * The hint then asks all processes alike.
   */
  permitsEnded(pool: Pool, job: LeasedJob): void {
    if (!this.#seesSettles || this.#needs.otherWorkers.count > 0) return;
    pool.keepDemand(this.#routes.lanesOf(job));
    if (this.#needs.store.claimsAhead === true) pool.givesPermits = true;
    this.#hasFreedPermits = true;
  }

  // Triggers from outside -------------------------------------------------------------------------------------------

  #hinted(hint: Hint): void {
    if (hint.kind === "ready") {
      this.#isHinted = true;
      this.#becameReady(hint.routes, (pool) => this.#fallback.claimsAtOnce(pool));
    } else if (hint.kind === "taken") {
      for (const route of hint.routes) {
        const pool = this.#routes.poolOf({ route });
        if (pool !== undefined) this.#fallback.taken(pool);
      }
    }
  }

  /** @param ready null if the heartbeat failed. */
  #heartbeat(ready: readonly number[] | null): void {
    this.#giveUpHung();
    for (const pool of this.#routes.pools) this.#closedGates.suspect(pool);
    if (ready === null) this.requestAll();
    else this.#becameReady(ready, () => true);
  }

  #becameReady(routes: readonly number[], mayClaim: (pool: Pool) => boolean): void {
    for (const route of routes) {
      const pool = this.#routes.poolOf({ route });
      if (pool === undefined) this.#learning.meet(route);
      else {
        if (mayClaim(pool)) pool.addDemand(this.#routes.lanesOf({ route }));
        this.#closedGates.suspect(pool);
      }
    }
    this.request();
  }

  /**
   * A job that is submitted here is claimed with the flush of its submit, if a slot is free. If claims may overtake
   * submits, nothing is requested: the claim would run before the submit, and the claim for the hint would have to wait
   * for it.
   */
  #submitted(job: NewJob): void {
    if (this.#needs.store.claimsOvertake === true) return;
    const pool = this.#routes.poolFor(job);
    if (!("inMs" in job.due) || job.due.inMs > 0) return;
    if (pool === undefined || pool.busySlots >= pool.room) return;
    pool.addDemand(laneOrderOf(job));
    this.request();
  }

  /** If the promotion's hint came first, a claim that answers it is already on its way. */
  #promoted(): void {
    if (!this.#isScheduled && (this.#inFlight === null || !this.#wasHinted)) this.requestAll();
  }

  // The claim -------------------------------------------------------------------------------------------------------

  #isWanted(): boolean {
    const { renewal, settling } = this.#options;
    if (this.#claimer === null || this.#isQuiet) return false;
    // A new claim would be mistaken for the lost one that is searched for, and its jobs would run twice.
    if (renewal.isLooking) return false;
    // The store is slow or unreachable: ended jobs must be settled before more are started.
    if (settling.count > unsettledMax) return false;
    for (const pool of this.#routes.pools) if (pool.wanted() > 0) return true;
    return false;
  }

  readonly #flush = (): void => {
    this.#isScheduled = false;
    if (this.#inFlight === null && this.#isWanted()) this.#claim();
  };

  #claim(): void {
    const claim = (this.#claimer as Claimer).send();
    this.#sent = claim;
    this.#wasHinted = this.#isHinted;
    this.#isHinted = false;
    const inFlight = this.#follow(claim).finally(() => {
      if (this.#inFlight === inFlight) this.#inFlight = null;
      this.request();
    });
    this.#inFlight = inFlight;
  }

  async #follow(claim: SentClaim): Promise<void> {
    const claimer = this.#claimer as Claimer;
    let outcome: ClaimOutcome;
    try {
      outcome = await claim.outcome;
    } catch (error) {
      if (!this.#givenUp.has(claim)) this.#failed(claim, error);
      return;
    }
    // The claim was given up. The jobs that it took after all are found like the jobs of any lost claim.
    if (this.#givenUp.has(claim)) return this.#options.renewal.findLost();
    this.#backoff.succeeded();
    this.#trouble.over();
    claimer.received(outcome);
    this.#learn(claim, outcome);
    if (this.#needs.store.claimsAhead === true && this.#isWanted()) {
      // Settles that give permits back and wait for the flush are sent first. Otherwise the claim would meet the
      // permits of a half-batch that are still held, and bring nothing.
      if (this.#hasFreedPermits) this.#needs.flush.endNow();
      this.#hasFreedPermits = false;
      this.#claim();
      // A driver sends the call only at the end of this turn of the event loop, so the handlers must start in a later
      // one.
      await new Promise<void>((resolve) => this.#needs.platform.defer(resolve));
    }
    claimer.handOut(outcome);
  }

  /** Learns from the answer whether further claims are needed. */
  #learn({ pools }: SentClaim, { sentUs, answer, offers, hasTakenAll }: ClaimOutcome): void {
    for (const { pool, kind, mayHaveMore } of offers) if (mayHaveMore) pool.keepDemand(kind.order);
    for (const pool of pools) {
      const ofPool = offers.filter((offer) => offer.pool === pool);
      const got = ofPool.reduce((sum, offer) => sum + offer.got, 0);
      this.#fallback.claimed(pool, got > 0);
      if (!ofPool.some(({ mayHaveMore }) => mayHaveMore)) pool.cameShort(got, this.#options.settling.count);
    }
    if (answer.opensInMs !== undefined) this.#requestAllIn(answer.opensInMs);
    // A partition has not answered, so its part of this claim is lost.
    if (answer.mustLook === true) this.#options.renewal.findLost();
    if (answer.jobs.length > 0 && hasTakenAll) this.#fallback.announceTaken(answer.jobs, sentUs);
  }

  /**
   * One timer, for the gate that opens first. If another gate is still closed then, that claim's answer says when it
   * opens.
   */
  #requestAllIn(inMs: number): void {
    const { platform } = this.#needs;
    if (inMs > openingMaxMs || this.#claimer === null) return;
    const atUs = platform.monotonicUs() + inMs * 1000;
    if (this.#opening !== null && this.#opening.atUs <= atUs) return;
    this.#opening?.timer.cancel();
    const timer = platform.setTimer(inMs, () => {
      this.#opening = null;
      this.requestAll();
    });
    this.#opening = { atUs, timer };
  }

  /**
   * A claim that never came back would end all claiming. The heartbeat checks, because a timer for each claim would
   * cost more than the claim.
   */
  #giveUpHung(): void {
    const sent = this.#sent;
    if (sent === null || this.#inFlight === null) return;
    if (this.#needs.platform.monotonicUs() - sent.sentUs < claimMaxMs * 1000) return;
    this.#givenUp.add(sent);
    this.#inFlight = null;
    this.#failed(sent, new MillraceError("outcome-unknown", "The claim was not answered."));
  }

  #failed({ pools }: SentClaim, error: unknown): void {
    for (const pool of pools) pool.addDemand();
    if (mayHaveHappened(error)) this.#options.renewal.findLost();
    if (this.#claimer === null) return;
    if (isMillraceError(error, "store-fenced")) return this.#options.lost(error);
    const inMs = this.#backoff.retry(() => this.request());
    this.#trouble.say({ inMs: Math.round(inMs), error });
  }
}

/** Whether a failed claim may have taken jobs all the same. */
function mayHaveHappened(error: unknown): boolean {
  return !isMillraceError(error) || error.outcome === "unknown";
}
