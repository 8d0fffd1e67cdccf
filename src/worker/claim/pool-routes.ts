/**
 * The routes that one pool serves. An offer of a claim has routes of one lane order (rule R6), so a pool whose jobs are
 * of several kinds (plain, lanes by rank, lanes by turn) makes several offers that share its slots:
 *
 *   sated ──a hint, a submit, the slow poll──► hungry ──offered, and got less than it asked for──► sated
 *
 * Only hungry kinds are offered, so a kind without work takes no slots from the others. Where several are hungry each
 * has a share, and with fewer slots than kinds they alternate: none starves. A pool of plain jobs makes one offer.
 */
import type { LaneOrder } from "../../model/routing/lane.ts";
import { RouteRotation } from "./route-rotation.ts";

/** The routes of one lane order; null for plain jobs. */
export class RouteKind {
  readonly order: LaneOrder | null;
  /** There may be jobs on these routes. */
  isHungry = true;
  /** Those that follow from the definitions. */
  #computed: readonly number[] = [];
  /** The others, as far as they are known. */
  #learned: RouteRotation | null = null;

  constructor(order: LaneOrder | null) {
    this.order = order;
  }

  compute(route: number): void {
    this.#computed = [...this.#computed, route];
  }

  learn(route: number): void {
    this.#learned ??= new RouteRotation();
    this.#learned.add(route);
  }

  wake(): void {
    this.isHungry = true;
    this.#learned?.begin();
  }

  /** What the next claim offers; of many learned routes only the next few. */
  next(): readonly number[] {
    this.isHungry = false;
    return this.#learned === null ? this.#computed : [...this.#computed, ...this.#learned.next()];
  }

  /** Whether every route has been offered since the kind was woken. */
  get hasOfferedAll(): boolean {
    return this.#learned?.isOver ?? true;
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

  wake(): void {
    for (const kind of this.#kinds) kind.wake();
  }

  get isHungry(): boolean {
    return this.#kinds.some(({ isHungry }) => isHungry);
  }

  /** How many jobs of each kind the next claim asks for, of so many together. */
  share(max: number): readonly KindShare[] {
    const kinds = this.#kinds.filter(({ isHungry }) => isHungry);
    if (kinds.length < 2) return kinds.map((kind) => ({ kind, max }));
    const first = this.#first++ % kinds.length;
    return [...kinds.slice(first), ...kinds.slice(0, first)].flatMap((kind, at) => {
      const share = Math.floor(max / kinds.length) + (at < max % kinds.length ? 1 : 0);
      return share === 0 ? [] : [{ kind, max: share }];
    });
  }
}
