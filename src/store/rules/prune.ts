/**
 * Retention: whether a finished job has been kept long enough for its queue. One with a time of its own waits for that,
 * and one that holds its group for somebody who decides about it.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { PruneRequest } from "../operations.ts";

export type HistoryRequest = Extract<PruneRequest, { what: "history" }>;

export function isOutdated(
  { state, endedAt, keepUntil, keepsLane }: Pick<JobRow, "state" | "endedAt" | "keepUntil" | "keepsLane">,
  ofQueue: string,
  { outcome, olderThanMs, queue, exceptQueues }: HistoryRequest,
  now: number,
): boolean {
  if (state !== stateCodes[outcome] || keepUntil !== null || keepsLane === 1) return false;
  const isQueueMeant = queue === null ? !exceptQueues.includes(ofQueue) : queue === ofQueue;
  return isQueueMeant && (endedAt ?? now) <= now - olderThanMs;
}
