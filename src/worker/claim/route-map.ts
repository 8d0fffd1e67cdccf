/**
 * Which pool and which handler of this worker serve a job. Claimed jobs and hints name their route by a number, and
 * this is the only file of the worker that knows what a number stands for. The numbers of jobs without capabilities,
 * with the limits and the group of their definition, follow from the queues and definitions that the worker serves.
 * `route-learning.ts` supplies the others.
 */
import type { ReadOptions } from "../../engine/submit/job-options.ts";
import { gatesOfRoute } from "../../engine/budgets/budget-definition.ts";
import { missingCapabilities } from "../../model/routing/capability.ts";
import { gatesToPass } from "../../model/limits/gate.ts";
import type { LaneFields, LaneOrder } from "../../model/routing/lane.ts";
import { routeNumber, routeOf } from "../../model/routing/route.ts";
import type { Route } from "../../model/routing/route.ts";
import type { LeasedJob, NewJob } from "../../store/records.ts";
import type { Handler } from "../handler.ts";
import type { Pool } from "./pool.ts";
import type { RouteKind } from "./pool-routes.ts";

interface ServedRoute {
  readonly route: Route;
  readonly pool: Pool;
  readonly kind: RouteKind;
  readonly handler: Handler | undefined;
}

/** For a job that no pool of this worker serves. */
const untitled = { queue: "", name: "" };

type Routed = Pick<LeasedJob, "route">;

export class RouteMap {
  readonly pools: readonly Pool[];
  readonly #byNumber = new Map<number, ServedRoute>();
  /** Most jobs have the route of the job before them, and each job is looked up about four times. */
  #last: ServedRoute | undefined;
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #capabilities: ReadonlySet<string>;

  constructor(pools: readonly Pool[], handlers: readonly Handler[], capabilities: readonly string[] = []) {
    this.pools = pools;
    this.#capabilities = new Set(capabilities);
    this.#handlers = new Map(handlers.map((handler) => [handler.definition.name, handler]));
    for (const pool of pools)
      for (const name of pool.names)
        for (const route of this.#routesOf(pool, name)) this.#serve(route, pool).compute(route.number);
  }

  /** The route of the definition, and the plain route, for jobs from before the definition had limits or a group. */
  #routesOf({ queue, isOfDefinition }: Pool, name: string): readonly Route[] {
    const { limits = [], budgets = [], group } = this.#handlers.get(name)?.definition.options ?? {};
    const plain = routeOf({ queue, name });
    const defined = routeOf({
      queue,
      name,
      gates: gatesOfRoute({ limits, budgets }),
      ...laneLike({ limits, budgets, group }),
    });
    return isOfDefinition || plain.number === defined.number ? [defined] : [plain, defined];
  }

  #serve(route: Route, pool: Pool): RouteKind {
    const kind = pool.routes.kindOf(route.lanes ?? null);
    this.#byNumber.set(route.number, { route, pool, kind, handler: this.#handlers.get(route.name) });
    this.#last = undefined;
    return kind;
  }

  #served(route: number): ServedRoute | undefined {
    return this.#last?.route.number === route ? this.#last : (this.#last = this.#byNumber.get(route));
  }

  /**
   * Adds the store's routes that this worker serves. @returns whether any is new; the pool of a new route gets demand.
   */
  learn(routes: readonly Route[]): boolean {
    let isNew = false;
    for (const route of routes) isNew = this.#learnOne(route) || isNew;
    return isNew;
  }

  #learnOne(route: Route): boolean {
    const { number, queue, name, requires, gates, lanes = null } = route;
    if (this.#byNumber.has(number) || missingCapabilities(requires, this.#capabilities).length > 0)
      return false;
    const pool = this.#poolNamed(queue, name);
    // A damaged record may ask for less than its jobs do; then its number does not match.
    if (pool === undefined || routeNumber(queue, name, requires, gates, lanes) !== number) return false;
    this.#serve(route, pool).learn(number);
    pool.addDemand(lanes);
    return true;
  }

  poolOf({ route }: Routed): Pool | undefined {
    return this.#served(route)?.pool;
  }

  handlerOf({ route }: Routed): Handler | undefined {
    return this.#served(route)?.handler;
  }

  /** The job's queue and name, for people. */
  titleOf({ route }: Routed): { readonly queue: string; readonly name: string } {
    return this.#served(route)?.route ?? untitled;
  }

  kindOf({ route }: Routed): RouteKind | undefined {
    return this.#served(route)?.kind;
  }

  /** How the lanes of the job's route share a claim; null for a route without lanes. */
  lanesOf({ route }: Routed): LaneOrder | null {
    return this.#served(route)?.route.lanes ?? null;
  }

  /** The pool of a job that is submitted in this process. Its route is known from then on. */
  poolFor(job: Pick<NewJob, "queue" | "name" | "requires" | "gates" | keyof LaneFields>): Pool | undefined {
    if (job.requires === undefined && job.gates === undefined && job.laneKey === undefined)
      return this.#poolNamed(job.queue, job.name);
    const route = routeOf(job);
    this.#learnOne(route);
    return this.poolOf({ route: route.number });
  }

  /** The gates that the job must pass: those of its queue and of its limits. */
  gateKeysAt({ route: number }: Routed): readonly string[] {
    const route = this.#byNumber.get(number)?.route;
    return route === undefined ? [] : gateKeys(route);
  }

  /** The gates of all known routes of the pool. */
  gateKeysOf(pool: Pool): readonly string[] {
    const served = [...this.#byNumber.values()].filter((each) => each.pool === pool);
    return [...new Set(served.flatMap(({ route }) => gateKeys(route)))];
  }

  #poolNamed(queue: string, name: string): Pool | undefined {
    return this.pools.find((pool) => pool.queue === queue && pool.names.has(name));
  }
}

/**
 * The lane fields that decide the route of a definition's jobs: whether they have lanes, and whether the lanes take
 * turns.
 */
function laneLike({
  limits = [],
  budgets = [],
  group,
}: Pick<ReadOptions, "limits" | "budgets" | "group">): Partial<LaneFields> {
  if (group !== undefined && group !== null)
    return { laneKey: "", laneStep: typeof group === "object" && group.weight === null ? null : 1 };
  return [...limits, ...budgets].some(({ key }) => key !== null) ? { laneKey: "", laneStep: null } : {};
}

function gateKeys(route: Route): readonly string[] {
  return gatesToPass(route).map(({ key }) => key);
}
