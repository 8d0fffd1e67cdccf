/**
 * Which pool and which handler of this worker serve a job. Claimed jobs and hints name their route by a number; this is
 * the only file of the worker that knows what a number stands for. A route is learned from the claim that brings it,
 * and one that no pool serves is remembered too, so that hints about it wake nobody.
 */
import type { LeasedJob, NewJob, Route } from "../store/records.ts";
import type { Hint } from "../store/store.ts";
import type { Handler } from "./handler.ts";
import type { Pool } from "./pool.ts";

interface KnownRoute {
  readonly route: Route;
  readonly pool: Pool | undefined;
  readonly handler: Handler | undefined;
}

type Routed = Pick<LeasedJob, "route">;

export class RouteMap {
  readonly pools: readonly Pool[];
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #byNumber = new Map<number, KnownRoute>();
  readonly #numbers: ReadonlyMap<Pool, number[]>;
  #highest = 0;

  constructor(pools: readonly Pool[], handlers: readonly Handler[]) {
    this.pools = pools;
    this.#handlers = new Map(handlers.map((handler) => [handler.definition.name, handler]));
    this.#numbers = new Map(pools.map((pool) => [pool, []]));
  }

  /** The highest number learned: a claim brings the routes above it. */
  get highest(): number {
    return this.#highest;
  }

  /** @returns the pools that serve more routes than before. */
  learn(routes: readonly Route[]): readonly Pool[] {
    const grown: Pool[] = [];
    for (const route of routes) {
      if (this.#byNumber.has(route.number)) continue;
      const pool = route.caps.length === 0 ? this.poolFor(route) : undefined;
      this.#byNumber.set(route.number, { route, pool, handler: this.#handlers.get(route.name) });
      this.#highest = Math.max(this.#highest, route.number);
      if (pool === undefined) continue;
      this.#numbers.get(pool)?.push(route.number);
      grown.push(pool);
    }
    return grown;
  }

  poolOf({ route }: Routed): Pool | undefined {
    return this.#byNumber.get(route)?.pool;
  }

  handlerOf({ route }: Routed): Handler | undefined {
    return this.#byNumber.get(route)?.handler;
  }

  /** The job's queue and name, for people. */
  titleOf({ route }: Routed): { readonly queue?: string; readonly name?: string } {
    return this.#byNumber.get(route)?.route ?? {};
  }

  /** What a claim offers for this pool. */
  routesOf(pool: Pool): readonly number[] {
    return this.#numbers.get(pool) ?? [];
  }

  /** Where a job of this queue and name would run, whether or not its route is known yet. */
  poolFor({ queue, name }: Pick<NewJob, "queue" | "name">): Pool | undefined {
    return this.pools.find((pool) => pool.queue === queue && pool.names.has(name));
  }

  /**
   * Whether the hint may be about jobs of this pool: a route that is not known yet may turn out to be one of its own.
   */
  concerns(hint: Hint & { readonly kind: "ready" }, pool: Pool): boolean {
    const own = this.routesOf(pool);
    return hint.routes.some((route) => route > this.#highest || own.includes(route));
  }
}
