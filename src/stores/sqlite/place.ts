/**
 * Puts a live job back among the waiting: retry, snooze, hand-back, reclaim, reschedule, run now, replace. The lease is dropped, the
 * present clock is set anew (R1) and it is told.
 *
 * Guards were checked by the caller inside the same transaction.
 */
import type { Edit, HandBack, Schedule } from "../../model/change.ts";
import type { EventKind } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import { assertArrow } from "./arrow.ts";
import { dueAtOf, timerAtOf, waitingCode } from "./clock.ts";
import type { Statements } from "./connection.ts";
import type { LiveJob } from "./live-job.ts";
import { count, hintDue, tell } from "./step.ts";
import type { Step } from "./step.ts";

/** Inputs: the new values, then seq. */
const placeWaiting = `UPDATE millrace_job SET route = ?, state = ?, rank = ?, due_at = ?, timer_at = ?, deadline_at = ?, ttl_at = ?, attempt = ?,
  counts_attempt = ?, settled_fence = ?, rev = ?, cancel_asked = ?, holds = ?, lease_ends_at = NULL, attempt_ends_at = NULL, attempts = ?
  WHERE seq = ?`;

/** The job as it stood, with what changes. Answers the job as it stands. */
export function placeJob(step: Step, from: LiveJob, changes: Partial<LiveJob>, event: EventKind): LiveJob {
  const job: LiveJob = { ...from, ...changes, rev: from.rev + 1, leaseEndsAt: null, attemptEndsAt: null };
  assertArrow(from.state, job.state);
  const timerAt = timerAtOf(job.state, job);
  // prettier-ignore
  step.statements(placeWaiting).run(job.route, job.state, job.rank, job.dueAt, timerAt, job.deadlineAt, job.ttlAt, job.attempt,
    job.countsAttempt, job.settledFence, job.rev, job.cancelAsked, job.holds, job.attempts, job.seq);
  if (from.state !== job.state || from.route !== job.route) {
    count(step, from.route, from.state, -1);
    count(step, job.route, job.state, 1);
  }
  hintDue(step, timerAt);
  tellWaiting(step, job, event);
  return job;
}

export function tellWaiting(step: Step, job: LiveJob, event: EventKind): void {
  const extra = job.state === stateCodes.scheduled ? job.dueAt : null;
  tell(step, {
    kind: event,
    id: job.id,
    rev: job.rev,
    route: job.route,
    state: job.state,
    attempt: job.attempt,
    extra,
  });
}

/** What a Schedule or HandBack makes of the job's own fields. */
export function waitingChanges(job: LiveJob, next: Schedule | HandBack, now: number): Partial<LiveJob> {
  if (next.to === "ready") return { state: stateCodes.ready, countsAttempt: next.countsAttempt };
  const dueAt = dueAtOf(next.due, now);
  return {
    state: waitingCode(dueAt, now),
    dueAt,
    rank: next.rankBase + next.rankSlope * dueAt,
    ttlAt: next.ttlMs === null ? null : dueAt + next.ttlMs,
    attempt: next.attempt ?? job.attempt,
    countsAttempt: next.countsAttempt,
  };
}

/** Inputs: value, seq. */
const editInput = "UPDATE millrace_spec SET input = ? WHERE seq = ?";
const editPolicy = "UPDATE millrace_spec SET policy = ? WHERE seq = ?";
const editMeta = "UPDATE millrace_spec SET meta = ? WHERE seq = ?";

export function editSpec(statements: Statements, seq: number, edit: Edit | undefined): void {
  if (edit === undefined) return;
  if (edit.input !== undefined) statements(editInput).run(edit.input, seq);
  if (edit.policy !== undefined) statements(editPolicy).run(edit.policy, seq);
  if (edit.meta !== undefined) statements(editMeta).run(edit.meta, seq);
}
