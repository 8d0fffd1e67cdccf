/**
 * What operators and clients may do to a job from outside, as guarded changes: cancel, run now, reschedule, edit,
 * replay, revoke and delete. Each says in which states it applies; a store refuses all other states.
 */
import { afterCancel, afterCancelAsked, defaultCancelReason, handBack } from "./after-run.ts";
import { noteCancelReason, noteNewRound } from "./attempt-log.ts";
import type { ChangeNext, Due, Edit, Schedule } from "./change.ts";
import type { DecidedPolicy } from "./job-policy.ts";
import { terminalStates, waitingStates } from "./job-state.ts";
import type { JobState } from "./job-state.ts";
import { rankingOf } from "../routing/rank.ts";
import type { Ranking } from "../routing/rank.ts";

export interface OperatorChange {
  readonly states: readonly JobState[];
  readonly next: ChangeNext;
  /** The new packed attempt log; unchanged if absent. */
  readonly attempts?: string;
}

export interface ReplayChange extends OperatorChange {
  readonly next: Schedule;
}

interface CancellableJob {
  readonly policy: DecidedPolicy;
  readonly attempts: string | null;
  readonly cancelAsked: boolean;
}

/**
 * A cancel ends a queued job at once. The handler of a running job is notified and decides how the job ends. Until then
 * the reason is in the attempt log, so the change is guarded by the log that was read. A second cancel without a reason
 * keeps the first reason.
 */
export function cancelChanges(job: CancellableJob, reason: string | undefined): readonly OperatorChange[] {
  const isRepeat = job.cancelAsked && reason === undefined;
  return [
    { states: waitingStates, next: afterCancel(job.policy, reason ?? defaultCancelReason) },
    {
      states: ["running"],
      next: { to: "same", event: "cancel-asked", cancelAsked: true },
      ...(isRepeat ? {} : { attempts: noteCancelReason(job.attempts, reason ?? defaultCancelReason) }),
    },
  ];
}

interface WaitingJob {
  readonly policy: DecidedPolicy;
  /** Unchanged: an attempt that was given back stays given back. */
  readonly countsAttempt: 0 | 1;
  readonly hasStarted: boolean;
}

export function rescheduleChange(job: WaitingJob, due: Due, strideMs: number, edit?: Edit): OperatorChange {
  return {
    states: ["ready", "scheduled"],
    next: {
      to: "scheduled",
      event: "rescheduled",
      due,
      ...rankingOf(job.policy, strideMs),
      countsAttempt: job.countsAttempt,
      // The time-to-live of a job ended with its first start.
      ttlMs: job.hasStarted ? null : job.policy.ttlMs,
      ...(edit === undefined ? {} : { edit }),
    },
  };
}

/** Changes payload or priority of a job that has not started. @param ranking null to keep its rank. */
export function editChange(edit: Edit, ranking: Ranking | null): OperatorChange {
  return {
    states: ["blocked", "scheduled", "ready"],
    next: {
      to: "same",
      event: "edited",
      edit,
      ...ranking,
    },
  };
}

interface ReplayOptions {
  readonly due: Due;
  /** True opens a new round of attempts. Otherwise the job goes on counting and gets one more attempt. */
  readonly resetsAttempts: boolean;
  readonly edit?: Edit;
  readonly strideMs: number;
}

/**
 * Brings a finished job back: the only way out of a terminal state. A new round is written into the attempt log, so
 * such a change is guarded by the log that was read.
 */
export function replayChange(
  { policy, attempts }: Pick<CancellableJob, "policy" | "attempts">,
  options: ReplayOptions,
): ReplayChange {
  const next: Schedule = {
    to: "scheduled",
    event: "replayed",
    due: options.due,
    ...rankingOf(policy, options.strideMs),
    countsAttempt: 1,
    ttlMs: null,
    clearsPassedDeadline: true,
    ...(options.resetsAttempts ? { attempt: 0 } : {}),
    ...(options.edit === undefined ? {} : { edit: options.edit }),
  };
  return {
    states: terminalStates,
    next,
    ...(options.resetsAttempts ? { attempts: noteNewRound(attempts) } : {}),
  };
}

/**
 * Takes a running job from its worker, whose later settle is refused. The attempt is given back, because the job did
 * not fail.
 */
export const revokeChange: OperatorChange = {
  states: ["running"],
  next: { ...handBack, event: "revoked" },
};

/**
 * If the cancel of the job was requested, the revoke ends the job: no worker is left to act on the cancel, and the job
 * must not run again. Guarded by the record that was read.
 */
export function revokeChanges(job: CancellableJob): readonly OperatorChange[] {
  return [job.cancelAsked ? { states: ["running"], next: afterCancelAsked(job) } : revokeChange];
}

export const deleteChange: OperatorChange = {
  states: [...waitingStates, ...terminalStates],
  next: { to: "deleted", event: "deleted" },
};
