/**
 * The clocks of jobs and documents: when the next one rings, and which have rung, for the duties that decide what
 * follows.
 *
 * Where a clock is watched: those of running jobs in the index `running`, those of suspended ones in `wake`, those of
 * the others in `clock`, all by timer_at. A job whose deadline comes after its timer is found there once the timer has
 * rung. `clock` also has the deadlines and times-to-live, so that a flood of due jobs without any is passed over inside
 * the index. So has `wake` the deadlines.
 */
import { dueJobOf, untilMs } from "../../../store/due-job.ts";
import { columnOf, dueFields } from "../../../store/job-fields.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import type { Clock, ReadDueAnswer, ReadDueRequest } from "../../../store/operations.ts";
import { clockFields } from "../../../store/rules/guard.ts";
import { columnList, fromJob, rowReader } from "../connection/columns.ts";
import { limitTo, readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { Unreadable } from "../connection/errors.ts";
import { isRunning, isWaking, isWatched } from "../connection/schema.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** The indexes of clocks. */
const inRunning = { index: "millrace_job_running", condition: isRunning } as const;
const inClock = { index: "millrace_job_clock", condition: isWatched } as const;
const inWake = { index: "millrace_job_wake", condition: isWaking } as const;
type Source = typeof inRunning | typeof inClock | typeof inWake;

/** The earliest time in an index. What is no number comes behind all numbers. */
const headOf = ({ index, condition }: Source): string =>
  sql`SELECT * FROM (SELECT timer_at AS at FROM millrace_job INDEXED BY ${index}
    WHERE ${condition} AND timer_at <= ${Number.MAX_SAFE_INTEGER} ORDER BY timer_at, seq LIMIT 1)`;

const headOfDocs = sql`SELECT * FROM (SELECT due_at AS at FROM millrace_doc INDEXED BY millrace_doc_due
    WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1)`;

/** No input. Answer: the earliest clock of any job or document; null without one. */
const heads = [...[inRunning, inClock, inWake].map(headOf), headOfDocs];
const nextOfAll = `SELECT min(at) FROM (${heads.join(" UNION ALL ")})`;

/** 0 when one has rung: somebody's duty is waiting. */
export function nextClockInMs(statements: Statements, now: number): number | null {
  return untilMs(readValue(statements, nextOfAll), now);
}

/** Where jobs with this clock are. */
const sourcesOf: Readonly<Record<Clock, readonly Source[]>> = {
  lease: [inRunning],
  attempt: [inRunning],
  deadline: [inRunning, inClock, inWake],
  ttl: [inClock],
  wake: [inWake],
};

const rungNames = [...dueFields, "timerAt", "createdAt"] as const satisfies readonly JobFieldName[];
const readRung = rowReader(rungNames);
type Rung = ReturnType<typeof readRung>;

/**
 * Inputs: now, timer and seq of the last one read, limit. Answer: jobs whose clock has rung, in order of their timer.
 */
function rungSql(clock: Clock, { index, condition }: Source): string {
  const column = columnOf(clockFields[clock]);
  return sql`SELECT ${columnList(rungNames, fromJob)}
    FROM millrace_job j INDEXED BY ${index} LEFT JOIN millrace_spec s ON s.seq = j.seq
    WHERE ${condition} AND timer_at <= @now AND ${column} <= @now AND (timer_at, j.seq) > (@timerAt, @seq)
    ORDER BY timer_at, j.seq ${limitTo("@max")}`;
}

export function readDue({ statements, now }: Step, request: ReadDueRequest): ReadDueAnswer {
  const { clock, max, cursor } = request;
  const [timer, seq] = cursor === null ? [-Number.MAX_SAFE_INTEGER, 0] : cursor.split(":").map(Number);
  const after = { timerAt: timer as number, seq: seq as number };
  const rung = sourcesOf[clock].flatMap((source) =>
    statements(rungSql(clock, source))
      .all({ now, ...after, max: max + 1 })
      .map(readRung),
  );
  rung.sort((one, other) => timerOf(one) - timerOf(other) || one.seq - other.seq);
  const page = rung.slice(0, max);
  const last = page.at(-1);
  return {
    jobs: page.map((row) => dueJobOf(withSpec(row), { clock, now })),
    cursor: rung.length > max && last !== undefined ? `${last.timerAt}:${last.seq}` : null,
    now,
    nextInMs: nextClockInMs(statements, now),
  };
}

const timerOf = (row: Rung): number => row.timerAt ?? 0;

/** A spec always has a time: none means that the job has lost its spec. */
function withSpec(row: Rung): Rung {
  if ((row.createdAt as number | null) === null) throw new Unreadable("job", row.seq, "its spec is missing");
  return row;
}
