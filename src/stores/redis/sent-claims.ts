/**
 * Which routes the claims of this connection have asked for, and since when. Calls arrive in the order they were sent, so a claim that was sent
 * behind a submit sees its jobs: the hint that they are ready would only make the worker claim once more, for nothing. A claim that came back
 * full is repeated by the worker anyway.
 */
import type { Hints } from "../../store/hints.ts";

export class SentClaims {
  #count = 0;
  readonly #last = new Map<number, number>();

  /** How many were sent so far: taken right before another call is sent. */
  get count(): number {
    return this.#count;
  }

  /** Right before a claim is sent; routes by the server's numbers. */
  sends(routes: readonly number[]): void {
    this.#count += 1;
    for (const route of routes) this.#last.set(route, this.#count);
  }

  /** The hints of a call that was sent after `count` claims, without routes that a later one has asked for. */
  without(hints: Hints, count: number): Hints {
    if (count === this.#count) return hints;
    for (const route of hints.routes) if ((this.#last.get(route) ?? 0) > count) hints.routes.delete(route);
    return hints;
  }
}
