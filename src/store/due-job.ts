/** What a duty reads of a job whose clock has rung, put together as the contract hands it out. */
import { stateOfCode } from "../model/job-state.ts";
import type { dueFields, JobRow } from "./job-fields.ts";
import type { Clock } from "./operations.ts";
import type { DueJob } from "./records.ts";
import { clockFields } from "./rules/guard.ts";

export function dueJobOf(row: Pick<JobRow, (typeof dueFields)[number]>, clock: Clock, now: number): DueJob {
  const { id, seq, fence, route, rev, attempt, policy, attempts, owner } = row;
  return {
    ...{ id, seq, fence, route, rev, attempt, policy, attempts, owner },
    state: stateOfCode(row.state),
    cancelAsked: row.cancelAsked === 1,
    started: row.startedAt !== null,
    lateMs: now - (row[clockFields[clock]] ?? now),
  };
}
