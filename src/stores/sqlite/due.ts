/**
 * Time passing: promotion of what is due (rule R5), and the reading of clocks that rang, for the duties that decide what follows.
 *
 * Where a clock is watched: scheduled jobs by due_at in `due`, running ones by timer_at in `running`, deadlines and times-to-live of the
 * rest in `clock`. A scheduled job whose deadline comes after its due time is found in `due` once that has passed.
 */
import { stateCodes, stateOfCode } from "../../model/job-state.ts";
import type { Clock, PromoteAnswer, ReadDueAnswer, ReadDueRequest } from "../../store/operations.ts";
import type { DueJob } from "../../store/records.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { runOnSeqs } from "./seq-list.ts";
import { count, tell } from "./step.ts";
import type { Step } from "./step.ts";

const { scheduled, ready, running } = stateCodes;

/** What makes SQLite see that a statement may use one of the three indexes. */
const inDue = `millrace_job INDEXED BY millrace_job_due WHERE state = ${scheduled}`;
const inRunning = `millrace_job INDEXED BY millrace_job_running WHERE state = ${running}`;
const inClock = `millrace_job INDEXED BY millrace_job_clock WHERE timer_at IS NOT NULL AND state <> ${running} AND (state <> ${scheduled} OR timer_at < due_at)`;

/** No input. Answer: the earliest clock of any job; null without one. */
const nextOfAll = `SELECT min(at) FROM (SELECT * FROM (SELECT due_at AS at FROM ${inDue} ORDER BY due_at, seq LIMIT 1)
  UNION ALL SELECT * FROM (SELECT timer_at FROM ${inRunning} ORDER BY timer_at, seq LIMIT 1)
  UNION ALL SELECT * FROM (SELECT timer_at FROM ${inClock} ORDER BY timer_at, seq LIMIT 1))`;

/** 0 when one has rung: somebody's duty is waiting. */
export function nextClockInMs(statements: Statements, now: number): number | null {
  const [at] = statements(nextOfAll).get() as [at: number | null];
  return at === null ? null : Math.max(0, at - now);
}

/** Inputs: now, limit. Answer: scheduled jobs whose time has come, longest due first. */
const readScheduled = `SELECT seq, id, route, rev, attempt FROM ${inDue} AND due_at <= ? ORDER BY due_at, seq LIMIT ?`;
/** Inputs: the seqs. Guard: read as scheduled in the same transaction. The timer is that of the state it comes into. */
const promoteSeqs = `UPDATE millrace_job SET state = ${ready}, rev = rev + 1,
  timer_at = nullif(min(ifnull(deadline_at, 9007199254740991), ifnull(ttl_at, 9007199254740991)), 9007199254740991)`;

type ScheduledRow = [seq: number, id: string, route: number, rev: number, attempt: number];

export function promoteDue(step: Step, { max }: { readonly max: number }): PromoteAnswer {
  const { statements, now } = step;
  const rows = statements(readScheduled).all(now, max) as ScheduledRow[];
  for (const [, id, route, rev, attempt] of rows) {
    count(step, route, scheduled, -1);
    count(step, route, ready, 1);
    tell(step, { kind: "promoted", id, rev: rev + 1, route, state: ready, attempt, extra: null });
  }
  runOnSeqs(
    statements,
    promoteSeqs,
    [],
    rows.map((row) => row[0]),
  );
  return { count: rows.length, more: rows.length === max, nextDueInMs: nextClockInMs(statements, now) };
}

const clockColumns: Readonly<Record<Clock, string>> = {
  lease: "lease_ends_at",
  attempt: "attempt_ends_at",
  deadline: "deadline_at",
  ttl: "ttl_at",
};

/** Where jobs with this clock are, with the name of the time by which each is sorted. */
const placesOf: Readonly<Record<Clock, readonly (readonly [source: string, sortedBy: string])[]>> = {
  lease: [[inRunning, "timer_at"]],
  attempt: [[inRunning, "timer_at"]],
  deadline: [
    [inRunning, "timer_at"],
    [inClock, "timer_at"],
    [inDue, "due_at"],
  ],
  ttl: [
    [inClock, "timer_at"],
    [inDue, "due_at"],
  ],
};

/** Inputs: now, now, time and seq of the last one read, limit. Answer: jobs whose clock has rung, in order of their timer. */
function readRung(clock: Clock, source: string, sortedBy: string): string {
  const column = clockColumns[clock];
  const notElsewhere = sortedBy === "due_at" ? "AND timer_at = due_at" : "";
  return `SELECT ${sortedBy}, seq, id, fence, route, state, rev, attempt, attempts, owner, cancel_asked, started_at, ${column},
    (SELECT policy FROM millrace_spec s WHERE s.seq = millrace_job.seq)
    FROM ${source} AND ${sortedBy} <= ? AND ${column} <= ? AND (${sortedBy}, seq) > (?, ?) ${notElsewhere} ORDER BY ${sortedBy}, seq LIMIT ?`;
}

export function readDue(statements: Statements, now: number, request: ReadDueRequest): ReadDueAnswer {
  const { clock, max, cursor } = request;
  const after = cursor === null ? [-Number.MAX_SAFE_INTEGER, 0] : cursor.split(":").map(Number);
  const rows: SqlValue[][] = [];
  for (const [source, sortedBy] of placesOf[clock]) {
    rows.push(
      ...(statements(readRung(clock, source, sortedBy)).all(now, now, ...after, max + 1) as SqlValue[][]),
    );
  }
  rows.sort(
    (one, other) => (one[0] as number) - (other[0] as number) || (one[1] as number) - (other[1] as number),
  );
  const page = rows.slice(0, max);
  const last = page.at(-1);
  return {
    jobs: page.map((row) => dueJobOf(row, now)),
    cursor: rows.length > max && last !== undefined ? `${last[0]}:${last[1]}` : null,
    now,
    nextInMs: nextClockInMs(statements, now),
  };
}

function dueJobOf(row: SqlValue[], now: number): DueJob {
  return {
    seq: row[1] as number,
    id: row[2] as string,
    fence: row[3] as number,
    route: row[4] as number,
    state: stateOfCode(row[5] as number),
    rev: row[6] as number,
    attempt: row[7] as number,
    attempts: row[8] as string | null,
    owner: row[9] as string | null,
    cancelAsked: row[10] === 1,
    started: row[11] !== null,
    lateMs: now - (row[12] as number),
    policy: row[13] as string | null,
  };
}
