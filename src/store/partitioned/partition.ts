/** One partition of a store: a whole store of its own, and what is known of it. */
import { isMillraceError } from "../../model/error.ts";
import type { Store } from "../store.ts";
import type { Outlook } from "./outlook.ts";

export interface Partition {
  readonly number: number;
  readonly store: Store;
  readonly outlook: Outlook;
}

export interface PartitionedCalls {
  readonly partitions: readonly Partition[];
  /** Steady milliseconds of this process. */
  readonly nowMs: () => number;
  /** Whether hints of all partitions come in: else nothing that is known of them can be trusted to stay true. */
  isWatched(): boolean;
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
