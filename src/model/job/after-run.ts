/**
 * What follows when an attempt has ended: the one place where Millrace decides between completed, failed, cancelled,
 * expired and another try. The worker calls it after a handler has ended, the reclaim duty after a lease has.
 *
 *  the attempt            and then                                     the attempt number
 *  returned               completed                                    stays
 *  threw                  retry-scheduled, or failed when exhausted    stays
 *  threw after a cancel   cancelled, never retried                     stays
 *  unrecoverable          failed                                       stays
 *  retry-after            retry-scheduled at that time, or failed      stays
 *  snoozed                scheduled                                    given back
 *  never began: its       failed                                       stays
 *  record is unreadable
 *  lacked a key           scheduled                                    given back
 *  throttled              ready at the closed limit, or scheduled      given back
 *                         for its cooldown; failed when too often      stays
 *  released (shutdown)    ready                                        given back
 *  crashed                reclaimed with backoff, or failed            stays, or given back when it never started
 *
 * A permit job (permit.ts) that comes back has a time-to-live again, because the process that waited for it may be
 * gone.
 */
import {
  appendAttempt,
  appendGivenBack,
  noteHandBack,
  noteThrottle,
  readAttemptLog,
  shortReason,
} from "./attempt-log.ts";
import type { AttemptOutcome, AttemptOutput, ErrorRecord, HandBackNote } from "./attempt-log.ts";
import type { AttemptNext, Due, Finish, HandBack, Schedule } from "./change.ts";
import type { NewEntry } from "../durable/journal-entry.ts";
import { durationText } from "../duration.ts";
import type { EndReason } from "./end-reason.ts";
import type { EventKind } from "../events/event-kind.ts";
import { keepMsOf, keepResultMsOf } from "./job-policy.ts";
import type { DecidedPolicy } from "./job-policy.ts";
import type { JobState, TerminalState } from "./job-state.ts";
import { rankingOf } from "../routing/rank.ts";
import { backoffDelayMs, isRetryable } from "./retry-policy.ts";
import type { BackoffSources } from "./retry-policy.ts";

/** Only the worker knows why a lease was lost, and a crashed worker does not report it. */
export const lostLeases =
  "its lease was lost too often: its worker crashed, was stopped or cut off, or its event loop stood still";

/** The reason of an end as a sentence, which names a crash loop as such. */
export function reasonText({
  state,
  reason,
}: {
  readonly state: JobState;
  readonly reason: string | null;
}): string {
  return state === "failed" && reason === "crash-loop" ? `${reason}, ${lostLeases}` : (reason ?? "no reason");
}

/**
 * How often a job may be reclaimed without having reported a start before each such crash counts as an attempt. Jobs
 * that were prefetched with a poison job are innocent. The poison job itself may crash before it can report, so the
 * number is bounded.
 */
export const unstartedCrashesMax = 5;

export interface EndedAttempt {
  readonly attempt: number;
  readonly policy: DecidedPolicy;
  /** The packed log so far. */
  readonly attempts: string | null;
  readonly cancelAsked: boolean;
}

export interface Sources extends BackoffSources {
  /** How much waiting time one step of priority is worth, for the rank of the next try. */
  readonly strideMs: number;
  /** Store time as the caller knows it. It is only written into the log, never compared. */
  readonly now: number;
  readonly worker: string;
}

export interface Decision {
  readonly next: AttemptNext;
  /** The new packed log; null keeps the old one. */
  readonly attempts: string | null;
  /** For a durable run: its undos have run, so the end is the end. */
  readonly hasUndone?: true;
  /** For a durable run: appended with its end. */
  readonly entry?: NewEntry;
}

/** The last end without a result, kept for reuse: most jobs of a process have one policy. It is never modified. */
let lastReturn: { readonly policy: DecidedPolicy; readonly end: Finish } | null = null;

export function afterReturn(policy: DecidedPolicy, result: string | null): Finish {
  if (result === null) {
    if (lastReturn?.policy !== policy) lastReturn = { policy, end: finish("completed", policy, null, null) };
    return lastReturn.end;
  }
  const end = finish("completed", policy, null, result);
  const keepResultMs = keepResultMsOf(policy);
  return keepResultMs === undefined ? end : { ...end, keepResultMs };
}

export interface Failure {
  readonly outcome: AttemptOutcome;
  readonly error: ErrorRecord;
  readonly waitedUs?: number;
  readonly ranUs?: number;
  readonly output?: AttemptOutput;
  /** Ends the job in failed with this reason, whatever its retry policy says. */
  readonly final?: EndReason<"failed">;
  /** The handler named the time of its next try. */
  readonly retryInMs?: number;
}

export function afterFailure(ended: EndedAttempt, failure: Failure, sources: Sources): Decision {
  const { policy, attempt } = ended;
  const attempts = appendAttempt(ended.attempts, {
    attempt,
    // An error after a requested cancel is the effect of the cancel, not a failure.
    outcome: ended.cancelAsked && failure.outcome === "failed" ? "cancelled" : failure.outcome,
    at: sources.now,
    worker: sources.worker,
    error: failure.error,
    ...(failure.waitedUs === undefined ? {} : { waitedUs: failure.waitedUs }),
    ...(failure.ranUs === undefined ? {} : { ranUs: failure.ranUs }),
    ...(failure.output === undefined ? {} : { output: failure.output }),
  });
  if (ended.cancelAsked) return { next: afterCancelAsked(ended), attempts };
  const reason = failure.final ?? reasonToStop(policy, attempt, failure);
  if (reason !== null) return { next: failed(policy, reason), attempts };
  const delayMs = failure.retryInMs ?? backoffDelayMs(policy.backoff, attempt, failure.error, sources);
  return { next: schedule(policy, delayMs, 1, "retry-scheduled", sources.strideMs), attempts };
}

function reasonToStop(policy: DecidedPolicy, attempt: number, failure: Failure): EndReason<"failed"> | null {
  // A handler that names the time of its next try wants one, whatever its error is called.
  if (failure.retryInMs === undefined && !isRetryable(policy.retryIf, failure.error)) return "not-retryable";
  return attempt >= policy.attempts ? "retries-exhausted" : null;
}

/** After a snooze the job comes again later, and the attempt is given back: it did not fail. */
export function afterSnooze(policy: DecidedPolicy, delayMs: number, strideMs: number): Schedule {
  return schedule(policy, delayMs, 0, "snoozed", strideMs);
}

/** Slow enough that a fleet without the key, or the version, does not spin, fast enough for a rolling change. */
const handBackBackoff = {
  kind: "exponential",
  fromMs: 1000,
  toMs: 60_000,
  factor: 2,
  jitter: "half",
} as const;

/**
 * The worker lacks the key that the input is encrypted with. Another worker may have it, or this one after a restart,
 * so the job comes again and the attempt is given back.
 */
export function afterKeyMissing(ended: EndedAttempt, error: ErrorRecord, sources: Sources): Decision {
  return afterHandBackNoted(ended, { reason: "key-missing", error }, sources);
}

/** The job comes again, for another worker or later, and the attempt is given back. Its log says why. */
export function afterHandBackNoted(
  ended: EndedAttempt,
  { reason, error }: { readonly reason: HandBackNote["reason"]; readonly error: ErrorRecord },
  sources: Sources,
): Decision {
  const { now: at, worker, strideMs } = sources;
  if (ended.cancelAsked) return { next: afterCancelAsked(ended), attempts: null };
  const attempts = noteHandBack(ended.attempts, { reason, at, worker, message: error.message });
  const times = readAttemptLog(attempts).handedBack?.count ?? 1;
  const delayMs = backoffDelayMs(handBackBackoff, times, error, sources);
  return { next: schedule(ended.policy, delayMs, 0, "snoozed", strideMs), attempts };
}

export interface ThrottledEnd {
  readonly limit: string;
  readonly cooldownMs: number;
  /** The limit, or the key, lets no job pass until the cooldown is over. */
  readonly isClosed: boolean;
  /** Set if one key of the limit cools down: whether it is the job's own key. Absent for the whole limit. */
  readonly isOwnKey?: boolean;
  readonly error: ErrorRecord;
  readonly waitedUs?: number;
  readonly ranUs?: number;
}

/**
 * Upstream said "too many", and the limit cools down. A job that uses the closed limit waits at it with its old rank.
 * Any other job would be claimed again at once, so it is scheduled.
 */
export function afterThrottled(ended: EndedAttempt, throttled: ThrottledEnd, sources: Sources): Decision {
  const { limit, cooldownMs, isClosed, isOwnKey, error, ...times } = throttled;
  const { policy, attempt } = ended;
  if (ended.cancelAsked) return { next: afterCancelAsked(ended), attempts: null };
  const { now: at, worker } = sources;
  const noted = noteThrottle(ended.attempts, { limit, at, worker });
  const count = readAttemptLog(noted).throttled?.count ?? 1;
  if (policy.throttlesMax !== null && count > policy.throttlesMax) {
    const failure = { outcome: "failed", error, ...times, final: "throttles-exhausted" } as const;
    return afterFailure({ ...ended, attempts: noted }, failure, sources);
  }
  const entry = { attempt, outcome: "throttled", at, worker, ...times, limit } as const;
  const attempts = appendGivenBack(noted, entry);
  const waitsAtLimit = isClosed && (isOwnKey ?? policy.limits.some(([name]) => name === limit));
  const next: AttemptNext = waitsAtLimit
    ? { to: "ready", event: "throttled", countsAttempt: 0 }
    : schedule(policy, cooldownMs, 0, "throttled", sources.strideMs);
  return { next, attempts };
}

/**
 * A part of the job's own record is unreadable: how often it may run, or what it has done. The job does not run on
 * guesses. It fails, so that operators see it.
 */
export function afterUnreadable(ended: EndedAttempt, parts: readonly string[], sources: Sources): Decision {
  const error = {
    name: "RecordUnreadable",
    message: `Of the job's record cannot be read: ${parts.join(", ")}.`,
  };
  return afterFailure(ended, { outcome: "failed", error, final: "record-unreadable" }, sources);
}

/** What a stopping worker does with an unfinished job: it is claimable again at once, with its old rank. */
export const handBack: HandBack = { to: "ready", event: "handed-back", countsAttempt: 0 };

export function afterHandBack(policy: DecidedPolicy, strideMs: number): AttemptNext {
  return policy.isPermit ? schedule(policy, 0, 0, handBack.event, strideMs) : handBack;
}

export const defaultCancelReason: EndReason<"cancelled"> = "asked";

export function afterCancel(policy: DecidedPolicy, reason: string): Finish {
  return finish("cancelled", policy, shortReason(reason), null);
}

/**
 * The end of a running job whose cancel was requested. The reason is in the attempt log, unless the caller has read an
 * older log.
 */
export function afterCancelAsked(ended: Pick<EndedAttempt, "policy" | "attempts">): Finish {
  return afterCancel(ended.policy, readAttemptLog(ended.attempts).cancelReason ?? defaultCancelReason);
}

export function afterExpiry(policy: DecidedPolicy, clock: "deadline" | "ttl"): Finish {
  const reason: EndReason<"expired"> = clock === "deadline" ? "deadline" : "time-to-live";
  return finish("expired", policy, reason, null);
}

/** The end of a ready job that no worker of its queue has a handler for, once its grace is over. */
export function afterNoHandler(policy: DecidedPolicy): Finish {
  return finish("failed", policy, "no-handler" satisfies EndReason<"failed">, null);
}

/** A budget of the waiting job was spent. */
export function afterBreach(policy: DecidedPolicy, to: "failed" | "cancelled"): Finish {
  const reason: EndReason<"failed" | "cancelled"> = to === "failed" ? "over-budget" : "budget-spent";
  return finish(to, policy, reason, null);
}

/**
 * The lease expired: its worker is gone, paused or cut off. It counts as an attempt if the handler is known to have
 * started.
 */
export function afterCrash(ended: EndedAttempt, started: boolean, sources: Sources): Decision {
  const { policy, attempt } = ended;
  const earlier = readAttemptLog(ended.attempts).entries.filter((entry) => entry.unstarted === true).length;
  const isGivenBack = !started && earlier < unstartedCrashesMax;
  const attempts = appendAttempt(ended.attempts, {
    attempt,
    outcome: "lease-expired",
    at: sources.now,
    worker: sources.worker,
    ...(started ? {} : { unstarted: true }),
  });
  if (ended.cancelAsked) return { next: afterCancelAsked(ended), attempts };
  if (isGivenBack) return { next: schedule(policy, 0, 0, "reclaimed", sources.strideMs), attempts };
  if (attempt >= policy.attempts) return { next: failed(policy, "crash-loop"), attempts };
  const delayMs = backoffDelayMs(policy.backoff, attempt, { name: "Crash" }, sources);
  return { next: schedule(policy, delayMs, 1, "reclaimed", sources.strideMs), attempts };
}

/**
 * The worker renewed the lease, but the attempt ran longer than its timeout. The duty ends it, and the worker's later
 * settle is refused.
 */
export function afterTimeout(ended: EndedAttempt, sources: Sources): Decision {
  const timeoutMs = ended.policy.timeoutMs ?? 0;
  const error: ErrorRecord = {
    name: "AttemptTimeout",
    message: `The attempt ran longer than its timeout of ${durationText(timeoutMs)}.`,
  };
  return afterFailure(ended, { outcome: "timed-out", error }, sources);
}

function finish(
  to: TerminalState,
  policy: DecidedPolicy,
  reason: string | null,
  result: string | null,
): Finish {
  return { to, event: to, reason, result, keepMs: keepMsOf(policy, to) };
}

/**
 * The end of a job that failed while it ran. A job that goes on holding its group is kept until it is replayed or
 * deleted.
 */
function failed(policy: DecidedPolicy, reason: EndReason<"failed">): Finish {
  const end = finish("failed", policy, reason, null);
  return policy.holdsGroupFailed ? { ...end, keepMs: null, keepsLane: true } : end;
}

/** The end of a durable run whose undos have run. */
export function finishAs(
  policy: DecidedPolicy,
  to: "failed" | "cancelled" | "expired",
  reason: string,
): Finish {
  return to === "failed" ? failed(policy, reason as EndReason<"failed">) : finish(to, policy, reason, null);
}

function schedule(
  policy: DecidedPolicy,
  delayMs: number,
  countsAttempt: 0 | 1,
  event: EventKind,
  strideMs: number,
): Schedule {
  return { ...scheduleOf(policy, { inMs: delayMs }, event, strideMs), countsAttempt };
}

/** The job waits again; its attempt is given back. */
export function scheduleOf(policy: DecidedPolicy, due: Due, event: EventKind, strideMs: number): Schedule {
  return {
    to: "scheduled",
    event,
    due,
    ...rankingOf(policy, strideMs),
    countsAttempt: 0,
    ttlMs: policy.isPermit ? policy.ttlMs : null,
    ...(policy.holdsGroup ? { keepsLane: true } : {}),
  };
}
