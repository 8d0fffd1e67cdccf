/**
 * Change: what operators and duties do to a job under a guard (rule R2): cancel, expire, reclaim, reschedule, edit, remove, replay. The first
 * case whose guard holds is applied; none holding answers where the job stands.
 */
import assert from "node:assert/strict";
import { isTerminal, stateCodes, stateOfCode } from "../../model/job-state.ts";
import type { JobState } from "../../model/job-state.ts";
import type { Finish, Mark, Schedule } from "../../model/change.ts";
import type { Change, ChangeAnswer, ChangeCase, Clock, Guard } from "../../store/operations.ts";
import { timerAtOf } from "./clock.ts";
import { finishJobs } from "./finish.ts";
import { forgetJobs } from "./forget.ts";
import { readFinished, readLive, seqOfId } from "./live-job.ts";
import type { LiveJob } from "./live-job.ts";
import { editSpec, placeJob, waitingChanges } from "./place.ts";
import { replayJob } from "./replay.ts";
import { count, tell } from "./step.ts";
import type { Step } from "./step.ts";
import { freeKey } from "./unique.ts";

export function changeIf(step: Step, changes: readonly Change[]): ChangeAnswer[] {
  return changes.map((change) => changeOne(step, change));
}

function changeOne(step: Step, change: Change): ChangeAnswer {
  const { statements } = step;
  const seq = seqOfId(statements, change.id);
  const job = seq === null ? null : (readLive(statements, seq) ?? readFinished(statements, seq));
  if (job === null) return { kind: "gone" };
  const applied = change.cases.findIndex(({ guard }) => isHeld(guard, job, step.now));
  const chosen = change.cases[applied];
  const from = stateOfCode(job.state);
  if (chosen === undefined) return { kind: "changed", state: from, rev: job.rev };
  const outcome = applyCase(step, job, chosen);
  if (outcome.kind === "key-held") return outcome;
  return { kind: "ok", applied, from, state: outcome.state, rev: job.rev + 1 };
}

function isHeld(guard: Guard, job: LiveJob, now: number): boolean {
  if (!guard.states.includes(stateOfCode(job.state))) return false;
  if (guard.rev !== undefined && guard.rev !== job.rev) return false;
  if (guard.fence !== undefined && guard.fence !== job.fence) return false;
  if (guard.rang === undefined) return true;
  const at = clockOf(job, guard.rang);
  return at !== null && at <= now && !isTerminal(stateOfCode(job.state));
}

function clockOf(job: LiveJob, clock: Clock): number | null {
  switch (clock) {
    case "lease":
      return job.leaseEndsAt;
    case "attempt":
      return job.attemptEndsAt;
    case "deadline":
      return job.deadlineAt;
    case "ttl":
      return job.ttlAt;
  }
}

type Outcome =
  | { readonly kind: "ok"; readonly state: JobState | null }
  | { readonly kind: "key-held"; readonly by: string };

function applyCase(step: Step, job: LiveJob, chosen: ChangeCase): Outcome {
  const { next, attempts = null } = chosen;
  const isFinished = isTerminal(stateOfCode(job.state));
  switch (next.to) {
    case "scheduled":
    case "ready": {
      if (isFinished) return replay(step, job, chosen);
      const changes = waitingChanges(job, next, step.now);
      const placed = placeJob(step, job, { ...changes, attempts: attempts ?? job.attempts }, next.event);
      if (next.to === "scheduled") editSpec(step.statements, job.seq, next.edit);
      return { kind: "ok", state: stateOfCode(placed.state) };
    }
    case "same":
      return { kind: "ok", state: markJob(step, job, next, attempts, isFinished) };
    case "removed":
      removeJob(step, job, isFinished);
      return { kind: "ok", state: null };
    default:
      assert(!isFinished, `a finished job cannot end again as ${next.to}`);
      finishJobs(step, [{ job, next: next satisfies Finish, attempts }], "other");
      return { kind: "ok", state: next.to };
  }
}

function replay(step: Step, job: LiveJob, { next, attempts }: ChangeCase): Outcome {
  assert(next.to === "scheduled", "a finished job comes back only by a schedule");
  return replayJob(step, job, next satisfies Schedule, attempts ?? null);
}

/** Inputs: rev, cancel asked, rank, timer, attempts, seq. */
const markLive =
  "UPDATE millrace_job SET rev = ?, cancel_asked = ?, rank = ?, timer_at = ?, attempts = ? WHERE seq = ?";
/** Inputs: rev, cancel asked, rank, attempts, seq. */
const markFinished =
  "UPDATE millrace_history SET rev = ?, cancel_asked = ?, rank = ?, attempts = ? WHERE seq = ?";

function markJob(
  step: Step,
  job: LiveJob,
  next: Mark,
  attempts: string | null,
  isFinished: boolean,
): JobState {
  const { statements } = step;
  const rev = job.rev + 1;
  const cancelAsked = next.cancelAsked === undefined ? job.cancelAsked : Number(next.cancelAsked);
  const isRanked = next.rankBase !== undefined || next.rankSlope !== undefined;
  const rank = isRanked ? (next.rankBase ?? 0) + (next.rankSlope ?? 1) * job.dueAt : job.rank;
  const log = attempts ?? job.attempts;
  if (isFinished) statements(markFinished).run(rev, cancelAsked, rank, log, job.seq);
  else statements(markLive).run(rev, cancelAsked, rank, timerAtOf(job.state, job), log, job.seq);
  editSpec(statements, job.seq, next.edit);
  tell(step, {
    kind: next.event,
    id: job.id,
    rev,
    route: job.route,
    state: job.state,
    attempt: job.attempt,
    extra: extraOf(step, job, cancelAsked),
  });
  return stateOfCode(job.state);
}

function extraOf(step: Step, job: LiveJob, cancelAsked: number): string | number | null {
  if (job.state === stateCodes.scheduled) return job.dueAt;
  if (job.state === stateCodes.running) return cancelAsked === 1 ? job.owner : null;
  return job.state >= stateCodes.completed ? reasonOf(step, job.seq) : null;
}

/** Input: seq. */
const findReason = "SELECT reason FROM millrace_history WHERE seq = ?";

function reasonOf(step: Step, seq: number): string | null {
  return (step.statements(findReason).get(seq) as [reason: string | null])[0];
}

/** Input: seq. Guard: not running, checked here. */
const dropLive = "DELETE FROM millrace_job WHERE seq = ?";
const dropFinished = "DELETE FROM millrace_history WHERE seq = ?";

function removeJob(step: Step, job: LiveJob, isFinished: boolean): void {
  const { statements } = step;
  assert(job.state !== stateCodes.running, "a running job cannot be removed");
  freeKey(statements, job.seq);
  statements(isFinished ? dropFinished : dropLive).run(job.seq);
  forgetJobs(statements, [job.seq]);
  count(step, job.route, job.state, -1);
  tell(step, {
    kind: "removed",
    id: job.id,
    rev: job.rev + 1,
    route: job.route,
    state: null,
    attempt: job.attempt,
    extra: null,
  });
}
