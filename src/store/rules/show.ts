/** A job as it is shown: to whoever asks for it, and to the duty that decides what follows when one of its clocks rang. */
import { stateOfCode } from "../../model/job-state.ts";
import type { RouteContent } from "../../model/route.ts";
import { fieldNames } from "../job-fields.ts";
import type { dueFields, JobRow } from "../job-fields.ts";
import type { Clock } from "../operations.ts";
import type { DueJob, JobRecord } from "../records.ts";
import { clockFields } from "./guard.ts";

const shownNames = fieldNames(({ isOwn }) => isOwn !== true);

export function recordOf(row: JobRow, { queue, name }: RouteContent): JobRecord {
  const shown: Partial<JobRow> = {};
  for (const each of shownNames) shown[each] = row[each] as never;
  const named = { queue, name, state: stateOfCode(row.state), cancelAsked: row.cancelAsked === 1 };
  return { ...(shown as JobRow), ...named };
}

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
