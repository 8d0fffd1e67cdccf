/**
 * The routes that one pool serves. An offer of a claim has routes of one lane order (rule R6). So a pool whose jobs are
 * of several kinds (plain, lanes by rank, lanes by turn) makes several offers that share its slots:
 *
 *   idle ──a trigger (claim-triggers.ts)──► has demand ──all its routes were offered, and brought less──► idle
 *
 * Only kinds with demand are offered, so a kind without work takes no slots from the others. If several kinds have
 * demand, each gets a share of the slots. If there are fewer slots than kinds, the kinds alternate, so none starves.
 */
import type { LaneOrder } from "../../model/routing/lane.ts";
import { storeLimits } from "../../store/contract-limits.ts";

const learnedMax = storeLimits.learnedRoutesPerOfferMax;

/**
 * The routes of one lane order; null for plain jobs. Each combination of capabilities and limits that was ever enqueued
 * may be a learned route. So that claims do not grow with their number, each claim offers only the next few.
 */
export class RouteKind {
  readonly order: LaneOrder | null;
  /** There may be jobs on these routes. */
  hasDemand = true;
  /** Routes that follow from the definitions. */
  #computed: readonly number[] = [];
  /** The other routes that are known. */
  #learned: readonly number[] = [];
  #next = 0;
  /** How many learned routes must be offered before the kind is idle. */
  #left = 0;

  constructor(order: LaneOrder | null) {
    this.order = order;
  }

  compute(route: number): void {
    this.#computed = [...this.#computed, route];
  }

  learn(route: number): void {
    this.#learned = [...this.#learned, route];
  }

  /** Each route must be offered again. */
  addDemand(): void {
    this.hasDemand = true;
    this.#left = this.#learned.length;
  }

  /** The routes of the next offer. */
  next(): readonly number[] {
    this.#left -= learnedMax;
    this.hasDemand = this.#left > 0;
    if (this.#learned.length === 0) return this.#computed;
    return [...this.#computed, ...this.#nextLearned()];
  }

  #nextLearned(): readonly number[] {
    const all = this.#learned;
    if (all.length <= learnedMax) return all;
    const from = this.#next;
    this.#next = (from + learnedMax) % all.length;
    const offered = all.slice(from, from + learnedMax);
    return this.#next < from ? [...offered, ...all.slice(0, this.#next)] : offered;
  }
}

export interface KindShare {
  readonly kind: RouteKind;
  readonly max: number;
}

export class PoolRoutes {
  #kinds: readonly RouteKind[] = [];
  #first = 0;

  kindOf(order: LaneOrder | null): RouteKind {
    const known = this.#kinds.find((kind) => kind.order === order);
    if (known !== undefined) return known;
    const kind = new RouteKind(order);
    this.#kinds = [...this.#kinds, kind];
    return kind;
  }

  get hasDemand(): boolean {
    for (const { hasDemand } of this.#kinds) if (hasDemand) return true;
    return false;
  }

  /** There may be jobs on any route, or on the routes of this lane order. */
  addDemand(order?: LaneOrder | null): void {
    if (order === undefined) for (const kind of this.#kinds) kind.addDemand();
    else this.kindOf(order).addDemand();
  }

  /** Divides the `max` jobs of the next claim among the kinds. */
  share(max: number): readonly KindShare[] {
    const kinds = this.#kinds.filter(({ hasDemand }) => hasDemand);
    if (kinds.length < 2) return kinds.map((kind) => ({ kind, max }));
    const first = this.#first++ % kinds.length;
    return [...kinds.slice(first), ...kinds.slice(0, first)].flatMap((kind, at) => {
      const share = Math.floor(max / kinds.length) + (at < max % kinds.length ? 1 : 0);
      return share === 0 ? [] : [{ kind, max: share }];
    });
  }
}
