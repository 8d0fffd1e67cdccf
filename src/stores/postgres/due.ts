/** Time passing (sql/due.ts): promotion of what is due, and the reading of clocks that rang. */
import { stateOfCode } from "../../model/job-state.ts";
import { dueFields } from "../../store/job-fields.ts";
import type { JobRow } from "../../store/job-fields.ts";
import type { Clock, PromoteAnswer, ReadDueAnswer, ReadDueRequest } from "../../store/operations.ts";
import type { DueJob } from "../../store/records.ts";
import { emptyHints } from "../../store/hints.ts";
import { clockFields } from "../../store/rules/guard.ts";
import { readable } from "./aside.ts";
import { callRead, callWrite, onlyRow } from "./call.ts";
import type { Calls } from "./call.ts";
import { readFields } from "./columns.ts";
import type { Row } from "./database.ts";
import { readNumbers } from "./text.ts";

export async function promoteDue(calls: Calls, { max }: { readonly max: number }): Promise<PromoteAnswer> {
  const [now, jobs, ready, more, nextClock] = onlyRow(await callWrite(calls, "promote_v1", [max]));
  const hints = emptyHints();
  for (const route of readNumbers(ready ?? null)) hints.routes.add(route);
  hints.hasPromoted = Number(jobs) > 0;
  calls.tell(hints);
  return { count: Number(jobs), more: more === "t", nextDueInMs: inMs(nextClock ?? null, Number(now)) };
}

function inMs(clock: string | null, now: number): number | null {
  return clock === null ? null : Math.max(0, Number(clock) - now);
}

export async function readDue(calls: Calls, { clock, max, cursor }: ReadDueRequest): Promise<ReadDueAnswer> {
  const [timer, seq] = cursor === null ? [-Number.MAX_SAFE_INTEGER, 0] : cursor.split(":").map(Number);
  // One more than asked for tells whether anything is left.
  const values = [calls.now(), clock, timer as number, seq as number, max + 1];
  const rows = await callRead(calls, "read_due_v1", values);
  const [time, nextClock] = rows.pop() as Row;
  const now = Number(time);
  const page = rows
    .slice(0, max)
    .map(([, , timer, ...fields]) => ({ timer, job: readFields(fields, dueFields) }));
  const end = page.at(-1);
  return {
    jobs: await readable(
      calls,
      page,
      ({ job }) => job.id,
      ({ job }) => dueJobOf(job, clock, now),
    ),
    cursor: rows.length > max && end !== undefined ? `${end.timer}:${end.job.seq}` : null,
    now,
    nextInMs: inMs(nextClock ?? null, now),
  };
}

function dueJobOf(row: Pick<JobRow, (typeof dueFields)[number]>, clock: Clock, now: number): DueJob {
  const { id, seq, fence, route, rev, attempt, policy, attempts, owner } = row;
  return {
    ...{ id, seq, fence, route, rev, attempt, policy, attempts, owner },
    state: stateOfCode(row.state),
    cancelAsked: row.cancelAsked === 1,
    started: row.startedAt !== null,
    lateMs: now - (row[clockFields[clock]] as number),
  };
}
