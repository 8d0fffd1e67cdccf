/**
 * Routes by number. On the server a route's number is its place in a list, and it holds under one entry only: a flush, or a failover that lost the
 * submit which made a route, may give a number another meaning. Whoever kept the old one would run jobs by the wrong handler. The numbers
 * that this store gives out are therefore its own, by queue and name, and never change; they are the server's as long as nothing was lost.
 *
 *  a call sends what it knows (entry, count) ─► the library lists what is behind, or under another entry all ─► the page of that entry
 */
import type { Hints } from "../../store/hints.ts";
import type { Route } from "../../store/records.ts";
import { fieldEnd, unpackText } from "./text.ts";

/** The server's numbers under one entry. */
export interface RoutePage {
  /** Of the entry, as the library gives it; 0 before the first answer. */
  readonly mark: string;
  /** The store's own number of each, in the server's order. */
  readonly own: number[];
}

export class RouteBook {
  readonly #routes: Route[] = [];
  readonly #numbers = new Map<string, number>();
  #page: RoutePage = { mark: "0", own: [] };
  /** Whether the server's numbers are the store's own. */
  #isPlain = true;

  get page(): RoutePage {
    return this.#page;
  }

  /** Takes in what the library listed in answer to a page. Answers the page that its numbers belong to: another one under another entry. */
  learn(asked: RoutePage, known: number, listed: readonly string[]): RoutePage {
    const [first] = listed;
    if (first === undefined) return asked;
    // A route has two fields, a mark has one.
    const isOther = !first.includes(fieldEnd);
    const page = isOther ? this.#pageOf(first) : asked;
    const from = isOther ? 0 : known;
    for (const [index, text] of (isOther ? listed.slice(1) : listed).entries())
      page.own[from + index] = this.#numberOf(text);
    this.#isPlain = this.#page.own.every((own, index) => own === index + 1);
    return page;
  }

  #pageOf(mark: string): RoutePage {
    if (mark !== this.#page.mark) this.#page = { mark, own: [] };
    return this.#page;
  }

  #numberOf(text: string): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    const [queue = "", name = ""] = text.split(fieldEnd);
    const number = this.#routes.length + 1;
    this.#routes.push({ number, queue: unpackText(queue), name: unpackText(name), caps: [] });
    this.#numbers.set(text, number);
    return number;
  }

  /** Routes behind the store's own number `known`. */
  behind(known: number): Route[] {
    return this.#routes.slice(known);
  }

  /** By the server's number. */
  of(page: RoutePage, number: number): Route {
    const route = this.#routes[(page.own[number - 1] ?? 0) - 1];
    if (route === undefined) throw new Error(`no route has the number ${number}`);
    return route;
  }

  /** The store's own number; of a route that nobody has read yet, one behind all that are known. */
  ownOf(number: number): number {
    if (this.#isPlain) return number;
    return this.#page.own[number - 1] ?? this.#routes.length + 1;
  }

  /** The server's numbers of the store's own ones; those that it does not have now are left out. */
  serverNumbers(page: RoutePage, own: readonly number[]): number[] {
    if (this.#isPlain && page === this.#page) return [...new Set(own)];
    return [...new Set(own.map((number) => page.own.indexOf(number) + 1))].filter((number) => number > 0);
  }

  /** Under another entry than the known one a number says nothing: somebody has to ask, as for a route that nobody has read yet. */
  ownHints(hints: Hints, mark = this.#page.mark): Hints {
    if (mark !== this.#page.mark)
      return { ...hints, routes: new Set([...hints.routes].map(() => this.#routes.length + 1)) };
    if (this.#isPlain) return hints;
    return { ...hints, routes: new Set([...hints.routes].map((number) => this.ownOf(number))) };
  }
}

/** What a call tells the library that it knows. */
export function knownText({ mark, own }: RoutePage): string {
  return `${mark}:${own.length}`;
}
