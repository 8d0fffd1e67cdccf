/** Looking at jobs: by id, their counts, their log lines, and what was told. None of it writes. */
import { stateOfCode } from "../../model/job-state.ts";
import type { FeedAnswer, FeedRequest, TrailAnswer } from "../../store/operations.ts";
import type { JobRecord, Tally } from "../../store/records.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { seqOfId } from "./live-job.ts";
import { unpackEvents } from "./packed-events.ts";

const ofSpec = "s.id, s.seq, r.queue, r.name, s.created_at, s.unique_key, s.policy, s.meta, s.tags, s.input";
const ofBoth = `j.state, j.rev, j.fence, j.attempt, j.counts_attempt, j.rank, j.due_at, j.deadline_at, j.ttl_at, j.cancel_asked, j.owner,
  j.claimed_at, j.started_at, j.attempts, j.progress`;

/** Input: seq. Answer: everything about a live job. */
const readLiveRecord = `SELECT ${ofSpec}, ${ofBoth}, j.lease_ends_at, j.attempt_ends_at, NULL, NULL, NULL, NULL
  FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq JOIN millrace_route r ON r.number = j.route WHERE j.seq = ?`;
/** Input: seq. Answer: everything about a finished job. */
const readFinishedRecord = `SELECT ${ofSpec}, ${ofBoth}, NULL, NULL, j.ended_at, j.reason, j.result, j.keep_until
  FROM millrace_history j JOIN millrace_spec s ON s.seq = j.seq JOIN millrace_route r ON r.number = j.route WHERE j.seq = ?`;

export function readJobs(statements: Statements, ids: readonly string[]): (JobRecord | null)[] {
  return ids.map((id) => {
    const seq = seqOfId(statements, id);
    return seq === null ? null : readRecord(statements, seq);
  });
}

export function readRecord(statements: Statements, seq: number): JobRecord | null {
  const row = statements(readLiveRecord).get(seq) ?? statements(readFinishedRecord).get(seq);
  return row === undefined ? null : recordOf(row as SqlValue[]);
}

function recordOf(row: SqlValue[]): JobRecord {
  const text = (index: number): string | null => row[index] as string | null;
  const number = (index: number): number | null => row[index] as number | null;
  return {
    id: row[0] as string,
    seq: row[1] as number,
    queue: row[2] as string,
    name: row[3] as string,
    createdAt: row[4] as number,
    uniqueKey: text(5),
    policy: text(6),
    meta: text(7),
    tags: row[8] === null ? null : (JSON.parse(row[8] as string) as string[]),
    input: row[9] as string,
    state: stateOfCode(row[10] as number),
    rev: row[11] as number,
    fence: row[12] as number,
    attempt: row[13] as number,
    countsAttempt: row[14] as 0 | 1,
    rank: row[15] as number,
    dueAt: row[16] as number,
    deadlineAt: number(17),
    ttlAt: number(18),
    cancelAsked: row[19] === 1,
    owner: text(20),
    claimedAt: number(21),
    startedAt: number(22),
    attempts: text(23),
    progress: text(24),
    leaseEndsAt: number(25),
    attemptEndsAt: number(26),
    endedAt: number(27),
    reason: text(28),
    result: text(29),
    keepUntil: number(30),
  };
}

/** No input. Answer: every count that is not zero, by route and state. */
const readTallies = `SELECT r.queue, r.name, t.state, t.count FROM millrace_tally t JOIN millrace_route r ON r.number = t.route
  WHERE t.count <> 0 ORDER BY t.route, t.state`;

export function tallyJobs(statements: Statements): Tally[] {
  const rows = statements(readTallies).all() as [queue: string, name: string, state: number, count: number][];
  return rows.map(([queue, name, state, count]) => ({ queue, name, state: stateOfCode(state), count }));
}

/** Inputs: number to go on after, limit. */
const readRecords = "SELECT number, at, body FROM millrace_feed WHERE number > ? ORDER BY number LIMIT ?";
/** No input. Answer: the number of the newest record. */
const readEnd = "SELECT max(number) FROM millrace_feed";

export function readFeed(statements: Statements, { after, max }: FeedRequest): FeedAnswer {
  if (after < 0)
    return { records: [], cursor: (statements(readEnd).get() as [number: number | null])[0] ?? 0 };
  const rows = statements(readRecords).all(after, max) as [number: number, at: number, body: string][];
  const records = rows.map(([number, at, body]) => ({
    number,
    at,
    events: unpackEvents(body),
  }));
  return { records, cursor: records.at(-1)?.number ?? after };
}

/** Inputs: seq, number to go on after, limit. */
const readLines =
  "SELECT number, at, body FROM millrace_trail WHERE seq = ? AND number > ? ORDER BY number LIMIT ?";

export function readTrail(
  statements: Statements,
  request: { readonly id: string; readonly after: number; readonly max: number },
): TrailAnswer {
  const seq = seqOfId(statements, request.id);
  const rows =
    seq === null
      ? []
      : (statements(readLines).all(seq, request.after, request.max) as [number, number, string][]);
  const lines = rows.map(([number, at, body]) => ({ number, at, body }));
  return { lines, cursor: lines.at(-1)?.number ?? request.after };
}
