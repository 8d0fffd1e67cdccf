/** The queue and name of each route number in the feed. They are read from the store when a number is new. */
import { flowQueue } from "../../model/flow/flow-meta.ts";
import type { Route } from "../../model/routing/route.ts";
import type { Store } from "../../store/store.ts";
import type { PartitionRecord } from "./feed-pages.ts";

export class RouteNames {
  readonly #store: Pick<Store, "readRoutes">;
  #routes: ReadonlyMap<number, Route> = new Map();
  /** The routes of flows and their parts. */
  #flows: ReadonlySet<number> = new Set();
  /** One read serves all callers that meet a new number at once. */
  #reading: Promise<void> | null = null;

  constructor(store: Pick<Store, "readRoutes">) {
    this.#store = store;
  }

  of(route: number): Pick<Route, "queue" | "name"> | undefined {
    return this.#routes.get(route);
  }

  isFlow(route: number): boolean {
    return this.#flows.size > 0 && this.#flows.has(route);
  }

  /** Learns the routes of these records. A route is always in the store before a record names it. */
  async learn(records: readonly PartitionRecord[]): Promise<void> {
    // A read that was already in flight may have come too early for these records, so a second one may be needed.
    for (let read = 0; read < 2 && this.#hasNew(records); read++) {
      this.#reading ??= this.#read().finally(() => (this.#reading = null));
      await this.#reading;
    }
  }

  #hasNew(records: readonly PartitionRecord[]): boolean {
    return records.some(({ bundles }) =>
      bundles.some(({ route }) => route !== 0 && !this.#routes.has(route)),
    );
  }

  async #read(): Promise<void> {
    const routes = await this.#store.readRoutes();
    this.#routes = new Map(routes.map((route) => [route.number, route]));
    this.#flows = new Set(routes.filter(({ queue }) => queue === flowQueue).map(({ number }) => number));
  }
}
