/** One partition of a store: a whole store of its own, and the outlook on it. */
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
  /** A clock of this process, in milliseconds, that never goes back. */
  readonly nowMs: () => number;
  /** Whether hints of all partitions come in; while they do not, no outlook can be trusted to stay true. */
  isWatched(): boolean;
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
