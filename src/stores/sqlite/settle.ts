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
import type { Ending } from "./finish.ts";
import { readLive, readLiveBySeq, seqOfId } from "./live-job.ts";
import type { LiveJob } from "./live-job.ts";
import { editSpec, placeJob, waitingChanges } from "./place.ts";
import type { Step } from "./step.ts";
import { allOrNothing, openInsert, submitUnit } from "./submit.ts";

const ok: SettleAnswer = { kind: "ok" };
const already: SettleAnswer = { kind: "already" };
const stale: SettleAnswer = { kind: "stale" };
const gone: SettleAnswer = { kind: "gone" };

export function settleIfLeased(step: Step, settles: readonly Settle[]): SettleAnswer[] {
  const { statements } = step;
  const live = readLiveBySeq(statements, settles.map((settle) => settle.seq));
  const touched = new Set<number>();
  let endings: Ending[] = [];
  const flush = (): void => {
    const collected = endings;
    endings = [];
    finishJobs(step, collected);
  };
  const answers = settles.map((settle): SettleAnswer => {
    let job = live.get(settle.seq) ?? null;
    if (touched.has(settle.seq) || job === null || job.id !== settle.id) {
      flush();
      job = findLive(statements, settle);
    }
    if (job === null || job.state !== stateCodes.running || job.fence !== settle.fence) return refusal(statements, settle, job);
    const leased = job;
    touched.add(leased.seq);
    if (settle.effects !== undefined) {
      flush();
      return allOrNothing(step, () => settleWithEffects(step, settle, leased, settle.effects ?? {}), () => {});
    }
    if (isFinish(settle.next)) endings.push(endingOf(leased, settle, settle.next));
    else putBack(step, leased, settle);
    return ok;
  });
  flush();
  return answers;
}

function isFinish(next: SettleNext): next is Finish {
  return isTerminal(next.to as JobState);
}

function endingOf(job: LiveJob, settle: Settle, next: Finish): Ending {
  return { job, next, attempts: settle.attempts, settledFence: job.fence };
}

function putBack(step: Step, job: LiveJob, settle: Settle): void {
  const next = settle.next;
  if (isFinish(next)) return;
  const changes = waitingChanges(job, next, step.now);
  placeJob(step, job, { ...changes, settledFence: job.fence, attempts: settle.attempts ?? job.attempts }, next.event);
  if (next.to === "scheduled") editSpec(step.statements, job.seq, next.edit);
}

function settleWithEffects(step: Step, settle: Settle, job: LiveJob, effects: Effects): SettleAnswer {
  if (isFinish(settle.next)) finishJobs(step, [endingOf(job, settle, settle.next)]);
  else putBack(step, job, settle);
  const insert = openInsert(step);
  const docs = effects.docs ?? [];
  const answer = submitUnit(step, insert, { jobs: effects.jobs ?? [], docs });
  insert.flush();
  if (answer.kind === "ok") return ok;
  return answer.reason === "doc-changed" ? { kind: "doc-changed", id: answer.id } : { kind: "id-differs", id: answer.id };
}

/** The row that a lease names: where its seq says, or by its id when the seq is wrong. */
export function findLive(statements: Statements, ref: LeaseRef): LiveJob | null {
  const job = readLive(statements, ref.seq);
  if (job !== null && job.id === ref.id) return job;
  const seq = seqOfId(statements, ref.id);
  return seq === null ? null : readLive(statements, seq);
}

/** Input: id. Answer: the fence that settled it last, if it is finished. */
const settledFenceOf = `SELECT h.settled_fence FROM millrace_spec s JOIN millrace_history h ON h.seq = s.seq WHERE s.id = ?`;

function refusal(statements: Statements, settle: Settle, job: LiveJob | null): SettleAnswer {
  if (job !== null) return job.settledFence === settle.fence ? already : stale;
  const row = statements(settledFenceOf).get(settle.id) as [settledFence: number] | undefined;
  if (row === undefined) return gone;
  return row[0] === settle.fence ? already : stale;
}
