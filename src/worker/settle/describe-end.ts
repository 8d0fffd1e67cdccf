/**
 * Logs attempts that did not complete: one warning per failed attempt, one error per final failure, one line for an
 * attempt that is snoozed or throttled, and one warning for a job whose key or version is missing here. However often
 * such a job comes again, the further lines are for debugging.
 */
import type { Logger } from "../../engine/log/logger.ts";
import type { Decision } from "../../model/job/after-run.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import type { ErrorRecord, HandBackNote } from "../../model/job/attempt-log.ts";
import { durationText } from "../../model/duration.ts";
import type { Attempt } from "../run/attempt.ts";

export function describeEnd(
  log: Logger,
  attempt: Attempt,
  decision: Decision,
  { queue, name }: { readonly queue?: string; readonly name?: string },
): void {
  const { next } = decision;
  if (next.event === "snoozed" || next.event === "throttled")
    return describeGivenBack(log, attempt, decision, { queue, name });
  if (next.event !== "failed" && next.event !== "retry-scheduled") return;
  const { job, policy } = attempt;
  const error = readAttemptLog(decision.attempts).entries.at(-1)?.error;
  const stack = error?.stack === undefined ? {} : { stack: error.stack };
  const fields = { id: job.id, name, queue, cause: causeChain(error), ...stack };
  const which = `attempt ${job.attempt} of ${policy.attempts}`;
  if (next.to === "failed") log.error(`job failed for good: ${next.reason} (${which})`, fields);
  else if (next.to === "scheduled") {
    const when = "inMs" in next.due ? `in ${durationText(next.due.inMs)}` : "at its time";
    log.warn(`${which} failed, next try ${when}`, fields);
  }
}

function describeGivenBack(
  log: Logger,
  { job }: Attempt,
  { attempts }: Decision,
  title: { readonly queue: string | undefined; readonly name: string | undefined },
): void {
  const { handedBack: note, entries } = readAttemptLog(attempts);
  if (note === undefined) {
    const last = entries.at(-1);
    if (last === undefined || attempts === null) return;
    const { outcome, count: times = 1, limit } = last;
    const of = { id: job.id, ...title, count: times, ...(limit === undefined ? {} : { limit }) };
    const said = `attempt ${last.attempt} ${outcome}; it is given back, and the job comes again`;
    return times === 1 ? log.info(said, of) : log.debug(said, of);
  }
  const { reason, count, message } = note;
  const line = `job handed back: ${reason}; ${untils[reason]}`;
  const fields = { id: job.id, ...title, count, message };
  if (count === 1) log.warn(line, fields);
  else log.debug(line, fields);
}

const untils: Readonly<Record<HandBackNote["reason"], string>> = {
  "key-missing": "it comes again until a worker has the key",
  "version-missing": "it comes again until a worker has the version of its handler",
  unasked: "its handler did not ask for what its journal holds; it has one more try",
};

function causeChain(error: ErrorRecord | undefined): string {
  const chain: string[] = [];
  for (let each = error; each !== undefined; each = each.cause) chain.push(`${each.name}: ${each.message}`);
  return chain.join(" <- ");
}
