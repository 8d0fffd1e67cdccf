/**
 * Which pool and which handler of this worker serve a job. Claimed jobs and hints name their route by a number; this is
 * the only file of the worker that knows what a number stands for. Most numbers follow from the queues and definitions
 * that the worker serves; the others are learned (learned-routes.ts).
 */
import { gatesOf } from "../engine/limit.ts";
import { queueGateKey } from "../model/gate.ts";
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
  readonly #numbers = new Map<Pool, number[]>();
  readonly #handlers: ReadonlyMap<string, Handler>;
  /** Routes of the store that this worker does not serve. */
  readonly #others = new Set<number>();

  constructor(pools: readonly Pool[], handlers: readonly Handler[]) {
    this.pools = pools;
    this.#handlers = new Map(handlers.map((handler) => [handler.definition.name, handler]));
    for (const pool of pools) {
      this.#numbers.set(pool, []);
      for (const name of pool.names) {
        const limits = this.#handlers.get(name)?.definition.options.limits ?? [];
        const route = { queue: pool.queue, name };
        this.#serve(routeOf(route), pool);
        if (limits.length > 0) this.#serve(routeOf({ ...route, gates: gatesOf(limits) }), pool);
      }
    }
  }

  /** Serves those of the store's routes that jobs of this worker wait on. @returns whether there are new ones. */
  learn(routes: readonly Route[]): boolean {
    let isMore = false;
    for (const route of routes) {
      if (this.knows(route.number)) continue;
      const pool = route.caps.length > 0 ? undefined : this.poolFor(route);
      if (pool === undefined) this.#others.add(route.number);
      else {
        this.#serve(route, pool);
        isMore = true;
      }
    }
    return isMore;
  }

  knows(number: number): boolean {
    return this.#byNumber.has(number) || this.#others.has(number);
  }

  #serve(route: Route, pool: Pool): void {
    this.#byNumber.set(route.number, { route, pool, handler: this.#handlers.get(route.name) });
    this.#numbers.get(pool)?.push(route.number);
  }

  /** The gates that the job has to pass: its limits and its queue's. */
  gateKeysAt({ route: number }: Routed): readonly string[] {
    const route = this.#byNumber.get(number)?.route;
    return route === undefined ? [] : [queueGateKey(route.queue), ...route.gates.map(({ key }) => key)];
  }

  gateKeysOf(pool: Pool): readonly string[] {
    return [...new Set(this.routesOf(pool).flatMap((route) => this.gateKeysAt({ route })))];
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
