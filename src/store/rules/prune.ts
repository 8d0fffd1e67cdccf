/**
 * Retention: whether a finished job has been kept long enough for its queue, and which jobs of a window are deleted
 * because the queue has too many. A job with a keeping time of its own is kept until then, and a job that holds its
 * group until it is replayed or deleted.
 */
import { stateCodes } from "../../model/job/job-state.ts";
import type { TerminalState } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { PruneRequest } from "../upkeep.ts";

type Finished = Pick<JobRow, "state" | "endedAt" | "keepUntil" | "keepsLane">;

export type SurplusRequest = Extract<PruneRequest, { what: "surplus" }>;
export type HistoryRequest = Extract<PruneRequest, { what: "history" }>;

function mayGo({ state, keepUntil, keepsLane }: Finished, outcome: TerminalState): boolean {
  return state === stateCodes[outcome] && keepUntil === null && keepsLane === 0;
}

export function isOutdated(
  job: Finished,
  ofQueue: string,
  { outcome, olderThanMs, queue, exceptQueues }: HistoryRequest,
  now: number,
): boolean {
  if (!mayGo(job, outcome)) return false;
  const isQueueMeant = queue === null ? !exceptQueues.includes(ofQueue) : queue === ofQueue;
  return isQueueMeant && (job.endedAt ?? now) <= now - olderThanMs;
}

/** The jobs of a window to delete if the queue has `surplus` of them in all; those that ended first. */
export function surplusOf<Row extends Finished & Pick<JobRow, "seq">>(
  window: readonly Row[],
  surplus: number,
  { outcome, max }: SurplusRequest,
): { readonly goes: readonly Row[]; readonly isAll: boolean } {
  const all = window.filter((job) => mayGo(job, outcome));
  const goes = all
    .toSorted((one, other) => (one.endedAt ?? 0) - (other.endedAt ?? 0) || one.seq - other.seq)
    .slice(0, Math.min(max, surplus));
  return { goes, isAll: goes.length === all.length };
}
