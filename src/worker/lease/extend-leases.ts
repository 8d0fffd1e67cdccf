/**
 * The one place that extends leases: for the renewal, which extends those of many attempts at once, and for a handler
 * that extends its own. The answer is applied here: an attempt whose lease is gone is aborted, and a requested cancel
 * is passed on.
 */
import type { Needs } from "../../engine/services.ts";
import { answersWithin } from "../../engine/calls/settles-within.ts";
import { MillraceError } from "../../model/error.ts";
import type { Extend, ExtendAnswer } from "../../store/operations.ts";
import type { Attempt } from "../run/attempt.ts";

type ExtendLeasesNeeds = Needs<"store" | "platform">;

/** The duty's timeout comes this much later than the worker's own timeout and abort grace. */
const backstopSlackMs = 5000;
/** A call gets at least this long, even if a lease ends sooner: a call without time to answer renews nothing. */
const answerMinMs = 100;
/** A call without an answer after this time counts as lost. */
const callMaxMs = 90_000;

export interface LeaseExtension {
  readonly owner: string;
  /** Counted from now; a lease is never made shorter. */
  readonly leaseMs: number;
  readonly attempts: readonly Attempt[];
  /** Also report to the store which of these handlers have really started, so that a crash counts as their attempt. */
  readonly reportsStarts: boolean;
  /** Also ask for leases of this owner that are not in `attempts`. */
  readonly wantsOthers: boolean;
}

/**
 * The answer is applied however late it comes, because these leases are not sent again before the store has answered.
 */
export async function extendLeases(
  needs: ExtendLeasesNeeds,
  extension: LeaseExtension,
): Promise<ExtendAnswer> {
  const { platform, store } = needs;
  const { owner, leaseMs, attempts, reportsStarts, wantsOthers } = extension;
  const sentUs = platform.monotonicUs();
  const leases = attempts.map((attempt) => readExtend(attempt, reportsStarts ? sentUs : null));
  for (const attempt of attempts) attempt.isBeingExtended = true;
  let answer: ExtendAnswer;
  try {
    const call = store.extendIfLeased({ owner, leaseMs, leases, wantsOthers });
    answer = await answersWithin(platform, call, callMaxMs);
  } finally {
    for (const attempt of attempts) attempt.isBeingExtended = false;
  }
  for (const [index, attempt] of attempts.entries()) {
    // The attempt was settled or lost meanwhile: that answer counts.
    if (!attempt.isHeld) continue;
    if (isGone(answer.answers[index])) {
      if (attempt.phase !== "settling") attempt.origin.aborting.leaseLost(attempt);
      continue;
    }
    if (answer.answers[index] === "unknown") continue;
    attempt.leaseExtended(sentUs + leaseMs * 1000);
    if (leases[index]?.startedAgoMs !== undefined) attempt.isStartReported = true;
    if (answer.answers[index] === "cancel-asked") attempt.origin.aborting.cancelAsked(attempt);
  }
  if (answer.grown !== undefined) {
    const grown = new Set(answer.grown);
    for (const { job, stay } of attempts) if (grown.has(job.id)) stay?.heard();
  }
  return answer;
}

/**
 * Waits for the answer until the first of the leases ends, because then their handlers must be aborted.
 *
 * @param endUs monotonic.
 */
export function answerBy<Value>(
  { platform }: Needs<"platform">,
  endUs: number,
  extending: Promise<Value>,
): Promise<Value> {
  const leftMs = (endUs - platform.monotonicUs()) / 1000;
  return answersWithin(platform, extending, Math.max(answerMinMs, leftMs));
}

/** Throws `lease-lost` if the attempt no longer holds its lease. */
export async function extendByHand(
  needs: ExtendLeasesNeeds,
  attempt: Attempt,
  leaseMs: number,
): Promise<void> {
  const { owner, leaseEndsUs } = attempt;
  const extension = { owner, leaseMs, attempts: [attempt], reportsStarts: false, wantsOthers: false };
  const { answers } = await answerBy(needs, leaseEndsUs, extendLeases(needs, extension));
  if (isGone(answers[0]))
    throw new MillraceError("lease-lost", `The job ${attempt.job.id} is no longer leased to this attempt.`);
  if (answers[0] === "unknown")
    throw new MillraceError(
      "outcome-unknown",
      `The lease of the job ${attempt.job.id} is not known to be extended.`,
    );
}

function isGone(answer: ExtendAnswer["answers"][number] | undefined): boolean {
  return answer === "stale" || answer === "gone";
}

/** @param reportUs the present time, if starts are reported; else null. */
function readExtend(attempt: Attempt, reportUs: number | null): Extend {
  const { id, seq, fence } = attempt.job;
  const seen = attempt.stay === null ? {} : { seen: attempt.stay.known };
  if (reportUs === null || attempt.phase !== "running" || attempt.isStartReported)
    return { id, seq, fence, ...seen };
  const startedAgoMs = Math.max(0, Math.round((reportUs - attempt.startedUs) / 1000));
  const { timeoutMs } = attempt.policy;
  const attemptEndsInMs =
    timeoutMs === null ? null : timeoutMs - startedAgoMs + attempt.origin.aborting.graceMs + backstopSlackMs;
  return { id, seq, fence, startedAgoMs, attemptEndsInMs, ...seen };
}
