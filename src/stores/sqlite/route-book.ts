/**
 * The numbers of routes: (queue, name) -> small number, given once and never changed. The book of the store's own connection is kept
 * between transactions; a rolled-back transaction, and the caller's own one, start with an empty book, because a number given
 * there may never come to be.
 */
import type { Route } from "../../store/records.ts";
import type { Statements } from "./connection.ts";

export interface RouteBook {
  readonly numbers: Map<string, number>;
  /** The one asked for last: a bulk of one kind asks for it again and again. */
  last: { readonly queue: string; readonly name: string; readonly number: number } | null;
}

export function openRouteBook(): RouteBook {
  return { numbers: new Map(), last: null };
}

export function forgetRoutes(book: RouteBook): void {
  book.numbers.clear();
  book.last = null;
}

const bookMax = 10_000;

/** Inputs: queue, name. Answer: its number, if it has one. */
const findRoute = "SELECT number FROM millrace_route WHERE queue = ? AND name = ?";
/** Inputs: queue, name. Answer: the new number. */
const addRoute = "INSERT INTO millrace_route (queue, name) VALUES (?, ?) RETURNING number";

export function routeNumber(statements: Statements, book: RouteBook, queue: string, name: string): number {
  const { last } = book;
  if (last !== null && last.queue === queue && last.name === name) return last.number;
  const key = `${queue.length}:${queue}${name}`;
  let number = book.numbers.get(key);
  if (number === undefined) {
    const row = statements(findRoute).get(queue, name) ?? statements(addRoute).get(queue, name);
    [number] = row as [number: number];
    if (book.numbers.size >= bookMax) book.numbers.clear();
    book.numbers.set(key, number);
  }
  book.last = { queue, name, number };
  return number;
}

/** Input: the highest number known. Answer: the newer routes. */
const newerRoutes = "SELECT number, queue, name FROM millrace_route WHERE number > ? ORDER BY number";

export function routesAfter(statements: Statements, known: number): Route[] {
  const rows = statements(newerRoutes).all(known) as [number, string, string][];
  return rows.map(([number, queue, name]) => ({ number, queue, name, caps: [] }));
}
