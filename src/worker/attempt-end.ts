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
 *   nobody             completed, snoozed, cancelled    a failed attempt, snoozed, cancelled
 */
import type { JobDefinition } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";
import { modelSources } from "../engine/model-sources.ts";
import {
  afterCancel,
  afterExpiry,
  afterFailure,
  afterReturn,
  afterSnooze,
  handBack,
} from "../model/after-run.ts";
import type { Decision, EndReason } from "../model/after-run.ts";
import { describeError } from "../model/attempt-log.ts";
import type { Attempt } from "./attempt.ts";
import { Cancel, RetryAfter, Snooze, Unrecoverable } from "./control.ts";
import { RefusedPayload, encodeResult, shownError } from "./payloads.ts";

/** Null: nothing to settle, because the lease is gone. */
export type AttemptEnd = Decision | null;

export const handedBack: Decision = { next: handBack, attempts: null };

/** The handler gave something back. A promise only where the result's schema answers with one. */
export function endByReturn(
  engine: Engine,
  attempt: Attempt,
  definition: JobDefinition,
  value: unknown,
): AttemptEnd | Promise<AttemptEnd> {
  if (value instanceof Snooze || value instanceof Cancel || value instanceof Error)
    return endByThrow(engine, attempt, value);
  const { abortReason } = attempt;
  if (abortReason === "lease-lost") return null;
  if (abortReason === "timeout" || abortReason === "deadline")
    return endByThrow(engine, attempt, attempt.signal.reason);
  try {
    const result = encodeResult(engine, attempt, definition, value);
    if (!(result instanceof Promise)) return completed(attempt, result);
    return result.then(
      (encoded) => completed(attempt, encoded),
      (error: unknown) => endByThrow(engine, attempt, error),
    );
  } catch (error) {
    return endByThrow(engine, attempt, error);
  }
}

/** The handler threw, or was made to stop. */
export function endByThrow(engine: Engine, attempt: Attempt, thrown: unknown): AttemptEnd {
  const { policy, job, abortReason } = attempt;
  const { strideMs } = engine.settings;
  if (abortReason === "lease-lost") return null;
  if (abortReason === "shutdown") return handedBack;
  if (abortReason === "deadline") return { next: afterExpiry(policy, "deadline"), attempts: null };
  if (!attempt.cancelAsked) {
    if (thrown instanceof Snooze)
      return { next: afterSnooze(policy, thrown.delayMs, strideMs), attempts: null };
    if (thrown instanceof Cancel) return { next: afterCancel(policy, thrown.reason), attempts: null };
  }
  const ended = { attempt: job.attempt, policy, attempts: job.attempts, cancelAsked: attempt.cancelAsked };
  const nowUs = engine.platform.monotonicUs();
  const ranUs = attempt.startedUs === 0 ? 0 : nowUs - attempt.startedUs;
  // Store time as well as this worker knows it: the claim's time plus how long it has held the job.
  const now = job.claimedAt + Math.round((nowUs - attempt.claimedUs) / 1000);
  const final = finalReason(thrown);
  const retryInMs = thrown instanceof RetryAfter ? delayOf(thrown, now) : undefined;
  return afterFailure(
    ended,
    {
      outcome: attempt.isAbandoned ? "abandoned" : abortReason === "timeout" ? "timed-out" : "failed",
      error: describeError(shownError(thrown)),
      ranUs,
      ...(final === undefined ? {} : { final }),
      ...(retryInMs === undefined ? {} : { retryInMs }),
    },
    modelSources(engine, now, attempt.owner),
  );
}

function completed({ policy }: Attempt, result: string | null): Decision {
  return { next: afterReturn(policy, result), attempts: null };
}

function finalReason(thrown: unknown): EndReason | undefined {
  if (thrown instanceof Unrecoverable) return "unrecoverable";
  return thrown instanceof RefusedPayload ? thrown.reason : undefined;
}

function delayOf({ due }: RetryAfter, now: number): number {
  return "inMs" in due ? due.inMs : Math.max(0, due.at - now);
}
