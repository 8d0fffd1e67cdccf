/**
 * What operators and clients may do to a job from outside, as guarded changes: cancel, run now, reschedule, edit,
 * replay, revoke and delete. Each says in which states it applies; a store refuses all other states.
 */
import { afterCancel, afterCancelAsked, defaultCancelReason, handBack } from "./after-run.ts";
import { noteCancelReason, noteNewRound } from "./attempt-log.ts";
import type { ChangeNext, Due, Edit, Schedule } from "./change.ts";
import { hasMark } from "../durable/durable-marks.ts";
import { endRun } from "../durable/end-run.ts";
import type { EndedRun } from "../durable/end-run.ts";
import type { NewEntry } from "../durable/journal-entry.ts";
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
  /** For a durable run: of its field `durable`, these bits are still so. */
  readonly marks?: { readonly mask: number; readonly is: number };
  /** For a durable run: appended to its journal. */
  readonly append?: NewEntry;
}

export interface ReplayChange extends OperatorChange {
  readonly next: Schedule;
}

interface CancellableJob extends EndedRun {
  readonly attempts: string | null;
  readonly cancelAsked: boolean;
}

/**
 * A cancel ends a queued job at once. The handler of a running job is notified and decides how the job ends. Until then
 * the reason is in the attempt log, so the change is guarded by the log that was read. A second cancel without a reason
 * keeps the first reason. A durable run that undoes its steps is to end anyway: there is nothing to change.
 */
export function cancelChanges(
  job: CancellableJob,
  reason: string | undefined,
  strideMs: number,
): readonly OperatorChange[] {
  if (hasMark(job.durable, "isEnding")) return [];
  const isRepeat = job.cancelAsked && reason === undefined;
  const cancelled = afterCancel(job.policy, reason ?? defaultCancelReason);
  return [
    { states: waitingStates, ...endRun(job, cancelled, strideMs) },
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

/** @param states the states in which it applies: a wake is for a scheduled job only. */
export function rescheduleChange(
  job: WaitingJob,
  due: Due,
  strideMs: number,
  {
    edit,
    states = ["ready", "scheduled"],
  }: { readonly edit?: Edit; readonly states?: readonly JobState[] } = {},
): OperatorChange {
  return {
    states,
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
  /** Of a durable run: it remembers nothing. */
  readonly isFromStart?: boolean;
}

/**
 * Brings a finished job back: the only way out of a terminal state. A new round is written into the attempt log, so
 * such a change is guarded by the log that was read.
 */
export function replayChange(
  { policy, attempts, state, durable }: Omit<CancellableJob, "cancelAsked"> & { readonly state: JobState },
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
    ...(policy.durable !== null && beginsAnew(state, durable, options) ? { newRound: true } : {}),
  };
  return {
    states: terminalStates,
    next,
    ...(options.resetsAttempts ? { attempts: noteNewRound(attempts) } : {}),
  };
}

/**
 * A run that failed goes on where it stood. It has nothing to go on from if it had completed, if its steps were undone,
 * or if it gets another input.
 */
function beginsAnew(state: JobState, durable: number, { isFromStart, edit }: ReplayOptions): boolean {
  return (
    isFromStart === true || edit?.input !== undefined || state === "completed" || hasMark(durable, "isEnding")
  );
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
export function revokeChanges(job: CancellableJob, strideMs: number): readonly OperatorChange[] {
  if (!job.cancelAsked) return [revokeChange];
  return [{ states: ["running"], ...endRun(job, afterCancelAsked(job), strideMs) }];
}

export const deleteChange: OperatorChange = {
  states: [...waitingStates, ...terminalStates],
  next: { to: "deleted", event: "deleted" },
};
