/**
 * Claims right behind the settles of their lap: what a settle frees is claimed by the call behind it, without waiting
 * for its hint. It frees members of a flow, and the permits of limits and groups.
 *
 * Where permits are short, all jobs that they let through would be claimed, run and settled before others can be
 * claimed, and a store beside this process would wait for it and it for the store. So each claim asks for half of them,
 * a lot: one lot is settled and the next claimed while the other is run.
 *
 *   this process  ──run A──────run B──────run A──────run B──────►
 *   the store     ──settle, claim B──settle, claim A──settle, claim B──►
 *
 * On a store where a claim may be done before the settles ahead of it, the hint of the settle asks for the claim.
 */
import type { Engine } from "../../engine/engine.ts";
import type { LeasedJob } from "../../store/records.ts";
import { worthAClaim } from "./pool.ts";
import type { Pool } from "./pool.ts";
import type { RouteMap } from "./route-map.ts";

export class ClaimsBehind {
  readonly #engine: Engine;
  readonly #routes: RouteMap;
  /** Whether a claim is done behind the settles that were sent ahead of it. */
  readonly seesSettles: boolean;
  /** Whether the store settles and claims while this process runs jobs: only then are lots worth their claims. */
  readonly #makesLots: boolean;
  /** Pools whose jobs give permits back as they end. */
  readonly #givers = new Set<Pool>();
  /** Jobs that held permits have ended since a claim went ahead: their settles may wait for the end of the lap. */
  #hasEnded = false;

  constructor(engine: Engine, routes: RouteMap) {
    this.#engine = engine;
    this.#routes = routes;
    const { claimsAhead, claimsOvertake, partitions = 1 } = engine.store;
    this.seesSettles = claimsOvertake !== true && partitions === 1;
    this.#makesLots = this.seesSettles && claimsAhead === true;
  }

  /** A member of a flow has ended in this lap: that may free others, on any route. */
  memberEnded(): void {
    if (this.seesSettles) for (const pool of this.#routes.pools) this.#routes.wake(pool);
  }

  /**
   * A job that held permits has ended in this lap. Where other processes wait for them, the claim behind the settle
   * would always be the first, and they would get none: there the hint asks all alike.
   */
  permitsEnded(pool: Pool, job: LeasedJob): void {
    if (!this.seesSettles || this.#engine.otherWorkers.count > 0) return;
    this.#routes.keepHungry(pool, this.#routes.lanesOf(job));
    if (this.#makesLots) this.#givers.add(pool);
    this.#hasEnded = true;
  }

  /**
   * A claim is to go ahead. Settles that give permits back and wait for the end of this lap leave before it: it would
   * meet the permits of a whole lot that are still held, and come back with nothing.
   */
  goesAhead(): void {
    if (this.#hasEnded) this.#engine.lap.endNow();
    this.#hasEnded = false;
  }

  /**
   * A claim has brought less for this pool than it asked for. Where its jobs give permits back, these are short: they
   * let through what is here and what is being settled, or fewer, where the store has answered settles of which this
   * process is still to hear. How many jobs the slots of a batch handler have is not known, so it makes no lots.
   */
  cameShort(pool: Pool, got: number, settling: number): void {
    const held = got + pool.waiting + pool.busySlots + settling;
    if (held === 0) this.#givers.delete(pool);
    if (!this.#givers.has(pool) || pool.jobsPerSlot > 1) return;
    pool.permitsLet(held);
    // The other lot is being settled: it can be claimed again before this one is run.
    if (got > 0 && settling >= worthAClaim) this.#routes.keepHungry(pool);
  }
}
