/**
 * Writing new jobs that differ in id and input only, as nearly all jobs of a bulk and of a busy turn do. What they share is bound once per
 * statement, and their live rows are copied from their specs inside the database: 2 values per job cross into SQLite instead of 20, which
 * made a bulk a sixth faster.
 */
import type { NewJob } from "../../store/records.ts";
import type { SqlValue, Statements } from "./connection.ts";

/** What rule R1 made of a job. */
export interface Placed {
  readonly seq: number;
  readonly route: number;
  readonly state: number;
  readonly rank: number;
  readonly dueAt: number;
  readonly timerAt: number | null;
  readonly deadlineAt: number | null;
  readonly ttlAt: number | null;
}

export interface AlikeInsert {
  add(job: NewJob, placed: Placed): void;
  flush(): void;
}

interface Run {
  readonly like: NewJob;
  readonly placed: Placed;
  /** id, input, id, input ... of jobs with consecutive seqs. */
  readonly values: SqlValue[];
}

const width = 2;
const rowsPerStatement = [64, 8, 1] as const;

/** Inputs: first seq, time, policy, meta by name; then id and input of each row. */
const addSpecs = rowsPerStatement.map((rows) => {
  const places = Array.from({ length: rows }, (_, at) => `(@first + ${at}, @now, @policy, @meta, ?, ?)`);
  const text = `INSERT INTO millrace_spec (seq, created_at, policy, meta, id, input) VALUES ${places.join(",")}`;
  return { rows, text };
});
/** Inputs: route, state, rank, due, timer, first seq, last seq. */
const addJobs = `INSERT INTO millrace_job (seq, id, route, state, rank, due_at, timer_at, holds,
    attempt, counts_attempt, fence, rev, cancel_asked)
  SELECT seq, id, ?, ?, ?, ?, ?, 0, 0, 1, 0, 1, 0 FROM millrace_spec WHERE seq BETWEEN ? AND ?`;

/** Whether a job has nothing but its id and input, its route, its due time and two shared texts. */
export function isPlain(job: NewJob): boolean {
  return (
    job.digest === null &&
    job.unique === null &&
    job.deadline === null &&
    job.ttlMs === null &&
    (job.tags === null || job.tags.length === 0)
  );
}

export function openAlikeInsert(statements: Statements, now: number): AlikeInsert {
  let run: Run | null = null;

  const flush = (): void => {
    if (run === null) return;
    const { like, placed, values } = run;
    run = null;
    const { policy, meta } = like;
    let from = 0;
    for (const { rows, text } of addSpecs) {
      for (; values.length - from >= rows * width; from += rows * width) {
        const shared = { first: placed.seq + from / width, now, policy, meta };
        statements(text).run(shared, ...values.slice(from, from + rows * width));
      }
    }
    const { seq, route, state, rank, dueAt, timerAt } = placed;
    statements(addJobs).run(route, state, rank, dueAt, timerAt, seq, seq + values.length / width - 1);
  };

  const add = (job: NewJob, placed: Placed): void => {
    if (run !== null && !continues(run, job, placed)) flush();
    run ??= { like: job, placed, values: [] };
    run.values.push(job.id, job.input);
  };

  return { add, flush };
}

function continues({ like, placed: first, values }: Run, job: NewJob, placed: Placed): boolean {
  return (
    placed.seq === first.seq + values.length / width &&
    placed.route === first.route &&
    placed.rank === first.rank &&
    placed.dueAt === first.dueAt &&
    job.policy === like.policy &&
    job.meta === like.meta
  );
}
