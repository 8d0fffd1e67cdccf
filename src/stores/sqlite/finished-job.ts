/** A finished job's row in the shape of a live one, for the guards of a change and for the way back. */
import type { SqlValue, Statements } from "./connection.ts";
import type { LiveJob } from "./live-job.ts";

/** Input: seq. Answer: the finished row, if any. */
const readOne = `SELECT seq, id, route, state, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, settled_fence, rev, cancel_asked,
  owner, claimed_at, started_at, attempts, progress FROM millrace_history WHERE seq = ?`;

export function readFinished(statements: Statements, seq: number): LiveJob | null {
  const row = statements(readOne).get(seq) as SqlValue[] | undefined;
  if (row === undefined) return null;
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
    holds: 0,
    owner: row[14] as string | null,
    claimedAt: row[15] as number | null,
    startedAt: row[16] as number | null,
    leaseEndsAt: null,
    attemptEndsAt: null,
    attempts: row[17] as string | null,
    progress: row[18] as string | null,
  };
}
