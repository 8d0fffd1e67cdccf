/**
 * Claim (rule R6): hands out ready jobs in order of (rank, seq), each with a new fence and a lease. Never a job one of whose clocks has
 * rung: that one belongs to a duty.
 *
 * One route: its head. Several: the heads of all are merged here, and a route whose last candidate was taken is asked again.
 * Select, then update by a list of seqs: 8 us per job by 500; as one UPDATE .. RETURNING with the select inside 9 to 10. A job that holds
 * its unique key until it is started takes the general road.
 */
import assert from "node:assert/strict";
import { stateCodes } from "../../model/job-state.ts";
import { leasedFields } from "../../store/job-fields.ts";
import type { ClaimAnswer, ClaimRequest } from "../../store/operations.ts";
import type { LeasedJob } from "../../store/records.ts";
import { fencesPerEpoch, lease } from "../../store/rules/lease.ts";
import { uniqueHolds } from "../../store/rules/unique-holds.ts";
import { timerAt } from "./clock.ts";
import { clearedFormulas, columnList, fromJob, rowReader, setList } from "./columns.ts";
import type { Formulas } from "./columns.ts";
import { nextClockInMs } from "./due.ts";
import { readLive } from "./rows.ts";
import { isReady } from "./schema.ts";
import { runOnSeqs } from "./seq-list.ts";
import { count, tellEvent } from "./step.ts";
import type { Step } from "./step.ts";
import { writeOutcome } from "./write-outcome.ts";

/** `lease` of store/rules/lease.ts, of a job that holds no key until its start: what is handed out, and what only the store keeps. */
const handedOut: Formulas = {
  fence: "max(fence, @lowestFence) + 1",
  attempt: "attempt + counts_attempt",
  rev: "rev + 1",
  claimedAt: "@now",
};
const kept: Formulas = {
  ...clearedFormulas("lease"),
  state: stateCodes.running,
  owner: "@owner",
  leaseEndsAt: "@leaseEndsAt",
  timerAt: timerAt.leased("@leaseEndsAt"),
};

const columns = columnList([...leasedFields, "holds"], { ...fromJob, ...handedOut });
const readLeased = rowReader(leasedFields);
const readHolds = rowReader(["holds"], leasedFields.length);

const claimable = `millrace_job j INDEXED BY millrace_job_ready`;
const isClaimable = `j.route = @route AND ${isReady} AND (j.timer_at IS NULL OR j.timer_at > @now)`;
const inOrder = "ORDER BY j.rank, j.seq";

/** Inputs: route, now, lowest fence, limit. Answer: the head of the route. */
const readHead = `SELECT ${columns} FROM ${claimable} CROSS JOIN millrace_spec s ON s.seq = j.seq WHERE ${isClaimable} ${inOrder} LIMIT @max`;
/** Inputs: route, now, rank, seq, limit. Answer: (rank, seq) of what waits behind that place. */
const readCandidates = `SELECT j.rank, j.seq FROM ${claimable} WHERE ${isClaimable} AND (j.rank, j.seq) > (@rank, @seq) ${inOrder} LIMIT @max`;
/** Inputs: now, lowest fence, a JSON list of seqs. Answer: these jobs in claim order. */
const readChosen = `SELECT ${columns} FROM millrace_job j CROSS JOIN millrace_spec s ON s.seq = j.seq
  WHERE j.seq IN (SELECT value FROM json_each(@seqs)) ${inOrder}`;
/** Inputs: lowest fence, now, owner, lease end, then the seqs. Guard: read as ready in the same transaction. */
const leaseSeqs = `UPDATE millrace_job SET ${setList({ ...handedOut, ...kept })}`;

export function claim(step: Step, request: ClaimRequest): ClaimAnswer {
  const { statements, now } = step;
  const jobs: LeasedJob[] = [];
  let more = false;
  for (const { routes, max } of request.offers) {
    if (max <= 0 || routes.length === 0) continue;
    const rows = readClaimable(step, routes, max);
    for (const job of leaseRows(step, rows, request)) jobs.push(job);
    more ||= rows.length === max;
  }
  return { jobs, more, nextDueInMs: nextClockInMs(statements, now), now };
}

const lowestFenceOf = ({ turn }: Step): number => turn.epoch * fencesPerEpoch;

/** The jobs as they will stand once leased, in claim order. */
function readClaimable(step: Step, routes: readonly number[], max: number): unknown[] {
  const { statements, now } = step;
  const lowestFence = lowestFenceOf(step);
  const [route] = routes;
  if (routes.length === 1 && route !== undefined)
    return statements(readHead).all({ route, now, lowestFence, max });
  const seqs = mergeRoutes(step, routes, max);
  return seqs.length === 0
    ? []
    : statements(readChosen).all({ now, lowestFence, seqs: JSON.stringify(seqs) });
}

function leaseRows(step: Step, rows: readonly unknown[], { owner, leaseMs }: ClaimRequest): LeasedJob[] {
  const { statements, now } = step;
  const plain: number[] = [];
  const jobs = rows.map((row) => {
    const job = readLeased(row);
    if (readHolds(row).holds === uniqueHolds.started) return leaseGeneral(step, job.seq, owner, leaseMs);
    const { id, seq, rev, route, attempt } = job;
    plain.push(seq);
    count(step, route, stateCodes.ready, -1);
    count(step, route, stateCodes.running, 1);
    tellEvent(step, { kind: "claimed", id, rev, route, state: stateCodes.running, attempt, extra: null });
    return job as LeasedJob;
  });
  const named = { lowestFence: lowestFenceOf(step), now, owner, leaseEndsAt: now + leaseMs };
  runOnSeqs(statements, leaseSeqs, plain, named);
  return jobs;
}

/** The general road: a job whose key is freed by its start. */
export function leaseGeneral(step: Step, seq: number, owner: string, leaseMs: number): LeasedJob {
  const row = readLive(step.statements, seq);
  assert(row !== null, "a job that was read as ready is live in the same transaction");
  const outcome = lease(row, { owner, leaseMs, epoch: step.turn.epoch, now: step.now });
  writeOutcome(step, row, outcome);
  return Object.fromEntries(leasedFields.map((name) => [name, outcome.row[name]])) as unknown as LeasedJob;
}

/** Where a job stands in the order of its route. */
interface Candidate {
  readonly rank: number;
  readonly seq: number;
}

interface Head {
  readonly route: number;
  candidates: Candidate[];
  next: number;
  /** The last batch was not full: nothing waits behind it. */
  isDry: boolean;
}

const readCandidate = rowReader(["rank", "seq"]);
const start: Candidate = { rank: -Number.MAX_SAFE_INTEGER, seq: 0 };

/** The seqs of the first jobs over all routes. */
function mergeRoutes({ statements, now }: Step, routes: readonly number[], max: number): number[] {
  const batch = Math.ceil((2 * max) / routes.length) + 8;
  const fetch = (head: Head, { rank, seq }: Candidate): void => {
    const rows = statements(readCandidates).all({ route: head.route, now, rank, seq, max: batch });
    head.candidates = rows.map(readCandidate);
    head.next = 0;
    head.isDry = rows.length < batch;
  };
  const heads = [...new Set(routes)].map((route): Head => ({ route, candidates: [], next: 0, isDry: false }));
  for (const head of heads) fetch(head, start);
  const chosen: number[] = [];
  while (chosen.length < max) {
    let first: Head | null = null;
    for (const head of heads) {
      if (head.next < head.candidates.length && (first === null || isBefore(headOf(head), headOf(first))))
        first = head;
    }
    if (first === null) break;
    const taken = headOf(first);
    chosen.push(taken.seq);
    first.next += 1;
    if (first.next === first.candidates.length && !first.isDry) fetch(first, taken);
  }
  return chosen;
}

function headOf({ candidates, next }: Head): Candidate {
  return candidates[next] as Candidate;
}

function isBefore(one: Candidate, other: Candidate): boolean {
  return one.rank < other.rank || (one.rank === other.rank && one.seq < other.seq);
}
