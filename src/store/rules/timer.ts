/**
 * The clocks of a job (rule R1): the instant of a relative time, and the earliest clock. A store adds its own time to
 * relative ones, and that time is never earlier than the last one that it wrote.
 */
import type { Due } from "../../model/job/change.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";

export function dueAtOf(due: Due, now: number): number {
  return "inMs" in due ? now + due.inMs : due.at;
}

/** The earlier of two clocks; null for none. */
export function earlier(one: number | null, other: number | null): number | null {
  return one === null ? other : other === null ? one : Math.min(one, other);
}

export type Clocks = Pick<JobRow, "state" | "dueAt" | "deadlineAt" | "ttlAt"> &
  Partial<Pick<JobRow, "leaseEndsAt" | "attemptEndsAt">>;

/**
 * The earliest clock of the present state; null for none.
 *
 *  running     the lease's end, the attempt's end, the deadline
 *  scheduled   the due time, the deadline, the end of its time to live
 *  waiting     the deadline, the end of its time to live
 *  finished    none
 */
export function timerAtOf(row: Clocks): number | null {
  if (row.state >= stateCodes.completed) return null;
  const deadlineAt = row.deadlineAt ?? Infinity;
  const ttlAt = row.ttlAt ?? Infinity;
  const earliest =
    row.state === stateCodes.running
      ? Math.min(row.leaseEndsAt ?? Infinity, row.attemptEndsAt ?? Infinity, deadlineAt)
      : Math.min(row.state === stateCodes.scheduled ? row.dueAt : Infinity, deadlineAt, ttlAt);
  return earliest === Infinity ? null : earliest;
}
