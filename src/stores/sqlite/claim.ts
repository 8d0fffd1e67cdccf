/**
 * Claim (rule R6): hands out ready jobs in order of (rank, seq), each with a new fence and a lease. Never a job one of whose clocks has
 * rung: that one belongs to a duty.
 *
 * One route: its head. Several: the heads of all are merged here, and a route whose last candidate was taken is asked again.
 * Select, then update by a list of seqs: 8 us per job by 500; as one UPDATE .. RETURNING with the select inside 9 to 10.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { ClaimAnswer, ClaimRequest } from "../../store/operations.ts";
import type { LeasedJob } from "../../store/records.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { nextClockInMs } from "./due.ts";
import { routesAfter } from "./route-book.ts";
import { runOnSeqs } from "./seq-list.ts";
import { count, tell } from "./step.ts";
import type { Step } from "./step.ts";
import { freeKey, holds } from "./unique.ts";

export const fencesPerEpoch = 2 ** 32;

const columns = `j.seq, j.id, j.route, j.rev, j.attempt, j.fence, j.due_at, j.deadline_at, j.attempts, s.created_at, s.policy, s.meta, s.input,
  j.counts_attempt, j.holds`;
const ready = `FROM millrace_job j INDEXED BY millrace_job_ready CROSS JOIN millrace_spec s ON s.seq = j.seq
  WHERE j.route = ? AND j.state = ${stateCodes.ready} AND (j.timer_at IS NULL OR j.timer_at > ?)`;

/** Inputs: route, now, limit. Answer: the head of the route. */
const readHead = `SELECT ${columns} ${ready} ORDER BY j.rank, j.seq LIMIT ?`;
/** Inputs: route, now, rank, seq, limit. Answer: (rank, seq) of what waits behind that place. */
const readCandidates = `SELECT j.rank, j.seq FROM millrace_job j INDEXED BY millrace_job_ready
  WHERE j.route = ? AND j.state = ${stateCodes.ready} AND (j.timer_at IS NULL OR j.timer_at > ?) AND (j.rank, j.seq) > (?, ?)
  ORDER BY j.rank, j.seq LIMIT ?`;
/** Input: a JSON list of seqs. Answer: these jobs in claim order. */
const readChosen = `SELECT ${columns} FROM millrace_job j CROSS JOIN millrace_spec s ON s.seq = j.seq
  WHERE j.seq IN (SELECT value FROM json_each(?)) ORDER BY j.rank, j.seq`;
/** Inputs: lowest fence, owner, now, lease end (3 times), then the seqs. Guard: read as ready in the same transaction. */
const lease = `UPDATE millrace_job SET state = ${stateCodes.running}, fence = max(fence, ?) + 1, attempt = attempt + counts_attempt, counts_attempt = 1,
  rev = rev + 1, owner = ?, claimed_at = ?, started_at = NULL, attempt_ends_at = NULL, ttl_at = NULL, lease_ends_at = ?,
  timer_at = min(?, ifnull(deadline_at, ?)), holds = CASE holds WHEN ${holds.untilStarted} THEN 0 ELSE holds END`;

export function claim(step: Step, request: ClaimRequest): ClaimAnswer {
  const { statements, now } = step;
  const jobs: LeasedJob[] = [];
  let more = false;
  for (const { routes, max } of request.offers) {
    if (max <= 0 || routes.length === 0) continue;
    const rows =
      routes.length === 1
        ? readFrom(statements, routes[0] as number, max, now)
        : mergeRoutes(statements, routes, max, now);
    if (rows.length === 0) continue;
    for (const row of rows) jobs.push(leaseRow(step, row));
    const endsAt = now + request.leaseMs;
    const values = [step.turn.epoch * fencesPerEpoch, request.owner, now, endsAt, endsAt, endsAt];
    runOnSeqs(
      statements,
      lease,
      values,
      rows.map((row) => row[0] as number),
    );
    more ||= rows.length === max;
  }
  return {
    jobs,
    routes: routesAfter(statements, request.routesKnown),
    more,
    nextDueInMs: nextClockInMs(statements, now),
    now,
  };
}

function readFrom(statements: Statements, route: number, max: number, now: number): SqlValue[][] {
  return statements(readHead).all(route, now, max) as SqlValue[][];
}

/** The same arithmetic as the update's, so that the rows need not be read again. */
function leaseRow(step: Step, row: SqlValue[]): LeasedJob {
  const job: LeasedJob = {
    seq: row[0] as number,
    id: row[1] as string,
    route: row[2] as number,
    rev: (row[3] as number) + 1,
    attempt: (row[4] as number) + (row[13] as number),
    fence: Math.max(row[5] as number, step.turn.epoch * fencesPerEpoch) + 1,
    dueAt: row[6] as number,
    deadlineAt: row[7] as number | null,
    attempts: row[8] as string | null,
    createdAt: row[9] as number,
    policy: row[10] as string | null,
    meta: row[11] as string | null,
    input: row[12] as string,
    claimedAt: step.now,
  };
  if (row[14] === holds.untilStarted) freeKey(step.statements, job.seq);
  count(step, job.route, stateCodes.ready, -1);
  count(step, job.route, stateCodes.running, 1);
  const { id, rev, route, attempt } = job;
  tell(step, { kind: "claimed", id, rev, route, state: stateCodes.running, attempt, extra: null });
  return job;
}

type Candidate = [rank: number, seq: number];

interface Head {
  readonly route: number;
  candidates: Candidate[];
  next: number;
  /** The last batch was not full: nothing waits behind it. */
  isDry: boolean;
}

function mergeRoutes(
  statements: Statements,
  routes: readonly number[],
  max: number,
  now: number,
): SqlValue[][] {
  const batch = Math.ceil((2 * max) / routes.length) + 8;
  const fetch = (head: Head, after: Candidate): void => {
    head.candidates = statements(readCandidates).all(head.route, now, ...after, batch) as Candidate[];
    head.next = 0;
    head.isDry = head.candidates.length < batch;
  };
  const heads = [...new Set(routes)].map((route): Head => ({ route, candidates: [], next: 0, isDry: false }));
  for (const head of heads) fetch(head, [-Number.MAX_SAFE_INTEGER, 0]);
  const chosen: number[] = [];
  while (chosen.length < max) {
    let first: Head | null = null;
    for (const head of heads) {
      if (head.next < head.candidates.length && (first === null || isBefore(headOf(head), headOf(first))))
        first = head;
    }
    if (first === null) break;
    const taken = headOf(first);
    chosen.push(taken[1]);
    first.next += 1;
    if (first.next === first.candidates.length && !first.isDry) fetch(first, taken);
  }
  return chosen.length === 0 ? [] : (statements(readChosen).all(JSON.stringify(chosen)) as SqlValue[][]);
}

function headOf(head: Head): Candidate {
  return head.candidates[head.next] as Candidate;
}

function isBefore(one: Candidate, other: Candidate): boolean {
  return one[0] < other[0] || (one[0] === other[0] && one[1] < other[1]);
}
