/**
 * The clocks of jobs: when the next one rings, and which have rung, for the duties that decide what follows.
 *
 * Where a clock is watched: scheduled jobs by due_at in `due`, running ones by timer_at in `running`, deadlines and
 * times-to-live of the rest in `clock`. A scheduled job whose deadline comes after its due time is found in `due`
 * once that has passed.
 */
import { stateOfCode } from "../../model/job-state.ts";
import { columnOf, dueFields } from "../../store/job-fields.ts";
import type { JobFieldName } from "../../store/job-fields.ts";
import type { Clock, ReadDueAnswer, ReadDueRequest } from "../../store/operations.ts";
import type { DueJob } from "../../store/records.ts";
import { clockFields } from "../../store/rules/guard.ts";
import { columnList, fromJob, rowReader } from "./columns.ts";
import type { Picked } from "./columns.ts";
import { limitTo } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { Unreadable } from "./errors.ts";
import { isRunning, isScheduled, isWatched } from "./schema.ts";

/** The three indexes of clocks, with the time that each is sorted by. */
export const inDue = { index: "millrace_job_due", condition: isScheduled, sortedBy: "due_at" } as const;
const inRunning = { index: "millrace_job_running", condition: isRunning, sortedBy: "timer_at" } as const;
const inClock = { index: "millrace_job_clock", condition: isWatched, sortedBy: "timer_at" } as const;
type Source = typeof inDue | typeof inRunning | typeof inClock;

/** The earliest time in an index. What is no number comes behind all numbers. */
export const headOf = ({ index, condition, sortedBy }: Source): string =>
  `SELECT * FROM (SELECT ${sortedBy} AS at FROM millrace_job INDEXED BY ${index}
    WHERE ${condition} AND ${sortedBy} <= ${Number.MAX_SAFE_INTEGER} ORDER BY ${sortedBy}, seq LIMIT 1)`;

/** No input. Answer: the earliest clock of any job; null without one. */
const nextOfAll = `SELECT min(at) FROM (${[inDue, inRunning, inClock].map(headOf).join(" UNION ALL ")})`;

/** 0 when one has rung: somebody's duty is waiting. */
export function nextClockInMs(statements: Statements, now: number): number | null {
  const [at] = statements(nextOfAll).get() as [at: number | null];
  return at === null ? null : Math.max(0, at - now);
}

/** Where jobs with this clock are. */
const sourcesOf: Readonly<Record<Clock, readonly Source[]>> = {
  lease: [inRunning],
  attempt: [inRunning],
  deadline: [inRunning, inClock, inDue],
  ttl: [inClock, inDue],
};

const rungNames = [...dueFields, "timerAt", "createdAt"] as const satisfies readonly JobFieldName[];
const readRung = rowReader(rungNames);

/**
 * Inputs: now, timer and seq of the last one read, limit. Answer: jobs whose clock has rung, in order of their timer.
 */
function rungSql(clock: Clock, { index, condition, sortedBy }: Source): string {
  const column = columnOf(clockFields[clock]);
  // A scheduled job with an earlier timer is in the index of the clocks.
  const isHere = sortedBy === "due_at" ? "AND j.timer_at = j.due_at" : "";
  return `SELECT ${columnList(rungNames, fromJob)}
    FROM millrace_job j INDEXED BY ${index} LEFT JOIN millrace_spec s ON s.seq = j.seq
    WHERE ${condition} AND ${sortedBy} <= @now AND ${column} <= @now
      AND (${sortedBy}, j.seq) > (@timerAt, @seq) ${isHere}
    ORDER BY ${sortedBy}, j.seq ${limitTo("@max")}`;
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
  // A spec always has a time: none means that the job has lost its spec.
  if ((row.createdAt as number | null) === null) throw new Unreadable("job", row.seq, "its spec is missing");
  const { id, seq, fence, route, rev, attempt, policy, attempts, owner } = row;
  return {
    ...{ id, seq, fence, route, rev, attempt, policy, attempts, owner },
    state: stateOfCode(row.state),
    cancelAsked: row.cancelAsked === 1,
    started: row.startedAt !== null,
    lateMs: now - (row[clockFields[clock]] ?? now),
  };
}
