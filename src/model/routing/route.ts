/**
 * Routes: where jobs of one kind wait. A route is everything that decides which workers may take a job, and when: its
 * queue, its name, the capabilities that it requires and the gates that it has to pass. Its number is computed from
 * this content. So every process knows it without asking a store, it means the same in every partition and after every
 * restart, and no job can reach the wrong handler because two processes counted differently.
 *
 * 47 bits, which SQLite keeps in six bytes: among 10,000 routes two share a number with a probability of 4 in 10
 * million. A store keeps the content with the number and refuses a second content for it (`route-collision`), so even a
 * collision runs no job wrongly.
 *
 * The formula is part of the stored data: a change would strand jobs in existing stores.
 */
import type { GateUse } from "../limits/gate.ts";
import { laneOrderOf } from "./lane.ts";
import type { LaneFields, LaneOrder } from "./lane.ts";
import { hashPair } from "../text-hash.ts";

export interface RouteContent {
  readonly queue: string;
  readonly name: string;
  /** Capabilities a worker must offer; sorted, without repeats. */
  readonly requires: readonly string[];
  /** Limits; sorted by key, without repeats. */
  readonly gates: readonly GateUse[];
  /** How its lanes share a claim; absent for a route without lanes. */
  readonly lanes?: LaneOrder;
}

export interface Route extends RouteContent {
  readonly number: number;
}

const noRequires: readonly string[] = [];
const noGates: readonly GateUse[] = [];

/** A route as records show it; capabilities only if it has any. */
export function shownRoute({ queue, name, requires }: Omit<RouteContent, "gates" | "lanes">): {
  readonly queue: string;
  readonly name: string;
  readonly requires?: readonly string[];
} {
  return requires.length === 0 ? { queue, name } : { queue, name, requires };
}

/** A route as state counts show it: also with its gates, which decide about all its ready jobs. */
export function countedRoute(route: Omit<RouteContent, "lanes">): ReturnType<typeof shownRoute> & {
  readonly gates?: readonly GateUse[];
} {
  return route.gates.length === 0 ? shownRoute(route) : { ...shownRoute(route), gates: route.gates };
}

/** Whether two routes of one queue and name require the same. */
export function asksAlike(
  one: Omit<RouteContent, "queue" | "name">,
  other: Omit<RouteContent, "queue" | "name">,
): boolean {
  return (
    requiresSame(one.requires, other.requires) &&
    one.lanes === other.lanes &&
    one.gates.length === other.gates.length &&
    one.gates.every(
      ({ key, weight }, at) => key === other.gates[at]?.key && weight === other.gates[at].weight,
    )
  );
}

export function requiresSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((cap, at) => cap === other[at]);
}

/** Ends each part. Names have no control characters, so the text is unambiguous. */
const partEnd = "\x1f";
/** Begins a gate, so that a capability and a gate of the same name differ. */
const gateMark = "\x1e";
const laneMark = "\x1d";

/** The last route: a bulk of one kind asks for it again and again. */
let last: Route = { queue: "", name: "", requires: noRequires, gates: noGates, number: hashContent(partEnd) };

export function routeNumber(
  queue: string,
  name: string,
  requires: readonly string[] = noRequires,
  gates: readonly GateUse[] = noGates,
  lanes: LaneOrder | null = null,
): number {
  if (last.queue === queue && last.name === name && last.requires === requires && last.gates === gates)
    if ((last.lanes ?? null) === lanes) return last.number;
  const asked = gates.map(({ key, weight }) => `${gateMark}${key}${gateMark}${weight}`);
  const ordered = lanes === null ? [] : [`${laneMark}${lanes}`];
  const number = hashContent([queue, name, ...requires, ...asked, ...ordered].join(partEnd));
  last = { queue, name, requires, gates, number, ...(lanes === null ? {} : { lanes }) };
  return number;
}

/** The part of a job that makes its route. */
type RoutedJob = Pick<RouteContent, "queue" | "name"> &
  Partial<Pick<RouteContent, "requires" | "gates"> & Record<keyof LaneFields, unknown>>;

export function routeOf(job: RoutedJob): Route {
  const { queue, name, requires = noRequires, gates = noGates } = job;
  routeNumber(queue, name, requires, gates, laneOrderOf(job));
  return last;
}

/** 32 bits of one hash below 15 bits of the other; never 0. */
function hashContent(text: string): number {
  const { low, high } = hashPair(text);
  const number = (high >>> 17) * 2 ** 32 + low;
  return number === 0 ? 1 : number;
}
