/**
 * The reason of a running job's cancel. A worker learns only that a cancel was requested, by a hint or by the answer to
 * a renewal or a settle. The reason is in the job's record. It is read while the handler ends, and the settle waits for
 * it.
 */
import type { Needs } from "../../engine/services.ts";
import { afterCancelAsked } from "../../model/job/after-run.ts";
import type { Decision } from "../../model/job/after-run.ts";
import { noteCancelReason, readAttemptLog } from "../../model/job/attempt-log.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Attempt } from "../run/attempt.ts";

export function learnCancelReason(needs: Needs<"reads">, attempt: Attempt): void {
  if (attempt.cancelAsked) return;
  attempt.cancelAsked = true;
  attempt.callBegins();
  const { id, seq, fence } = attempt.job;
  const learned = (record: JobRecord | null): void => {
    if (record?.seq === seq && record.fence === fence) attempt.cancelLog = record.attempts;
    attempt.callEnds();
  };
  needs.reads.push(id, { answered: learned, failed: () => learned(null) });
}

/**
 * For a job that is cancelled without its handler: it has not started, or its end was refused because of the cancel.
 */
export function cancelDecision({ policy, cancelLog }: Attempt): Decision {
  return { next: afterCancelAsked({ policy, attempts: cancelLog }), attempts: null };
}

/**
 * Puts the reason of the cancel into the decision about an attempt. The decision was made when the handler ended, maybe
 * before the reason was known, from the attempt log of the claim, which does not have the reason.
 */
export function withCancelReason(attempt: Attempt, decision: Decision): Decision {
  const { policy, cancelLog } = attempt;
  if (decision.next.to !== "cancelled") return decision;
  const { cancelReason } = readAttemptLog(cancelLog);
  const { attempts } = decision;
  return {
    next: afterCancelAsked({ policy, attempts: cancelLog }),
    attempts:
      attempts === null || cancelReason === undefined ? attempts : noteCancelReason(attempts, cancelReason),
  };
}
