/**
 * A job's row as the changing operations see it: what guards read, and what a move to history or back must carry along. A finished job, whose
 * row is in history, has the same shape: it holds no key and has no lease.
 */
import type { SqlValue, Statements } from "./connection.ts";

export interface LiveJob {
  readonly seq: number;
  readonly id: string;
  readonly route: number;
  /** State code. */
  readonly state: number;
  readonly rank: number;
  readonly dueAt: number;
  readonly deadlineAt: number | null;
  readonly ttlAt: number | null;
  readonly attempt: number;
  readonly countsAttempt: number;
  readonly fence: number;
  /** The fence of the last settle that was applied. */
  readonly settledFence: number | null;
  readonly rev: number;
  readonly cancelAsked: number;
  /** Which unique key it holds: see `holds` in unique.ts. */
  readonly holds: number;
  readonly owner: string | null;
  readonly claimedAt: number | null;
  readonly startedAt: number | null;
  readonly leaseEndsAt: number | null;
  readonly attemptEndsAt: number | null;
  readonly attempts: string | null;
  readonly progress: string | null;
}

const columns = `seq, id, route, state, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, settled_fence, rev, cancel_asked,
  holds, owner, claimed_at, started_at, lease_ends_at, attempt_ends_at, attempts, progress`;

/** Input: a JSON list of seqs. Answer: the live rows among them, by seq. */
const readSeveral = `SELECT ${columns} FROM millrace_job WHERE seq IN (SELECT value FROM json_each(?))`;
/** Input: seq. Answer: the live row, if any. */
const readOne = `SELECT ${columns} FROM millrace_job WHERE seq = ?`;
/** Input: seq. Answer: the finished row, if any. */
const readEnded = `SELECT seq, id, route, state, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, settled_fence, rev, cancel_asked,
  0, owner, claimed_at, started_at, NULL, NULL, attempts, progress FROM millrace_history WHERE seq = ?`;
/** Input: id. Answer: its seq, live or finished. */
const seqOf = "SELECT seq FROM millrace_spec WHERE id = ?";

export function readLive(statements: Statements, seq: number): LiveJob | null {
  const row = statements(readOne).get(seq);
  return row === undefined ? null : liveJobOf(row as SqlValue[]);
}

export function readFinished(statements: Statements, seq: number): LiveJob | null {
  const row = statements(readEnded).get(seq);
  return row === undefined ? null : liveJobOf(row as SqlValue[]);
}

/** One by one below three: a list costs its parse. */
export function readLiveBySeq(statements: Statements, seqs: readonly number[]): Map<number, LiveJob> {
  const found = new Map<number, LiveJob>();
  const rows =
    seqs.length < 3
      ? seqs.map((seq) => statements(readOne).get(seq)).filter((row) => row !== undefined)
      : statements(readSeveral).all(JSON.stringify(seqs));
  for (const row of rows as SqlValue[][]) found.set(row[0] as number, liveJobOf(row));
  return found;
}

export function seqOfId(statements: Statements, id: string): number | null {
  const row = statements(seqOf).get(id) as [seq: number] | undefined;
  return row === undefined ? null : row[0];
}

function liveJobOf(row: SqlValue[]): LiveJob {
  return {
    seq: row[0] as number,
    id: row[1] as string,
    route: row[2] as number,
    state: row[3] as number,
    rank: row[4] as number,
    dueAt: row[5] as number,
    deadlineAt: row[6] as number | null,
    ttlAt: row[7] as number | null,
    attempt: row[8] as number,
    countsAttempt: row[9] as number,
    fence: row[10] as number,
    settledFence: row[11] as number | null,
    rev: row[12] as number,
    cancelAsked: row[13] as number,
    holds: row[14] as number,
    owner: row[15] as string | null,
    claimedAt: row[16] as number | null,
    startedAt: row[17] as number | null,
    leaseEndsAt: row[18] as number | null,
    attemptEndsAt: row[19] as number | null,
    attempts: row[20] as string | null,
    progress: row[21] as string | null,
  };
}
