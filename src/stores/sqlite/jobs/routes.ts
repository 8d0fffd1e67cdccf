/**
 * Routes: which content (queue, name, capabilities, gates) stands behind the number that jobs carry. The number is
 * computed from the content (model/routing/route.ts); here the content is kept beside it, and another content under the
 * same number is refused.
 */
import { MillraceError } from "../../../model/error.ts";
import { gatesToPass } from "../../../model/limits/gate.ts";
import type { GateUse } from "../../../model/limits/gate.ts";
import type { LaneOrder } from "../../../model/routing/lane.ts";
import { asksAlike, routeOf } from "../../../model/routing/route.ts";
import type { Route, RouteContent } from "../../../model/routing/route.ts";
import type { NewJob } from "../../../store/records.ts";
import type { Statements } from "../connection/connection.ts";
import { isLanedRoute } from "../connection/schema.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/**
 * Routes of which this connection knows that they are written, by number. What a transaction wrote is forgotten when it
 * is rolled back; the caller's own transaction, which may still be, starts with none.
 */
export type KnownRoutes = Map<number, RouteContent>;

const knownMax = 10_000;

/** The capabilities of a row. A damaged list must not hide queue and name. */
export const requiresColumn = "CASE WHEN json_valid(requires) THEN requires ELSE '[]' END";
/** Of gates that are damaged nobody knows what they let pass: such a route is unreadable. */
const columns = `queue, name, ${requiresColumn}, gates, lanes`;
/** Input: number. Answer: the content behind it, and whether it is whole. */
const readContent = sql`SELECT ${columns}, json_valid(requires) FROM millrace_route WHERE number = ?`;
/**
 * Inputs: number, queue, name, capabilities and gates as JSON, order of lanes. A damaged row of the number is
 * replaced.
 */
const addRoute =
  "INSERT OR REPLACE INTO millrace_route (number, queue, name, requires, gates, lanes) VALUES (?, ?, ?, ?, ?, ?)";
/** Inputs: key, route, weight. */
const listRoute = "INSERT OR REPLACE INTO millrace_gate_route (key, route, weight) VALUES (?, ?, ?)";

/** The number of a job's route, whose content is kept from now on. */
export function keepRoute(statements: Statements, known: KnownRoutes, job: NewJob): number {
  const route = routeOf(job);
  const { number, queue, name, requires, gates, lanes = null } = route;
  let kept = readRoute(statements, known, number);
  if (kept === null || !known.has(number)) {
    statements(addRoute).run(number, queue, name, JSON.stringify(requires), JSON.stringify(gates), lanes);
    for (const { key, weight } of gatesToPass(route)) statements(listRoute).run(key, number, weight);
    kept = remember(known, number, route);
  }
  if (kept !== route && !isSame(kept, route)) throw collision(kept, route);
  return number;
}

/** No input. Answer: the routes that have lanes. */
export const laned = sql`SELECT number FROM millrace_route INDEXED BY millrace_route_lanes WHERE ${isLanedRoute}`;

export function readLanedRoutes(statements: Statements): Set<number> {
  return new Set((statements(laned).all() as [number: number][]).flat());
}

/** Whether jobs of this route stand in lanes. */
export function hasLanes({ statements, commit }: Step, route: number): boolean {
  return readRoute(statements, commit.routes, route)?.lanes !== undefined;
}

/** The content behind a number; null where none was kept. One that is damaged is not remembered. */
export function readRoute(statements: Statements, known: KnownRoutes, number: number): RouteContent | null {
  const kept = known.get(number);
  if (kept !== undefined) return kept;
  const row = statements(readContent).get(number) as [...content: string[], isWhole: number] | undefined;
  if (row === undefined) return null;
  const isWhole = row.pop() === 1;
  const content = contentOf(row);
  return isWhole ? remember(known, number, content) : content;
}

function remember(known: KnownRoutes, number: number, content: RouteContent): RouteContent {
  if (known.size >= knownMax) known.clear();
  known.set(number, content);
  return content;
}

function contentOf(row: unknown): RouteContent {
  const [queue, name, requires, gates, lanes] = row as [
    ...texts: [string, string, string, string],
    LaneOrder | null,
  ];
  return { queue, name, ...askedOf(requires, gates), ...(lanes === null ? {} : { lanes }) };
}

/** Capabilities and gates of a route from their columns. */
export function askedOf(requires: string, gates: string): Pick<RouteContent, "requires" | "gates"> {
  return { requires: JSON.parse(requires) as string[], gates: JSON.parse(gates) as GateUse[] };
}

function isSame(one: RouteContent, other: RouteContent): boolean {
  return one.queue === other.queue && one.name === other.name && asksAlike(one, other);
}

function collision(kept: RouteContent, refused: RouteContent): MillraceError {
  const show = ({ queue, name }: RouteContent): string =>
    `${JSON.stringify(name)} in ${JSON.stringify(queue)}`;
  return new MillraceError(
    "route-collision",
    `The jobs ${show(refused)} have the same route number as ${show(kept)}, by chance. Rename one of them.`,
  );
}

/** No input. Answer: every route. */
const readAll = sql`SELECT number, ${columns} FROM millrace_route ORDER BY number`;

export function readRoutes({ statements }: Step): Route[] {
  return statements(readAll)
    .all()
    .map((row) => {
      const [number, ...content] = row as [number: number, ...content: string[]];
      return { number, ...contentOf(content) };
    });
}
