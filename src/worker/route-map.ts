/**
 * Which pool and which handler of this worker serve a job. Claimed jobs and hints name their route by a number; this is
 * the only file of the worker that knows what a number stands for. The numbers follow from the queues and names that the
 * worker serves, so nothing has to be learned from a store.
 */
import { routeOf } from "../model/route.ts";
import type { Route } from "../model/route.ts";
import type { LeasedJob, NewJob } from "../store/records.ts";
import type { Hint } from "../store/store.ts";
import type { Handler } from "./handler.ts";
import type { Pool } from "./pool.ts";

interface ServedRoute {
  readonly route: Route;
  readonly pool: Pool;
  readonly handler: Handler | undefined;
}

type Routed = Pick<LeasedJob, "route">;

export class RouteMap {
  readonly pools: readonly Pool[];
  readonly #byNumber = new Map<number, ServedRoute>();
  readonly #numbers = new Map<Pool, readonly number[]>();

  constructor(pools: readonly Pool[], handlers: readonly Handler[]) {
    this.pools = pools;
    const byName = new Map(handlers.map((handler) => [handler.definition.name, handler]));
    for (const pool of pools) {
      const routes = [...pool.names].map((name) => routeOf({ queue: pool.queue, name }));
      this.#numbers.set(
        pool,
        routes.map(({ number }) => number),
      );
      for (const route of routes)
        this.#byNumber.set(route.number, { route, pool, handler: byName.get(route.name) });
    }
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

  /** Where a job of this queue and name runs. */
  poolFor({ queue, name }: Pick<NewJob, "queue" | "name">): Pool | undefined {
    return this.pools.find((pool) => pool.queue === queue && pool.names.has(name));
  }

  /** Whether the hint is about jobs of this pool. */
  concerns(hint: Hint & { readonly kind: "ready" }, pool: Pool): boolean {
    const own = this.routesOf(pool);
    return hint.routes.some((route) => own.includes(route));
  }
}
