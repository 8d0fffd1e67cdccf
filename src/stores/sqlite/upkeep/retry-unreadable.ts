/**
 * What follows when a call has met a record that it cannot read: the record is kept as unreadable in a transaction of
 * its own, and the call runs again. If it is not known which record it was, all are looked at: a second or two on a
 * million jobs, so a search that found nothing is not repeated for a while.
 */
import { keepUnreadable, keepAllUnreadable, keepUnreadableFeed } from "./keep-unreadable.ts";
import { recountStates } from "./audit-counts.ts";
import { Unreadable } from "../connection/errors.ts";
import { beginStep } from "../connection/transaction.ts";
import type { Commit } from "../connection/transaction.ts";
import { isReadTrouble } from "./find-unreadable.ts";

/** Searches for unreadable records, over the transactions of one connection. */
export interface Searches {
  /** Store time of the last one that found nothing. */
  vainAt: number | null;
}

/** How often one call may meet such a record. From the second time on all are searched at once. */
export const retriesMax = 8;
const vainDelayMs = 60_000;

/** Whether a retry without the unreadable records may help against this error. */
export function mayRetry(error: unknown): boolean {
  return error instanceof Unreadable || isReadTrouble(error);
}

/** Runs in a write transaction. Answers whether a record was taken away, so that the call may be tried again. */
export function clearUnreadable(
  commit: Commit,
  error: unknown,
  isAgain: boolean,
  searches: Searches,
): boolean {
  const step = beginStep(commit);
  if (error instanceof Unreadable) {
    const { what, number, message } = error;
    if (what === "feed") keepUnreadableFeed(step, number, message);
    else keepUnreadable(step, [[String(number), message]]);
    if (isAgain) keepAllUnreadable(step);
    return true;
  }
  const { vainAt } = searches;
  if (vainAt !== null && Math.abs(commit.now - vainAt) < vainDelayMs) return false;
  const found = keepAllUnreadable(step) + recountStates(commit.statements);
  searches.vainAt = found === 0 ? commit.now : null;
  return found > 0;
}
