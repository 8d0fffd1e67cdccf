/**
 * Time passing: promotion of what is due (rule R5), and the reading of clocks that rang, for the duties that decide what follows.
 *
 * Where a clock is watched: scheduled jobs by due_at in `due`, running ones by timer_at in `running`, deadlines and times-to-live of the
 * rest in `clock`. A scheduled job whose deadline comes after its due time is found in `due` once that has passed.
 */
import { stateCodes, stateOfCode } from "../../model/job-state.ts";
import { columnOf, dueFields } from "../../store/job-fields.ts";
import type { JobFieldName } from "../../store/job-fields.ts";
import type { Clock, PromoteAnswer, ReadDueAnswer, ReadDueRequest } from "../../store/operations.ts";
import type { DueJob } from "../../store/records.ts";
import { clockFields } from "../../store/rules/guard.ts";
import { timerAt } from "./clock.ts";
import { columnList, fromJob, rowReader, setList } from "./columns.ts";
import type { Picked } from "./columns.ts";
import type { Statements } from "./connection.ts";
import { isRunning, isScheduled, isWatched } from "./schema.ts";
import { runOnSeqs } from "./seq-list.ts";
import { count, tellEvent } from "./step.ts";
import type { Step } from "./step.ts";

const { scheduled, ready } = stateCodes;

/** The three indexes, with the time that each is sorted by. */
const inDue = { index: "millrace_job_due", condition: isScheduled, sortedBy: "due_at" } as const;
const inRunning = { index: "millrace_job_running", condition: isRunning, sortedBy: "timer_at" } as const;
const inClock = { index: "millrace_job_clock", condition: isWatched, sortedBy: "timer_at" } as const;
type Source = typeof inDue | typeof inRunning | typeof inClock;

/** The earliest time in an index. */
const headOf = ({ index, condition, sortedBy }: Source): string =>
  `SELECT * FROM (SELECT ${sortedBy} AS at FROM millrace_job INDEXED BY ${index} WHERE ${condition} ORDER BY ${sortedBy}, seq LIMIT 1)`;

/** No input. Answer: the earliest clock of any job; null without one. */
const nextOfAll = `SELECT min(at) FROM (${[inDue, inRunning, inClock].map(headOf).join(" UNION ALL ")})`;

/** 0 when one has rung: somebody's duty is waiting. */
export function nextClockInMs(statements: Statements, now: number): number | null {
  const [at] = statements(nextOfAll).get() as [at: number | null];
  return at === null ? null : Math.max(0, at - now);
}

const promotedNames = ["seq", "id", "route", "rev", "attempt"] as const;
const readPromoted = rowReader(promotedNames);
/** Inputs: now, limit. Answer: scheduled jobs whose time has come, longest due first, as they will stand. */
const readScheduled = `SELECT ${columnList(promotedNames, { rev: "rev + 1" })} FROM millrace_job INDEXED BY millrace_job_due
  WHERE ${isScheduled} AND due_at <= ? ORDER BY due_at, seq LIMIT ?`;
/** Inputs: the seqs. Guard: read as scheduled in the same transaction. `promote` of store/rules/promote.ts. */
const promote = `UPDATE millrace_job SET ${setList({ state: ready, rev: "rev + 1", timerAt: timerAt.ready })}`;

export function promoteDue(step: Step, { max }: { readonly max: number }): PromoteAnswer {
  const { statements, now } = step;
  const jobs = statements(readScheduled).all(now, max).map(readPromoted);
  for (const { id, route, rev, attempt } of jobs) {
    count(step, route, scheduled, -1);
    count(step, route, ready, 1);
    tellEvent(step, { kind: "promoted", id, rev, route, state: ready, attempt, extra: null });
  }
  runOnSeqs(
    statements,
    promote,
    jobs.map(({ seq }) => seq),
  );
  return { count: jobs.length, more: jobs.length === max, nextDueInMs: nextClockInMs(statements, now) };
}

/** Where jobs with this clock are. */
const sourcesOf: Readonly<Record<Clock, readonly Source[]>> = {
  lease: [inRunning],
  attempt: [inRunning],
  deadline: [inRunning, inClock, inDue],
  ttl: [inClock, inDue],
};

const rungNames = [...dueFields, "timerAt"] as const satisfies readonly JobFieldName[];
const readRung = rowReader(rungNames);

/** Inputs: now, timer and seq of the last one read, limit. Answer: jobs whose clock has rung, in order of their timer. */
function rungSql(clock: Clock, { index, condition, sortedBy }: Source): string {
  const column = columnOf(clockFields[clock]);
  // A scheduled job with an earlier timer is in the index of the clocks.
  const isHere = sortedBy === "due_at" ? "AND j.timer_at = j.due_at" : "";
  return `SELECT ${columnList(rungNames, fromJob)} FROM millrace_job j INDEXED BY ${index} JOIN millrace_spec s ON s.seq = j.seq
    WHERE ${condition} AND ${sortedBy} <= @now AND ${column} <= @now AND (${sortedBy}, j.seq) > (@timerAt, @seq) ${isHere}
    ORDER BY ${sortedBy}, j.seq LIMIT @max`;
}

export function readDue(statements: Statements, now: number, request: ReadDueRequest): ReadDueAnswer {
  const { clock, max, cursor } = request;
  const [after, seq] = cursor === null ? [-Number.MAX_SAFE_INTEGER, 0] : readCursor(cursor);
  const rung = sourcesOf[clock].flatMap((source) =>
    statements(rungSql(clock, source))
      .all({ now, timerAt: after, seq, max: max + 1 })
      .map(readRung),
  );
  rung.sort((one, other) => timerOf(one) - timerOf(other) || one.seq - other.seq);
  const page = rung.slice(0, max);
  const last = page.at(-1);
  return {
    jobs: page.map((row) => dueJobOf(row, clock, now)),
    cursor: rung.length > max && last !== undefined ? `${last.timerAt}:${last.seq}` : null,
    now,
    nextInMs: nextClockInMs(statements, now),
  };
}

type Rung = Picked<(typeof rungNames)[number]>;

const timerOf = (row: Rung): number => row.timerAt ?? 0;

function readCursor(cursor: string): readonly [timerAt: number, seq: number] {
  const [timer, seq] = cursor.split(":");
  return [Number(timer), Number(seq)];
}

function dueJobOf(row: Rung, clock: Clock, now: number): DueJob {
  const { id, seq, fence, route, rev, attempt, policy, attempts, owner } = row;
  return {
    ...{ id, seq, fence, route, rev, attempt, policy, attempts, owner },
    state: stateOfCode(row.state),
    cancelAsked: row.cancelAsked === 1,
    started: row.startedAt !== null,
    lateMs: now - (row[clockFields[clock]] ?? now),
  };
}
