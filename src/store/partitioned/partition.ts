/** One partition of a store: a whole store of its own, what is known of it, and the translation of its route numbers. */
import { isMillraceError } from "../../model/error.ts";
import type { Store } from "../store.ts";
import type { Outlook } from "./outlook.ts";
import type { RouteTable } from "./route-table.ts";

export interface Partition {
  readonly number: number;
  readonly store: Store;
  readonly outlook: Outlook;
}

export interface PartitionedCalls {
  readonly partitions: readonly Partition[];
  readonly routes: RouteTable;
  /** Steady milliseconds of this process. */
  readonly nowMs: () => number;
  /** Whether hints of all partitions come in: else nothing that is known of them can be trusted to stay true. */
  isWatched(): boolean;
}

/** Reads routes that the partition made since it was last asked. */
export async function learnRoutes({ routes }: PartitionedCalls, { number, store }: Partition): Promise<void> {
  const request = { owner: "", leaseMs: 1, offers: [], routesKnown: routes.known(number) };
  routes.learn(number, (await store.claim(request)).routes);
}

/** The same records with the store's own route numbers. */
export async function withRoutes<Item extends { readonly route: number }>(
  calls: PartitionedCalls,
  partition: Partition,
  items: readonly Item[],
): Promise<readonly Item[]> {
  const { routes } = calls;
  const { number } = partition;
  if (items.some(({ route }) => routes.outer(number, route) === undefined))
    await learnRoutes(calls, partition);
  // Where the partition happens to number its routes as the store does, nothing is copied.
  if (items.every(({ route }) => routes.outer(number, route) === route)) return items;
  return items.map((item) => {
    const route = routes.outer(number, item.route);
    if (route === undefined)
      throw new Error(`partition ${number} has no route with the number ${item.route}`);
    return { ...item, route };
  });
}

/** Null when the partition cannot be reached, with its error put among the failures. Whatever else goes wrong is thrown. */
export async function reach<Answer>(
  { nowMs }: Pick<PartitionedCalls, "nowMs">,
  { store, outlook }: Partition,
  failures: unknown[],
  ask: (store: Store) => Promise<Answer>,
): Promise<Answer | null> {
  try {
    return await ask(store);
  } catch (error) {
    if (!isAway(error)) throw error;
    outlook.failed(nowMs());
    failures.push(error);
    return null;
  }
}

/** Nothing of the call happened, and it may succeed later. */
export function isAway(error: unknown): boolean {
  return isMillraceError(error) && error.retryable && error.outcome !== "unknown";
}
