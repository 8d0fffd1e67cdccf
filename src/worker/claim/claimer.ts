/**
 * Makes a claim: builds an offer for each pool that wants jobs, calls the store, and hands the jobs to their pools. Why
 * and when a claim is made is decided in `claim-triggers.ts`.
 *
 *   send       one call with the offers of all pools: which routes, how many jobs, how many of them start at once
 *   received   counts what each offer brought; the next claim may be sent now
 *   hand out   the jobs become attempts, wait in their pool for a slot, and run
 */
import type { Needs } from "../../engine/services.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { ClaimAnswer, ClaimOffer } from "../../store/operations.ts";
import type { LeasedJob } from "../../store/records.ts";
import type { WorkerRenewal } from "../lease/renewal.ts";
import type { Slots } from "../run/slots.ts";
import type { Pool } from "./pool.ts";
import type { RouteKind } from "./pool-routes.ts";
import type { RouteMap } from "./route-map.ts";

const inputBytesMax = storeLimits.claimInputBytesMax;
/** How much of a new measurement goes into the average. */
const smoothing = 0.3;

export interface ClaimerOptions {
  readonly owner: string;
  readonly leaseMs: number;
  readonly routes: RouteMap;
  readonly renewal: WorkerRenewal;
  readonly slots: Slots;
  /** Called for each queue of which a claim has brought jobs, with the store's time. */
  readonly claimed: (queue: string, at: number) => void;
}

/** The part of a pool's slots that routes of one kind may fill. */
interface SentOffer {
  readonly pool: Pool;
  readonly kind: RouteKind;
  readonly offer: ClaimOffer;
}

export interface SentClaim {
  readonly sentUs: number;
  readonly pools: ReadonlySet<Pool>;
  readonly outcome: Promise<ClaimOutcome>;
}

/** What one offer brought. */
export interface FilledOffer {
  readonly pool: Pool;
  readonly kind: RouteKind;
  readonly got: number;
  /** It brought as many jobs as it asked for, or the claim ended before it was filled. */
  readonly mayHaveMore: boolean;
}

export interface ClaimOutcome {
  readonly sentUs: number;
  readonly answeredUs: number;
  readonly answer: ClaimAnswer;
  readonly offers: readonly FilledOffer[];
  /** Nothing that was ready on the routes of its jobs is left. */
  readonly hasTakenAll: boolean;
}

export class Claimer {
  readonly #needs: Needs<"store" | "platform">;
  readonly #options: ClaimerOptions;
  #roundTripUs = 0;
  #answeredUs: number;
  #first = 0;

  constructor(needs: Needs<"store" | "platform">, options: ClaimerOptions) {
    this.#needs = needs;
    this.#options = options;
    this.#answeredUs = needs.platform.monotonicUs();
  }

  send(): SentClaim {
    const offers: SentOffer[] = [];
    const pools = new Set<Pool>();
    let left: number = storeLimits.claimJobsMax;
    for (const pool of this.#poolsInTurn()) {
      const max = Math.min(pool.wanted(), left);
      if (max === 0) continue;
      pools.add(pool);
      offers.push(...offersOf(pool, max));
      left -= max;
    }
    const sentUs = this.#needs.platform.monotonicUs();
    return { sentUs, pools, outcome: this.#call(offers, sentUs) };
  }

  async #call(sent: readonly SentOffer[], sentUs: number): Promise<ClaimOutcome> {
    const { owner, leaseMs, routes } = this.#options;
    const { store, platform } = this.#needs;
    const offers = sent.map(({ offer }) => offer);
    const answer = await store.claim({ owner, leaseMs, offers, inputBytesMax });
    const answeredUs = platform.monotonicUs();
    const counts = countByKind(answer.jobs, routes);
    const isFull = sent.some(({ kind, offer }) => (counts.get(kind) ?? 0) >= offer.max);
    // The claim ended early, because of its input bytes or the number of jobs read. It says nothing about the routes
    // that it did not reach.
    const isCut = answer.more && (!isFull || mayReach(answer.jobs, inputBytesMax));
    return {
      ...{ sentUs, answeredUs, answer, hasTakenAll: !isFull && !answer.more },
      offers: sent.map(({ pool, kind, offer }) => {
        const got = counts.get(kind) ?? 0;
        return { pool, kind, got, mayHaveMore: isCut || got >= offer.max };
      }),
    };
  }

  received({ sentUs, answeredUs, offers }: ClaimOutcome): void {
    this.#roundTripUs += (answeredUs - sentUs - this.#roundTripUs) * smoothing;
    for (const pool of this.#options.routes.pools)
      pool.claimed(answeredUs - this.#answeredUs, answeredUs, this.#roundTripUs);
    this.#answeredUs = answeredUs;
    for (const { pool, got } of offers) pool.arriving += got;
  }

  handOut({ sentUs, answer, offers }: ClaimOutcome): void {
    const { routes, renewal, slots, claimed } = this.#options;
    for (const { pool, got } of offers) {
      pool.arriving -= got;
      if (got > 0) claimed(pool.queue, answer.now);
    }
    if (answer.jobs.length > 0) {
      renewal.arm();
      slots.arrive(answer.jobs, sentUs);
    }
    for (const pool of routes.pools) pool.handedOut();
  }

  /**
   * Each claim begins with another pool. One call brings a bounded number of jobs, so a pool that is always last would
   * starve.
   */
  #poolsInTurn(): readonly Pool[] {
    const { pools } = this.#options.routes;
    if (pools.length === 1) return pools;
    this.#first = (this.#first + 1) % pools.length;
    return [...pools.slice(this.#first), ...pools.slice(0, this.#first)];
  }
}

/** The offers of a pool. Its free slots go to the first offers. */
function offersOf(pool: Pool, max: number): readonly SentOffer[] {
  let startsLeft = pool.starts();
  const shares = pool.routes.share(max);
  return shares.map(({ kind, max: share }): SentOffer => {
    const starts = shares.length === 1 ? startsLeft : Math.min(startsLeft, share);
    startsLeft -= starts;
    return { pool, kind, offer: { routes: kind.next(), max: share, starts } };
  });
}

/** Counts runs of jobs of one route, because most jobs have the route of the job before them. */
function countByKind(jobs: readonly LeasedJob[], routes: RouteMap): ReadonlyMap<RouteKind, number> {
  const counts = new Map<RouteKind, number>();
  for (let from = 0, to = 0; from < jobs.length; from = to) {
    const first = jobs[from] as LeasedJob;
    while (jobs[to]?.route === first.route) to += 1;
    const kind = routes.kindOf(first);
    if (kind !== undefined) counts.set(kind, (counts.get(kind) ?? 0) + to - from);
  }
  return counts;
}

/** Whether the inputs may have this many bytes of UTF-8 (at most three bytes per UTF-16 unit). */
function mayReach(jobs: readonly LeasedJob[], bytes: number): boolean {
  let chars = 0;
  for (const { input } of jobs) chars += input.length;
  return chars * 3 >= bytes;
}
