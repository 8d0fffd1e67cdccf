/**
 * Routes on their way to the store and back (jobs/routes.sql.ts): a submit brings the content of its jobs' routes
 * along; a read gets numbers and looks their content up. The content of a number never changes, so it is cached.
 */
import { MillraceError } from "../../../model/error.ts";
import type { GateUse } from "../../../model/limits/gate.ts";
import { gateOfLimit, groupGateKey, laneOrderOf, readKeyUse } from "../../../model/routing/lane.ts";
import type { LaneOrder } from "../../../model/routing/lane.ts";
import { asksAlike, routeNumber } from "../../../model/routing/route.ts";
import type { Route, RouteContent } from "../../../model/routing/route.ts";
import type { NewJob } from "../../../store/records.ts";
import { passOverDenied } from "../upkeep/unreadable.ts";
import { callRead, callWrite } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { listText } from "../functions/columns.ts";
import type { Row } from "../connection/database.ts";
import {
  numberList,
  packText,
  sparseNumberList,
  sparseTextList,
  unpackText,
} from "../functions/packed-values.ts";

const noRequires: readonly string[] = [];
const noGates: readonly GateUse[] = [];
const rememberedMax = 10_000;

export interface Routes {
  /** In the order of the numbers. */
  contentsOf(numbers: readonly number[]): Promise<readonly RouteContent[]>;
  readAll(): Promise<readonly Route[]>;
}

export function openRoutes(calls: Calls): Routes {
  const known = new Map<number, RouteContent>();
  const read = async (numbers: string | null): Promise<Route[]> => {
    const routes: Route[] = [];
    for (const row of await callRead(calls, "read_routes_v1", [numbers])) {
      const route = readRoute(row);
      if (route !== null) routes.push(route);
      else await callWrite(calls, "keep_unreadable_route_v1", row).catch(passOverDenied);
    }
    return routes;
  };
  return {
    async contentsOf(numbers) {
      const missing = [...new Set(numbers)].filter((number) => !known.has(number));
      if (missing.length > 0) {
        if (known.size + missing.length > rememberedMax) known.clear();
        for (const route of await read(numberList(missing))) known.set(route.number, route);
      }
      return numbers.map((number) => known.get(number) ?? lost(number));
    },
    readAll: () => read(null),
  };
}

/** A route without a row, whose jobs are still there; the next submit of the same name adds the row again. */
const lost = (number: number): RouteContent => ({
  ...{ queue: "?", name: `route ${number}` },
  ...{ requires: noRequires, gates: noGates },
});

/** Null if the number does not follow from the content of the row. */
function readRoute(row: Row): Route | null {
  const [number, queue, name, requires, gates, lanes = null] = row as [
    string,
    string,
    string,
    string,
    string,
    LaneOrder?,
  ];
  try {
    const content = {
      queue: unpackText(queue),
      name: unpackText(name),
      requires: (JSON.parse(requires) as string[]).map(unpackText),
      gates: (JSON.parse(gates) as GateUse[]).map(({ key, weight }) => ({ key: unpackText(key), weight })),
      ...(lanes === null ? {} : { lanes }),
    };
    const own = routeNumber(content.queue, content.name, content.requires, content.gates, lanes);
    return own === Number(number) ? { number: Number(number), ...content } : null;
  } catch {
    return null;
  }
}

export function gatesText(gates: readonly GateUse[]): string {
  return gates.length === 0
    ? "[]"
    : JSON.stringify(gates.map(({ key, weight }) => ({ key: packText(key), weight })));
}

/** The routes of a call's jobs, each once. */
export class RouteList {
  readonly #routes = new Map<number, Route & { readonly place: number }>();
  /** For each route the limits whose keys its jobs take. */
  readonly #scopes = new Map<number, Set<string>>();

  /** The number of a job's route, and its place in the list, from 1 on. */
  add(job: NewJob): {
    readonly number: number;
    readonly place: number;
  } {
    const { queue, name, requires = noRequires, gates = noGates } = job;
    const lanes = laneOrderOf(job);
    const number = routeNumber(queue, name, requires, gates, lanes);
    if (job.laneGates) for (const use of job.laneGates) this.#addScope(number, queue, use);
    const known = this.#routes.get(number);
    // Jobs of one plan share these lists. The number covers the lanes.
    if (known?.queue === queue && known.name === name && known.requires === requires && known.gates === gates)
      return known;
    const asked = { requires, gates, ...(lanes === null ? {} : { lanes }) };
    if (known === undefined) {
      const route = { number, queue, name, ...asked, place: this.#routes.size + 1 };
      this.#routes.set(number, route);
      return route;
    }
    if (known.queue === queue && known.name === name && asksAlike(known, asked)) return known;
    throw new MillraceError(
      "route-collision",
      `${known.queue}/${known.name} and ${queue}/${name} have one route number.`,
    );
  }

  #addScope(route: number, queue: string, use: string): void {
    const scope = gateOfLimit(readKeyUse(use).key);
    if (scope === groupGateKey(queue)) return;
    const scopes = this.#scopes.get(route);
    if (scopes === undefined) this.#scopes.set(route, new Set([scope]));
    else scopes.add(scope);
  }

  get size(): number {
    return this.#routes.size;
  }

  /** By the names of the functions' parameters; null without any. */
  values(): Record<
    "p_routes" | "p_queues" | "p_names" | "p_requires" | "p_gates" | "p_lanes" | "p_scopes",
    string | null
  > {
    const routes = [...this.#routes.values()];
    return {
      p_routes: sparseNumberList(routes.map(({ number }) => number)),
      p_queues: sparseTextList(routes.map(({ queue }) => packText(queue))),
      p_names: sparseTextList(routes.map(({ name }) => packText(name))),
      p_requires: sparseTextList(routes.map(({ requires }) => listText(requires))),
      p_gates: sparseTextList(routes.map(({ gates }) => gatesText(gates))),
      p_lanes: sparseTextList(routes.map(({ lanes = null }) => lanes)),
      p_scopes: sparseTextList(
        routes.map(({ number }) => {
          const scopes = this.#scopes.get(number);
          return scopes === undefined ? null : [...scopes].map(packText).join("\x1f");
        }),
      ),
    };
  }
}
