/**
 * Routes: which content (queue, name, capabilities) stands behind the number that jobs carry. The number is computed
 * from the content (model/route.ts); here the content is kept beside it, and another content under the same number is
 * refused.
 */
import { MillraceError } from "../../model/error.ts";
import { hasSameCaps, routeOf } from "../../model/route.ts";
import type { Route, RouteContent } from "../../model/route.ts";
import type { NewJob } from "../../store/records.ts";
import type { Statements } from "./connection.ts";

/**
 * Routes of which this connection knows that they are written. What a transaction wrote is forgotten when it is
 * rolled back; the caller's own transaction, which may still be, starts with none.
 */
export interface KnownRoutes {
  readonly byNumber: Map<number, RouteContent>;
  /** The one asked for last: a bulk of one kind asks for it again and again. */
  last: Route | null;
}

export function openKnownRoutes(): KnownRoutes {
  return { byNumber: new Map(), last: null };
}

export function forgetRoutes(known: KnownRoutes): void {
  known.byNumber.clear();
  known.last = null;
}

const knownMax = 10_000;

/** The capabilities of a row. A damaged list must not hide queue and name. */
export const capsColumn = "CASE WHEN json_valid(caps) THEN caps ELSE '[]' END";
/** Input: number. Answer: the content behind it, unless its capabilities are damaged. */
const readContent = "SELECT queue, name, caps FROM millrace_route WHERE number = ? AND json_valid(caps)";
/** Inputs: number, queue, name, capabilities as JSON. What is damaged under the number is mended. */
const addRoute = "INSERT OR REPLACE INTO millrace_route (number, queue, name, caps) VALUES (?, ?, ?, ?)";

/** The number of a job's route, whose content is kept from now on. */
export function keepRoute(statements: Statements, known: KnownRoutes, job: NewJob): number {
  const { last } = known;
  const isLast = last !== null && last.queue === job.queue && last.name === job.name;
  if (isLast && last.caps.length === 0 && job.caps === undefined) return last.number;
  const route = routeOf(job);
  const { number, queue, name, caps } = route;
  let kept = known.byNumber.get(number);
  if (kept === undefined) {
    const row = statements(readContent).get(number);
    if (row === undefined) statements(addRoute).run(number, queue, name, JSON.stringify(caps));
    kept = row === undefined ? route : contentOf(row);
    if (known.byNumber.size >= knownMax) known.byNumber.clear();
    known.byNumber.set(number, kept);
  }
  if (!isSame(kept, route)) throw collision(kept, route);
  known.last = route;
  return number;
}

function contentOf(row: unknown): RouteContent {
  const [queue, name, caps] = row as [queue: string, name: string, caps: string];
  return { queue, name, caps: JSON.parse(caps) as string[] };
}

function isSame(one: RouteContent, other: RouteContent): boolean {
  return one.queue === other.queue && one.name === other.name && hasSameCaps(one.caps, other.caps);
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
const readAll = `SELECT number, queue, name, ${capsColumn} FROM millrace_route ORDER BY number`;

export function readRoutes(statements: Statements): Route[] {
  return statements(readAll)
    .all()
    .map((row) => {
      const [number, ...content] = row as [number: number, queue: string, name: string, caps: string];
      return { number, ...contentOf(content) };
    });
}
