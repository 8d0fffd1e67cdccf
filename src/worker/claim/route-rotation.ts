/**
 * The learned routes that one pool serves, in rotation: there may be one for each combination of capabilities and
 * limits that anybody ever asked for, and a claim must not grow with them, so each claim offers the next few. A
 * rotation is over when every route was offered once since it began.
 */
import { storeLimits } from "../../store/limits.ts";

const offerMax = storeLimits.learnedRoutesPerOfferMax;

export class RouteRotation {
  #routes: readonly number[] = [];
  #at = 0;
  #left = 0;

  add(route: number): void {
    this.#routes = [...this.#routes, route];
  }

  /** From here on every route is to be offered again. */
  begin(): void {
    this.#left = this.#routes.length;
  }

  get isOver(): boolean {
    return this.#left <= 0;
  }

  /** What the next claim offers. */
  next(): readonly number[] {
    this.#left -= offerMax;
    if (this.#routes.length <= offerMax) return this.#routes;
    const from = this.#at;
    this.#at = (from + offerMax) % this.#routes.length;
    const offered = this.#routes.slice(from, from + offerMax);
    return this.#at < from ? [...offered, ...this.#routes.slice(0, this.#at)] : offered;
  }
}
