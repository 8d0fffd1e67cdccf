/** One partition of a store: a whole store of its own, the outlook on it, and the translation of its route numbers. */
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
  /** A clock of this process, in milliseconds, that never goes back. */
  readonly nowMs: () => number;
  /** Whether hints of all partitions come in; while they do not, no outlook can be trusted to stay true. */
  isWatched(): boolean;
}

/** Reads routes that the partition made since it was last asked. */
export async function learnRoutes({ routes }: PartitionedCalls, { number, store }: Partition): Promise<void> {
  const request = { owner: "", leaseMs: 1, offers: [], routesKnown: routes.known(number) };
  routes.learn(number, (await store.claim(request)).routes);
}

/** The same items with the route numbers of the whole store instead of the partition's. */
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

/**
 * Asks one partition. Where it cannot be reached, the error is put among the failures and the answer is null; every
 * other error is thrown.
 */
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

/** Whether the error says that the partition was away: nothing of the call happened, and it may succeed later. */
export function isAway(error: unknown): boolean {
  return isMillraceError(error) && error.retryable && error.outcome !== "unknown";
}
