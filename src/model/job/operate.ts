/**
 * What operators and clients may do to a job from outside, as guarded changes: cancel, run now, reschedule, edit,
 * replay, revoke and remove. Each says in which states it applies; a store refuses the rest.
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
  /** The packed attempt log from now on; left alone when absent. */
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
 * A cancel ends a queued job at once. A running job is told, and how it ends depends on its handler; until then the
 * reason waits in the attempt log, so the change is guarded by the log that was read. Asking again without a reason
 * leaves the reason that was given.
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
  /** Carried over as it is: an attempt that was given back stays given back. */
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

/** Changes payload or priority of a job that has not started. @param ranking null where its rank stays. */
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
  /** True opens a new round of attempts; else the job goes on counting and gets one more attempt. */
  readonly resetsAttempts: boolean;
  readonly edit?: Edit;
  readonly strideMs: number;
}

/**
 * Brings a finished job back: the only way out of a terminal state. A new round is noted in the attempt log, so such a
 * change is guarded by the log that was read.
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
 * Takes a running job from its worker, whose later settle is refused. The attempt is given back: it was no fault of the
 * job.
 */
export const revokeChange: OperatorChange = {
  states: ["running"],
  next: { ...handBack, event: "revoked" },
};

/**
 * Of a job whose cancel was asked for the revoke is its end: nobody is left to hear of the cancel, and the job must not
 * run again. Guarded by the record that was read.
 */
export function revokeChanges(job: CancellableJob): readonly OperatorChange[] {
  return [job.cancelAsked ? { states: ["running"], next: afterCancelAsked(job) } : revokeChange];
}

export const removeChange: OperatorChange = {
  states: [...waitingStates, ...terminalStates],
  next: { to: "removed", event: "removed" },
};
