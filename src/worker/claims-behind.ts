/**
 * Claims right behind the settles of their turn: what a settle frees is claimed by the call behind it, without waiting
 * for its hint. It frees members of a flow, and the permits of limits and groups.
 *
 * Where permits are short, all jobs that they let through are claimed, run and settled before others can be claimed,
 * and the store and this process would wait for each other. So the claim and the settles of half of them leave early,
 * and the other half is run meanwhile.
 *
 * On a store where a claim may be done before the settles ahead of it, the hint of the settle asks for the claim.
 */
import type { Engine } from "../engine/engine.ts";
import type { LeasedJob } from "../store/records.ts";
import type { Pool } from "./pool.ts";
import type { RouteMap } from "./route-map.ts";

export class ClaimsBehind {
  readonly #engine: Engine;
  readonly #routes: RouteMap;
  /** Whether a claim is done behind the settles that were sent ahead of it. */
  readonly seesSettles: boolean;
  /** Permits have come back since part of a turn left early. */
  #hasPermits = false;

  constructor(engine: Engine, routes: RouteMap) {
    this.#engine = engine;
    this.#routes = routes;
    const { claimsOvertake, partitions = 1 } = engine.store;
    this.seesSettles = claimsOvertake !== true && partitions === 1;
  }

  /** A member of a flow has ended in this turn: that may free others, on any route. */
  memberEnded(): void {
    if (this.seesSettles) for (const pool of this.#routes.pools) this.#routes.wake(pool);
  }

  /**
   * A job that held permits has ended in this turn. Where other processes wait for them, the claim behind the settle
   * would always be the first, and they would get none: there the hint asks all alike.
   */
  permitsEnded(pool: Pool, job: LeasedJob): void {
    if (!this.seesSettles || this.#engine.fleet.others > 0) return;
    this.#routes.wake(pool, this.#routes.lanesOf(job));
    this.#hasPermits = true;
  }

  /** Whether what waits for the end of the turn is to leave now; true once for each half. */
  leavesEarly(): boolean {
    if (!this.#hasPermits || this.#engine.store.claimsAhead !== true) return false;
    if (!this.#routes.pools.some(({ isHungry, isHalfDone }) => isHungry && isHalfDone)) return false;
    this.#hasPermits = false;
    return true;
  }
}
