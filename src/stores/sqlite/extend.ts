/** What a running attempt writes while it runs, always under its fence: a longer lease, the report of its start, progress and logs. */
import { stateCodes } from "../../model/job-state.ts";
import { storeLimits } from "../../store/limits.ts";
import type {
  Extend,
  ExtendAnswer,
  ExtendRequest,
  LeasedWrite,
  RecordAnswer,
} from "../../store/operations.ts";
import type { LeasedJob, LeaseRef } from "../../store/records.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { timerAtOf } from "./clock.ts";
import { readLiveBySeq, seqOfId } from "./live-job.ts";
import type { LiveJob } from "./live-job.ts";
import { findLive } from "./settle.ts";
import { hintDue } from "./step.ts";
import type { Step } from "./step.ts";

/** Inputs: lease end, timer, start, attempt end, seq. Guard: running with this fence, read in the same transaction. */
const renew =
  "UPDATE millrace_job SET lease_ends_at = ?, timer_at = ?, started_at = ?, attempt_ends_at = ? WHERE seq = ?";

export function extendIfLeased(step: Step, request: ExtendRequest): ExtendAnswer {
  const { statements, now } = step;
  const live = readLiveBySeq(
    statements,
    request.leases.map((lease) => lease.seq),
  );
  const answers = request.leases.map((lease) => {
    const job = leasedOr(statements, lease, live.get(lease.seq) ?? null);
    if (typeof job === "string") return job;
    // Never shorter: the handler may have asked for more by hand.
    const extended = extendOne(step, job, lease, Math.max(job.leaseEndsAt ?? 0, now + request.leaseMs));
    // One call may name a lease twice: the second starts from what the first left.
    live.set(job.seq, extended);
    return job.cancelAsked === 1 ? "cancel-asked" : "ok";
  });
  const others = request.wantsOthers ? readOthers(statements, request) : [];
  return { answers, others, now };
}

function extendOne(step: Step, job: LiveJob, lease: Extend, leaseEndsAt: number): LiveJob {
  const { now } = step;
  const startedAt = lease.startedAgoMs === undefined ? job.startedAt : now - lease.startedAgoMs;
  const { attemptEndsInMs } = lease;
  const attemptEndsAt =
    attemptEndsInMs === undefined
      ? job.attemptEndsAt
      : attemptEndsInMs === null
        ? null
        : now + attemptEndsInMs;
  const extended: LiveJob = { ...job, leaseEndsAt, startedAt, attemptEndsAt };
  const timerAt = timerAtOf(stateCodes.running, extended);
  step.statements(renew).run(leaseEndsAt, timerAt, startedAt, attemptEndsAt, job.seq);
  if (attemptEndsAt !== job.attemptEndsAt) hintDue(step, attemptEndsAt);
  return extended;
}

/** The job while this lease is the current one, else why not. */
function leasedOr(statements: Statements, ref: LeaseRef, found: LiveJob | null): LiveJob | "stale" | "gone" {
  const job = found !== null && found.id === ref.id ? found : findLive(statements, ref);
  if (job === null) return seqOfId(statements, ref.id) === null ? "gone" : "stale";
  return job.state === stateCodes.running && job.fence === ref.fence ? job : "stale";
}

/** Input: owner. Answer: what it runs, by seq. */
const readOwned = `SELECT seq, id, fence FROM millrace_job INDEXED BY millrace_job_running
  WHERE state = ${stateCodes.running} AND owner = ? ORDER BY seq`;
/** Input: seq. Answer: the lease as a claim hands it out. */
const readLease = `SELECT j.seq, j.id, j.fence, j.route, j.rev, j.attempt, s.input, s.policy, s.meta, j.attempts, s.created_at, j.due_at,
  j.claimed_at, j.deadline_at FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq WHERE j.seq = ?`;

function readOthers(statements: Statements, request: ExtendRequest): LeasedJob[] {
  const named = new Set(request.leases.map(({ id, fence }) => `${fence}:${id}`));
  const owned = statements(readOwned).all(request.owner) as [seq: number, id: string, fence: number][];
  const others = owned.filter(([, id, fence]) => !named.has(`${fence}:${id}`));
  return others.map(([seq]) => leasedJobOf(statements(readLease).get(seq) as SqlValue[]));
}

function leasedJobOf(row: SqlValue[]): LeasedJob {
  return {
    seq: row[0] as number,
    id: row[1] as string,
    fence: row[2] as number,
    route: row[3] as number,
    rev: row[4] as number,
    attempt: row[5] as number,
    input: row[6] as string,
    policy: row[7] as string | null,
    meta: row[8] as string | null,
    attempts: row[9] as string | null,
    createdAt: row[10] as number,
    dueAt: row[11] as number,
    claimedAt: row[12] as number,
    deadlineAt: row[13] as number | null,
  };
}

/** Inputs: progress, seq. Guard: as above. */
const setProgress = "UPDATE millrace_job SET progress = ? WHERE seq = ?";
/** Input: seq. Answer: the number of its last line. */
const lastLine = "SELECT max(number) FROM millrace_trail WHERE seq = ?";
/** Inputs: seq, number, time, text. */
const putLine = "INSERT OR REPLACE INTO millrace_trail (seq, number, at, body) VALUES (?, ?, ?, ?)";

const linesMax = storeLimits.logLinesPerJobMax;
export const droppedLine = `Further log lines were dropped: a job keeps at most ${linesMax}.`;

export function recordIfLeased(step: Step, writes: readonly LeasedWrite[]): RecordAnswer[] {
  const { statements } = step;
  const live = readLiveBySeq(
    statements,
    writes.map((write) => write.seq),
  );
  return writes.map((write) => {
    const job = leasedOr(statements, write, live.get(write.seq) ?? null);
    if (typeof job === "string") return job;
    if (write.progress !== undefined) statements(setProgress).run(write.progress, job.seq);
    if (write.logs !== undefined && write.logs.length > 0) appendLines(step, job.seq, write.logs);
    return "ok";
  });
}

function appendLines(step: Step, seq: number, lines: readonly string[]): void {
  const { statements, now } = step;
  const [last] = statements(lastLine).get(seq) as [number: number | null];
  let number = last ?? 0;
  for (const line of lines) {
    if (number === linesMax) {
      statements(putLine).run(seq, linesMax, now, droppedLine);
      return;
    }
    number += 1;
    statements(putLine).run(seq, number, now, line);
  }
}
