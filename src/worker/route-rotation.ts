/**
 * The routes with capabilities that one pool serves, offered in turns: there may be one for each combination that
 * anybody ever asked for, and a claim must not grow with them. Who takes turns until the rotation is over has offered
 * every route once since it began.
 */
import { storeLimits } from "../store/limits.ts";

const turnMax = storeLimits.capsRoutesPerOfferMax;

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
  take(): readonly number[] {
    this.#left -= turnMax;
    if (this.#routes.length <= turnMax) return this.#routes;
    const from = this.#at;
    this.#at = (from + turnMax) % this.#routes.length;
    const turn = this.#routes.slice(from, from + turnMax);
    return this.#at < from ? [...turn, ...this.#routes.slice(0, this.#at)] : turn;
  }
}
