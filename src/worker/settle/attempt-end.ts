/**
 * What the end of an attempt means: whatever its handler returned or threw, together with the reason for which it was
 * told to stop, becomes a decision of the model. The reason comes first:
 *
 *   told to stop by    the handler returned             the handler threw, or ignored its signal
 *   lease-lost         nothing to settle                nothing to settle
 *   shutdown           completed                        handed back, without burning an attempt
 *   deadline           expired                          expired
 *   timeout            a failed attempt                 a failed attempt
 *   cancel             completed                        cancelled
 *   nobody             completed, snoozed, cancelled    a failed attempt, snoozed, throttled, cancelled
 *
 * An input whose key this worker lacks never reaches the handler: the job comes again later, and no attempt is burnt.
 */
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Engine } from "../../engine/engine.ts";
import { modelSources } from "../../engine/policies/model-sources.ts";
import {
  afterCancel,
  afterExpiry,
  afterFailure,
  afterHandBack,
  afterKeyMissing,
  afterReturn,
  afterSnooze,
  afterUnreadable,
} from "../../model/job/after-run.ts";
import type { Decision, EndedAttempt } from "../../model/job/after-run.ts";
import { appendAttempt, describeError, noteCompletion } from "../../model/job/attempt-log.ts";
import type { AttemptOutcome } from "../../model/job/attempt-log.ts";
import type { Due } from "../../model/job/change.ts";
import type { Attempt } from "../run/attempt.ts";
import { controlOf } from "../control.ts";
import { RefusedPayload, encodeResult, shownError } from "../run/payloads.ts";

/** Null: nothing to settle, because the lease is gone. */
export type AttemptEnd = Decision | null;

/** The job goes back unfinished, and no attempt is burnt. */
export function handedBack(engine: Engine, { policy }: Attempt): Decision {
  return { next: afterHandBack(policy, engine.strideMs), attempts: null };
}

/** The handler gave something back. A promise only where the result's schema answers with one. */
export function endByReturn(
  engine: Engine,
  attempt: Attempt,
  definition: JobDefinition,
  value: unknown,
): AttemptEnd | Promise<AttemptEnd> {
  if (controlOf(value) !== null || isError(value)) return endByThrow(engine, attempt, value);
  const { abortReason } = attempt;
  if (abortReason === "lease-lost") return null;
  if (abortReason === "timeout" || abortReason === "deadline")
    return endByThrow(engine, attempt, attempt.signal.reason);
  try {
    const result = encodeResult(engine, attempt, definition, value);
    if (!(result instanceof Promise)) return completed(engine, attempt, result);
    return result.then(
      (encoded) => completed(engine, attempt, encoded),
      (error: unknown) => endByThrow(engine, attempt, error),
    );
  } catch (error) {
    return endByThrow(engine, attempt, error);
  }
}

/** The handler threw, or was made to stop. */
export function endByThrow(engine: Engine, attempt: Attempt, thrown: unknown): AttemptEnd {
  const { policy, job, abortReason } = attempt;
  const { strideMs } = engine;
  if (abortReason === "lease-lost") return null;
  if (abortReason === "shutdown") return handedBack(engine, attempt);
  const nowUs = engine.platform.monotonicUs();
  attempt.ended(nowUs);
  const { waitedUs, ranUs } = attempt;
  const times = { waitedUs, ranUs };
  const printed = attempt.output === null ? {} : { output: attempt.output };
  const now = attempt.storeTimeAt(nowUs);
  const noted = (outcome: AttemptOutcome): string =>
    appendAttempt(job.attempts, {
      ...{ attempt: job.attempt, outcome, at: now, worker: attempt.owner },
      ...times,
      ...printed,
    });
  if (abortReason === "deadline")
    return { next: afterExpiry(policy, "deadline"), attempts: noted("expired") };
  const control = controlOf(thrown);
  if (!attempt.cancelAsked) {
    if (control?.kind === "snooze")
      return { next: afterSnooze(policy, control.delayMs, strideMs), attempts: null };
    if (control?.kind === "cancel")
      return { next: afterCancel(policy, control.reason), attempts: noted("cancelled") };
  }
  const ended = endedOf(attempt);
  const sources = modelSources(engine, now, attempt.owner);
  const error = describeError(shownError(thrown));
  const refused = RefusedPayload.is(thrown) ? thrown.reason : undefined;
  if (refused === "key-missing") return afterKeyMissing(ended, error, sources);
  const isTriedAgain = refused === "invalid-input" && policy.retriesInvalidInput;
  const final = control?.kind === "unrecoverable" ? "unrecoverable" : isTriedAgain ? undefined : refused;
  const retryInMs = control?.kind === "retry-after" ? delayOf(control.due, now) : undefined;
  return afterFailure(
    ended,
    {
      outcome: attempt.isAbandoned ? "abandoned" : abortReason === "timeout" ? "timed-out" : "failed",
      error,
      ...times,
      ...printed,
      ...(final === undefined ? {} : { final }),
      ...(retryInMs === undefined ? {} : { retryInMs }),
    },
    sources,
  );
}

/** The end of an attempt that never began, because parts of the job's record cannot be read. */
export function endUnreadable(engine: Engine, attempt: Attempt, parts: readonly string[]): Decision {
  return afterUnreadable(endedOf(attempt), parts, modelSources(engine, attempt.job.claimedAt, attempt.owner));
}

export function endedOf({ job, policy, cancelAsked }: Attempt): EndedAttempt {
  return { attempt: job.attempt, policy, attempts: job.attempts, cancelAsked };
}

/** The completion of an attempt that ends now. */
export function completed(engine: Engine, attempt: Attempt, result: string | null): Decision {
  const { policy, job } = attempt;
  attempt.ended(engine.platform.monotonicUs());
  const { waitedUs, ranUs, output } = attempt;
  const attempts = noteCompletion(job.attempts, { attempt: job.attempt, waitedUs, ranUs, output });
  return { next: afterReturn(policy, result), attempts };
}

/** Never throws, also for a Proxy whose traps do. */
function isError(value: unknown): boolean {
  try {
    return value instanceof Error;
  } catch {
    return false;
  }
}

export function delayOf(due: Due, now: number): number {
  return "inMs" in due ? due.inMs : Math.max(0, due.at - now);
}
