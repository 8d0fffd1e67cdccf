/**
 * Settle: what a running attempt writes at its end, under its fence. Applied at most once, and only with the current fence; a repeat with
 * the same fence answers `already`.
 *
 * Endings without effects are collected and written with few statements. A settle with effects is all or nothing: it runs in a
 * savepoint, so that one refused effect harms no other settle of the call.
 */
import { isTerminal, stateCodes } from "../../model/job-state.ts";
import type { JobState } from "../../model/job-state.ts";
import type { Finish, SettleNext } from "../../model/change.ts";
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import type { Effects, LeaseRef } from "../../store/records.ts";
import type { Statements } from "./connection.ts";
import { finishJobs } from "./finish.ts";
import type { Ending, EndingJob } from "./finish.ts";
import { readLive, seqOfId } from "./live-job.ts";
import type { LiveJob } from "./live-job.ts";
import { editSpec, placeJob, waitingChanges } from "./place.ts";
import type { Step } from "./step.ts";
import { openInsert } from "./insert.ts";
import { allOrNothing, submitUnit } from "./submit.ts";

const ok: SettleAnswer = { kind: "ok" };
const already: SettleAnswer = { kind: "already" };
const stale: SettleAnswer = { kind: "stale" };
const gone: SettleAnswer = { kind: "gone" };
const cancelAsked: SettleAnswer = { kind: "cancel-asked" };

export function settleIfLeased(step: Step, settles: readonly Settle[]): SettleAnswer[] {
  const { statements } = step;
  const leases = readLeases(
    statements,
    settles.map((settle) => settle.seq),
  );
  const touched = new Set<number>();
  let endings: Ending[] = [];
  const flush = (): void => {
    const collected = endings;
    endings = [];
    finishJobs(step, collected, "holder");
  };
  const answers = settles.map((settle): SettleAnswer => {
    const lease = leases.get(settle.seq);
    const isFast =
      settle.effects === undefined && isFinish(settle.next) && lease !== undefined && !touched.has(lease.seq);
    if (
      isFast &&
      lease.state === stateCodes.running &&
      lease.fence === settle.fence &&
      lease.id === settle.id
    ) {
      touched.add(lease.seq);
      endings.push({ job: lease, next: settle.next as Finish, attempts: settle.attempts });
      return ok;
    }
    flush();
    return settleOne(step, settle, touched);
  });
  flush();
  return answers;
}

function settleOne(step: Step, settle: Settle, touched: Set<number>): SettleAnswer {
  const { statements } = step;
  const job = findLive(statements, settle);
  if (job === null || job.state !== stateCodes.running || job.fence !== settle.fence)
    return refusal(statements, settle, job);
  if (job.cancelAsked === 1 && !isFinish(settle.next)) return cancelAsked;
  touched.add(job.seq);
  const { effects } = settle;
  if (effects === undefined) return applyNext(step, settle, job);
  return allOrNothing(
    step,
    () => settleWithEffects(step, settle, job, effects),
    () => {},
  );
}

function isFinish(next: SettleNext): next is Finish {
  return isTerminal(next.to as JobState);
}

function applyNext(step: Step, { next, attempts }: Settle, job: LiveJob): SettleAnswer {
  if (isFinish(next)) {
    finishJobs(step, [{ job, next, attempts }], "holder");
    return ok;
  }
  const changes = waitingChanges(job, next, step.now);
  placeJob(
    step,
    job,
    { ...changes, settledFence: job.fence, attempts: attempts ?? job.attempts },
    next.event,
  );
  if (next.to === "scheduled") editSpec(step.statements, job.seq, next.edit);
  return ok;
}

function settleWithEffects(step: Step, settle: Settle, job: LiveJob, effects: Effects): SettleAnswer {
  applyNext(step, settle, job);
  const insert = openInsert(step);
  const docs = effects.docs ?? [];
  const answer = submitUnit(step, insert, { jobs: effects.jobs ?? [], docs });
  insert.flush();
  if (answer.kind === "ok") return ok;
  return answer.reason === "doc-changed"
    ? { kind: "doc-changed", id: answer.id }
    : { kind: "id-differs", id: answer.id };
}

interface Lease extends EndingJob {
  readonly fence: number;
}

/** Input: a JSON list of seqs. Answer: what the guard and the end of each need. */
const readSeveral = `SELECT seq, id, route, state, rev, attempt, holds, fence FROM millrace_job WHERE seq IN (SELECT value FROM json_each(?))`;

type LeaseRow = [
  seq: number,
  id: string,
  route: number,
  state: number,
  rev: number,
  attempt: number,
  holds: number,
  fence: number,
];

function readLeases(statements: Statements, seqs: readonly number[]): Map<number, Lease> {
  const found = new Map<number, Lease>();
  for (const row of statements(readSeveral).all(JSON.stringify(seqs)) as LeaseRow[]) {
    const [seq, id, route, state, rev, attempt, holds, fence] = row;
    found.set(seq, { seq, id, route, state, rev, attempt, holds, fence });
  }
  return found;
}

/** The live row that a lease names. Another seq under the same id is another job: its fences began anew. */
export function findLive(statements: Statements, ref: LeaseRef): LiveJob | null {
  const job = readLive(statements, ref.seq);
  return job !== null && job.id === ref.id ? job : null;
}

/** Inputs: seq, id. Answer: the fence that settled it last, if it is finished. */
const settledFenceOf = `SELECT settled_fence FROM millrace_history WHERE seq = ? AND id = ?`;

function refusal(statements: Statements, settle: Settle, job: LiveJob | null): SettleAnswer {
  if (job !== null) return job.settledFence === settle.fence ? already : stale;
  const row = statements(settledFenceOf).get(settle.seq, settle.id) as
    | [settledFence: number | null]
    | undefined;
  if (row === undefined) return seqOfId(statements, settle.id) === null ? gone : stale;
  return row[0] === settle.fence ? already : stale;
}
