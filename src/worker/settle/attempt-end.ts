/**
 * Decides what follows from the end of an attempt. The handler's return value or error and the reason for which it was
 * aborted become a decision of the model. The reason comes first:
 *
 *   aborted by         the handler returned             the handler threw, or ignored its signal
 *   lease-lost         nothing to settle                nothing to settle
 *   shutdown           completed                        handed back, uses up no attempt
 *   deadline           expired                          expired
 *   timeout            a failed attempt                 a failed attempt
 *   cancel             completed                        cancelled
 *   not aborted        completed, snoozed, cancelled    a failed attempt, snoozed, throttled, cancelled
 *
 * If this worker lacks the key of an input, the handler is not called: the job comes again later, and no attempt is
 * used up.
 *
 * Throttled: first the limit, or one key of it, is closed for all processes. Then the job goes back, so that it is not
 * claimed again before the cooldown. If the limit cannot be closed, or the store does not know it, only the job waits.
 * An unknown limit is a mistake of the handler, but upstream was busy all the same: no attempt is used up.
 */
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import { modelSources } from "../../engine/policies/model-sources.ts";
import {
  afterCancel,
  afterExpiry,
  afterFailure,
  afterHandBack,
  afterKeyMissing,
  afterReturn,
  afterSnooze,
  afterThrottled,
  afterUnreadable,
} from "../../model/job/after-run.ts";
import type { Decision, EndedAttempt, ThrottledEnd } from "../../model/job/after-run.ts";
import {
  appendAttempt,
  appendGivenBack,
  describeError,
  noteCompletion,
} from "../../model/job/attempt-log.ts";
import type { AttemptOutcome } from "../../model/job/attempt-log.ts";
import type { Due, SettleNext } from "../../model/job/change.ts";
import type { EndReason } from "../../model/job/end-reason.ts";
import { isMillraceError } from "../../model/error.ts";
import { limitGateKey } from "../../model/limits/gate.ts";
import { gateOfLimit, keyOfGate } from "../../model/routing/lane.ts";
import { keyUsesOf } from "../../store/rules/gates/lane-change.ts";
import type { Attempt } from "../run/attempt.ts";
import { controlOf } from "../control.ts";
import type { Control } from "../control.ts";
import { RefusedPayload, encodeResult, shownError } from "../run/payloads.ts";

export type AttemptEndNeeds = Needs<
  "platform" | "log" | "repeated" | "limits" | "strideMs" | "backoffs" | "reads"
>;

/** Errors of a throttle that are mistakes in the handler or in a definition. */
const throttleMistakes = ["limit-conflict", "invalid-option"] as const;
/** The wait of a job if its limit could not be closed and upstream named no time. */
const unclosedMs = 1000;

/** Of a durable run: its settle was applied already. */
export interface Rested {
  readonly rested: SettleNext;
}

/** Null: nothing to settle, because the lease is gone. */
export type AttemptEnd = Decision | Rested | null;

/** The job goes back unfinished, and no attempt is used up. */
export function handedBack(needs: Needs<"strideMs">, { policy }: Attempt): Decision {
  return { next: afterHandBack(policy, needs.strideMs), attempts: null };
}

/** The handler returned. The answer is a promise only if the result's schema returns one, or for a throttle. */
export function endByReturn(
  needs: Needs<"platform" | "log" | "repeated" | "limits" | "coder" | "strideMs" | "backoffs" | "reads">,
  attempt: Attempt,
  definition: JobDefinition,
  value: unknown,
): AttemptEnd | Promise<AttemptEnd> {
  if (controlOf(value) !== null || isError(value)) return endByThrow(needs, attempt, value);
  const { abortReason } = attempt;
  if (abortReason === "lease-lost") return null;
  if (abortReason === "timeout" || abortReason === "deadline")
    return endByError(needs, attempt, attempt.signal.reason);
  try {
    const result = encodeResult(needs, attempt, definition, value);
    if (!(result instanceof Promise)) return completed(needs, attempt, result);
    return result.then(
      (encoded) => completed(needs, attempt, encoded),
      (error: unknown) => endByError(needs, attempt, error),
    );
  } catch (error) {
    return endByError(needs, attempt, error);
  }
}

/** The handler threw. The answer is a promise only for a throttle. The reason of an abort comes before a throttle. */
export function endByThrow(
  needs: AttemptEndNeeds,
  attempt: Attempt,
  thrown: unknown,
): AttemptEnd | Promise<AttemptEnd> {
  const control = controlOf(thrown);
  return control?.kind === "throttled" && attempt.abortReason === null && !attempt.cancelAsked
    ? endThrottled(needs, attempt, control, thrown)
    : endByError(needs, attempt, thrown);
}

/** The attempt has failed with this error, or was aborted. @param endsAs if the job must not be tried again. */
export function endByError(
  needs: Needs<"platform" | "repeated" | "strideMs" | "backoffs">,
  attempt: Attempt,
  thrown: unknown,
  endsAs?: EndReason<"failed">,
): Decision | null {
  const { policy, job, abortReason } = attempt;
  const { strideMs } = needs;
  if (abortReason === "lease-lost") return null;
  if (abortReason === "shutdown") return handedBack(needs, attempt);
  const nowUs = needs.platform.monotonicUs();
  attempt.ended(nowUs);
  const { waitedUs, ranUs } = attempt;
  const times = { waitedUs, ranUs };
  const printed = attempt.output === null ? {} : { output: attempt.output };
  const now = attempt.storeTimeAt(nowUs);
  const noted = (outcome: AttemptOutcome): string =>
    (outcome === "snoozed" ? appendGivenBack : appendAttempt)(job.attempts, {
      ...{ attempt: job.attempt, outcome, at: now, worker: attempt.owner },
      ...times,
      ...printed,
    });
  if (abortReason === "deadline")
    return { next: afterExpiry(policy, "deadline"), attempts: noted("expired") };
  const control = controlOf(thrown);
  if (!attempt.cancelAsked) {
    if (control?.kind === "snooze")
      return { next: afterSnooze(policy, control.delayMs, strideMs), attempts: noted("snoozed") };
    if (control?.kind === "cancel")
      return { next: afterCancel(policy, control.reason), attempts: noted("cancelled") };
  }
  const ended = endedOf(attempt);
  const sources = modelSources(needs, now, attempt.owner);
  const error = describeError(shownError(thrown));
  const refused = RefusedPayload.is(thrown) ? thrown.reason : undefined;
  if (refused === "key-missing") return afterKeyMissing(ended, error, sources);
  const isTriedAgain = refused === "invalid-input" && policy.retriesInvalidInput;
  const final =
    endsAs ?? (control?.kind === "unrecoverable" ? "unrecoverable" : isTriedAgain ? undefined : refused);
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

async function endThrottled(
  needs: AttemptEndNeeds,
  attempt: Attempt,
  { limit, key: named, due }: Control & { readonly kind: "throttled" },
  outcome: unknown,
): Promise<AttemptEnd> {
  const nowUs = needs.platform.monotonicUs();
  attempt.ended(nowUs);
  const { waitedUs, ranUs } = attempt;
  const now = attempt.storeTimeAt(nowUs);
  const saidMs = due === null ? null : delayOf(due, now);
  const name = typeof limit === "string" ? limit : limit.name;
  const decide = (cooldownMs: number, ended: Pick<ThrottledEnd, "isClosed" | "isOwnKey">): AttemptEnd =>
    afterThrottled(
      endedOf(attempt),
      { limit: name, cooldownMs, ...ended, error: describeError(outcome), waitedUs, ranUs },
      modelSources(needs, now, attempt.owner),
    );
  try {
    if (typeof limit !== "string") await needs.limits.define([{ limit }]);
    const own = named === null ? null : await ownKeyOf(needs, attempt, name);
    const key = named === undefined ? own : named;
    const cooldownMs = await needs.limits.throttle(name, key, saidMs);
    const scope = key === null ? {} : { key };
    const { id } = attempt.job;
    needs.log.info("a limit was throttled and cools down", { limit: name, ...scope, cooldownMs, id });
    return decide(cooldownMs, { isClosed: true, ...(key === null ? {} : { isOwnKey: key === own }) });
  } catch (error) {
    if (throttleMistakes.some((code) => isMillraceError(error, code)))
      return endByError(needs, attempt, error);
    const message = isMillraceError(error, "unknown-limit")
      ? "a handler throttled a limit that the store does not know; its job alone waits"
      : "a throttled limit could not be closed; its job alone waits";
    needs.repeated.say("warn", message, { limit: name, error });
    return decide(saidMs ?? unclosedMs, { isClosed: false });
  }
}

/** The key of this limit that the job takes from. The claim brings the keys, unless its reply was lost. */
async function ownKeyOf(needs: Needs<"reads">, { job }: Attempt, limit: string): Promise<string | null> {
  const keys =
    job.keyGates ?? keyUsesOf((await needs.reads.add(job.id)) ?? { laneGates: null }).map(({ key }) => key);
  const own = keys.find((key) => gateOfLimit(key) === limitGateKey(limit));
  return own === undefined ? null : keyOfGate(own);
}

/** The end of an attempt that never began, because parts of the job's record cannot be read. */
export function endUnreadable(
  needs: Needs<"platform" | "repeated" | "strideMs" | "backoffs">,
  attempt: Attempt,
  parts: readonly string[],
): Decision {
  return afterUnreadable(endedOf(attempt), parts, modelSources(needs, attempt.job.claimedAt, attempt.owner));
}

export function endedOf({ job, policy, cancelAsked }: Attempt): EndedAttempt {
  return { attempt: job.attempt, policy, attempts: job.attempts, cancelAsked };
}

/** The completion of an attempt that ends now. */
export function completed(needs: Needs<"platform">, attempt: Attempt, result: string | null): Decision {
  const { policy, job } = attempt;
  attempt.ended(needs.platform.monotonicUs());
  const { waitedUs, ranUs, output } = attempt;
  const attempts = noteCompletion(job.attempts, { attempt: job.attempt, waitedUs, ranUs, output });
  return { next: afterReturn(policy, result), attempts };
}

/** Never throws, even for a Proxy whose traps throw. */
function isError(value: unknown): boolean {
  try {
    return value instanceof Error;
  } catch {
    return false;
  }
}

function delayOf(due: Due, now: number): number {
  return "inMs" in due ? due.inMs : Math.max(0, due.at - now);
}
