/**
 * The numbers of routes: (queue, name) -> small number, given once and never changed. The book of the store's own connection is kept
 * between transactions; a rolled-back transaction, and the caller's own one, start with an empty book, because a number given
 * there may never come to be.
 */
import type { Route } from "../../store/records.ts";
import type { Statements } from "./connection.ts";

export interface RouteBook {
  readonly numbers: Map<string, number>;
}

export function openRouteBook(): RouteBook {
  return { numbers: new Map() };
}

const bookMax = 10_000;

/** Inputs: queue, name. Answer: its number, if it has one. */
const findRoute = "SELECT number FROM millrace_route WHERE queue = ? AND name = ?";
/** Inputs: queue, name. Answer: the new number. */
const addRoute = "INSERT INTO millrace_route (queue, name) VALUES (?, ?) RETURNING number";

export function routeNumber(statements: Statements, book: RouteBook, queue: string, name: string): number {
  const key = `${queue.length}:${queue}${name}`;
  const known = book.numbers.get(key);
  if (known !== undefined) return known;
  const row = (statements(findRoute).get(queue, name) ?? statements(addRoute).get(queue, name)) as [
    number: number,
  ];
  if (book.numbers.size >= bookMax) book.numbers.clear();
  book.numbers.set(key, row[0]);
  return row[0];
}

/** Input: the highest number known. Answer: the newer routes. */
const newerRoutes = "SELECT number, queue, name FROM millrace_route WHERE number > ? ORDER BY number";

export function routesAfter(statements: Statements, known: number): Route[] {
  const rows = statements(newerRoutes).all(known) as [number, string, string][];
  return rows.map(([number, queue, name]) => ({ number, queue, name, caps: [] }));
}
