/**
 * What becomes of a run at the end of a stay, beside what becomes of any job after an attempt (model/job/after-run.ts).
 *
 *   rests                 suspended, or scheduled; its attempts count anew
 *   continues             a new round with another input
 *   is replayed, and was  a new round with the same input
 *   over before
 *   diverged              failed
 *   an entry is unasked   handed back once, then failed as diverged
 *   its version is gone   scheduled: another worker may have the code
 *   its journal is full   failed
 */
import { afterFailure, afterHandBackNoted, finishAs, scheduleOf } from "../job/after-run.ts";
import type { Decision, EndedAttempt, Sources } from "../job/after-run.ts";
import { readAttemptLog } from "../job/attempt-log.ts";
import type { Schedule, Suspend } from "../job/change.ts";
import type { DecidedPolicy } from "../job/job-policy.ts";
import { differenceText } from "./journal-cursor.ts";
import type { Difference } from "./journal-cursor.ts";
import type { RestPlan } from "./rest-plan.ts";
import type { Ending } from "./undo-plan.ts";

/** A run that rests has failed at nothing: its next claim is a first attempt. */
const countsAnew = { attempt: 0, countsAttempt: 1 } as const;

export function afterRest(
  policy: DecidedPolicy,
  { as, wake }: RestPlan,
  strideMs: number,
): Suspend | Schedule {
  const keepsLane = policy.holdsGroup ? { keepsLane: true as const } : {};
  if (as === "suspended" || wake === null)
    return { to: "suspended", event: "suspended", wake, ...countsAnew, ...keepsLane };
  return { ...scheduleOf(policy, wake, "snoozed", strideMs), ...countsAnew };
}

/** The run goes on with a new round: another input and an empty journal, but for signals that nobody has read. */
export function afterContinue(policy: DecidedPolicy, input: string, strideMs: number): Schedule {
  return { ...beginAnew(policy, strideMs), edit: { input } };
}

/** The run begins a new round with the same input. */
export function beginAnew(policy: DecidedPolicy, strideMs: number): Schedule {
  const due = { inMs: 0 };
  return { ...scheduleOf(policy, due, "resumed", strideMs), ...countsAnew, newRound: true };
}

export function afterDiverged(ended: EndedAttempt, difference: Difference, sources: Sources): Decision {
  const error = { name: "RunDiverged", message: differenceText(difference) };
  return afterFailure(ended, { outcome: "failed", error, final: "diverged" }, sources);
}

/** The code may only be slow: it has one more stay. */
export function afterUnasked(ended: EndedAttempt, difference: Difference, sources: Sources): Decision {
  if (readAttemptLog(ended.attempts).handedBack?.reason === "unasked")
    return afterDiverged(ended, difference, sources);
  return afterHandBackNoted(
    ended,
    { reason: "unasked", error: { name: "Unasked", message: differenceText(difference) } },
    sources,
  );
}

/** This worker lacks the version of the handler that the run began with. */
export function afterVersionMissing(ended: EndedAttempt, version: number, sources: Sources): Decision {
  const message = `The run began with version ${version} of the handler, which this worker does not have.`;
  return afterHandBackNoted(
    ended,
    { reason: "version-missing", error: { name: "VersionMissing", message } },
    sources,
  );
}

export function afterJournalFull(ended: EndedAttempt, sources: Sources): Decision {
  const error = {
    name: "JournalFull",
    message: "The journal of the run is full: begin a new round in time by step.continueWith(input).",
    code: "journal-full",
  };
  return afterFailure(ended, { outcome: "failed", error, final: "journal-full" }, sources);
}

/** Its undos have run, or there were none. @param attempts the attempt log with the error that ended it. */
export function afterUndos(policy: DecidedPolicy, ending: Ending, attempts: string | null): Decision {
  return { next: finishAs(policy, ending.state, ending.reason), attempts, hasUndone: true };
}
