/**
 * Which pool and which handler of this worker serve a job. Claimed jobs and hints name their route by a number; this is
 * the only file of the worker that knows what a number stands for. The numbers of jobs that ask for no capability and
 * have the limits of their definition follow from the queues and definitions that the worker serves; those of others,
 * which ask for what the worker offers or have other limits, it is told of (route-learning.ts).
 */
import { gatesOf } from "../engine/limit.ts";
import { missingCapabilities } from "../model/capability.ts";
import { gatesToPass } from "../model/gate.ts";
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
  /** Those that follow from the definitions, and those without limits, for jobs from before there were any. */
  readonly #computed = new Map<Pool, readonly number[]>();
  /** The others, as far as they are known. */
  readonly #rotations = new Map<Pool, RouteRotation>();
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #capabilities: ReadonlySet<string>;

  constructor(pools: readonly Pool[], handlers: readonly Handler[], capabilities: readonly string[] = []) {
    this.pools = pools;
    this.#capabilities = new Set(capabilities);
    this.#handlers = new Map(handlers.map((handler) => [handler.definition.name, handler]));
    for (const pool of pools) {
      const routes = [...pool.names].flatMap((name) => this.#routesOf(pool.queue, name));
      this.#computed.set(
        pool,
        routes.map(({ number }) => number),
      );
      for (const route of routes) this.#serve(route, pool);
    }
  }

  #routesOf(queue: string, name: string): readonly Route[] {
    const limits = this.#handlers.get(name)?.definition.options.limits ?? [];
    const plain = routeOf({ queue, name });
    return limits.length === 0 ? [plain] : [plain, routeOf({ queue, name, gates: gatesOf(limits) })];
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
    const { number, queue, name, caps, gates } = route;
    if (this.#byNumber.has(number) || missingCapabilities(caps, this.#capabilities).length > 0) return false;
    const pool = this.#poolNamed(queue, name);
    // A record that was damaged may ask for less than its jobs do: the number tells.
    if (pool === undefined || routeNumber(queue, name, caps, gates) !== number) return false;
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

  /** What the next claim offers for this pool; of many learned routes only the next few. */
  offerFor(pool: Pool): readonly number[] {
    const computed = this.#computed.get(pool) ?? [];
    const rotation = this.#rotations.get(pool);
    return rotation === undefined ? computed : [...computed, ...rotation.next()];
  }

  /** Whether every route of this pool has been offered since it was woken. */
  hasOfferedAll(pool: Pool): boolean {
    return this.#rotations.get(pool)?.isOver ?? true;
  }

  /** Where a job that is submitted in this process runs: its route is known from now on. */
  poolFor(job: Pick<NewJob, "queue" | "name" | "caps" | "gates">): Pool | undefined {
    if (job.caps === undefined && job.gates === undefined) return this.#poolNamed(job.queue, job.name);
    const route = routeOf(job);
    this.#learnOne(route);
    return this.poolOf({ route: route.number });
  }

  /** The gates that the job has to pass: its queue's and its limits'. */
  gateKeysAt({ route: number }: Routed): readonly string[] {
    const route = this.#byNumber.get(number)?.route;
    return route === undefined ? [] : gateKeys(route);
  }

  /** The gates of all routes of the pool that are known here. */
  gateKeysOf(pool: Pool): readonly string[] {
    const served = [...this.#byNumber.values()].filter((each) => each.pool === pool);
    return [...new Set(served.flatMap(({ route }) => gateKeys(route)))];
  }

  #poolNamed(queue: string, name: string): Pool | undefined {
    return this.pools.find((pool) => pool.queue === queue && pool.names.has(name));
  }
}

function gateKeys(route: Route): readonly string[] {
  return gatesToPass(route).map(({ key }) => key);
}
