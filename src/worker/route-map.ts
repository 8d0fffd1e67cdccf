/**
 * Which pool and which handler of this worker serve a job. Claimed jobs and hints name their route by a number; this is
 * the only file of the worker that knows what a number stands for. The numbers of jobs that ask for no capability follow
 * from the queues and names that the worker serves; those of others, which ask for what the worker offers, it is told of
 * (route-learning.ts).
 */
import { missingCapabilities } from "../model/capability.ts";
import { routeNumber, routeOf } from "../model/route.ts";
import type { Route } from "../model/route.ts";
import type { LeasedJob, NewJob } from "../store/records.ts";
import type { Handler } from "./handler.ts";
import type { Pool } from "./pool.ts";
import { RouteRotation } from "./route-rotation.ts";

interface ServedRoute {
  readonly route: Route;
  readonly pool: Pool;
  readonly handler: Handler | undefined;
}

type Routed = Pick<LeasedJob, "route">;

export class RouteMap {
  readonly pools: readonly Pool[];
  readonly #byNumber = new Map<number, ServedRoute>();
  /** Of jobs that ask for no capability. */
  readonly #plain = new Map<Pool, readonly number[]>();
  /** Of those that do, as far as they are known. */
  readonly #rotations = new Map<Pool, RouteRotation>();
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #capabilities: ReadonlySet<string>;

  constructor(pools: readonly Pool[], handlers: readonly Handler[], capabilities: readonly string[] = []) {
    this.pools = pools;
    this.#capabilities = new Set(capabilities);
    this.#handlers = new Map(handlers.map((handler) => [handler.definition.name, handler]));
    for (const pool of pools) {
      const routes = [...pool.names].map((name) => routeOf({ queue: pool.queue, name }));
      this.#plain.set(
        pool,
        routes.map(({ number }) => number),
      );
      for (const route of routes) this.#serve(route, pool);
    }
  }

  #serve(route: Route, pool: Pool): void {
    this.#byNumber.set(route.number, { route, pool, handler: this.#handlers.get(route.name) });
  }

  /** Takes in those of a store's routes that this worker serves. @returns whether any is new; its pool is woken. */
  learn(routes: readonly Route[]): boolean {
    let isNew = false;
    for (const route of routes) isNew = this.#learnOne(route) || isNew;
    return isNew;
  }

  #learnOne(route: Route): boolean {
    const { number, queue, name, caps } = route;
    if (this.#byNumber.has(number) || missingCapabilities(caps, this.#capabilities).length > 0) return false;
    const pool = this.#poolNamed(queue, name);
    // A record that was damaged may ask for less than its jobs do: the number tells.
    if (pool === undefined || routeNumber(queue, name, caps) !== number) return false;
    this.#serve(route, pool);
    const rotation = this.#rotations.get(pool) ?? new RouteRotation();
    this.#rotations.set(pool, rotation);
    rotation.add(number);
    this.wake(pool);
    return true;
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

  /** There may be jobs on any route of this pool. */
  wake(pool: Pool): void {
    pool.isHungry = true;
    this.#rotations.get(pool)?.begin();
  }

  /** What the next claim offers for this pool; of many routes with capabilities only the next few. */
  offerFor(pool: Pool): readonly number[] {
    const plain = this.#plain.get(pool) ?? [];
    const rotation = this.#rotations.get(pool);
    return rotation === undefined ? plain : [...plain, ...rotation.next()];
  }

  /** Whether every route of this pool has been offered since it was woken. */
  hasOfferedAll(pool: Pool): boolean {
    return this.#rotations.get(pool)?.isOver ?? true;
  }

  /** Where a job that is submitted in this process runs: its route is known from now on. */
  poolFor(job: Pick<NewJob, "queue" | "name" | "caps">): Pool | undefined {
    if (job.caps === undefined) return this.#poolNamed(job.queue, job.name);
    const route = routeOf(job);
    this.#learnOne(route);
    return this.poolOf({ route: route.number });
  }

  #poolNamed(queue: string, name: string): Pool | undefined {
    return this.pools.find((pool) => pool.queue === queue && pool.names.has(name));
  }
}
