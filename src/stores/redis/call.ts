/** What every operation needs: the connection, what it knows of routes, and where hints go. */
import type { Route } from "../../store/records.ts";
import type { Hints } from "../../store/hints.ts";
import type { Connection } from "./connection.ts";
import { fieldEnd, unpackText } from "./text.ts";

export interface Calls {
  readonly connection: Connection;
  readonly routes: RouteBook;
  tell(hints: Hints): void;
}

/** Routes by number. They are never changed, so what was once read stays right until the server is flushed. */
export class RouteBook {
  readonly #routes: Route[] = [];

  get known(): number {
    return this.#routes.length;
  }

  /** Routes behind the first `known`, as the library lists them. */
  add(known: number, listed: readonly string[]): void {
    for (const [index, route] of readRoutes(known, listed).entries()) this.#routes[known + index] = route;
  }

  of(number: number): Route {
    const route = this.#routes[number - 1];
    if (route === undefined) throw new Error(`no route has the number ${number}`);
    return route;
  }
}

export function readRoutes(known: number, listed: readonly string[]): Route[] {
  return listed.map((text, index) => {
    const [queue = "", name = ""] = text.split(fieldEnd);
    return { number: known + index + 1, queue: unpackText(queue), name: unpackText(name), caps: [] };
  });
}
