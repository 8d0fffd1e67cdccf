/**
 * Logs attempts that did not complete: one warning per failed attempt, one error per final failure, and one warning for
 * a job whose key or version is missing here, however often it comes again.
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
  if (next.event === "snoozed") return describeHandBack(log, attempt, decision, { queue, name });
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

function describeHandBack(
  log: Logger,
  { job }: Attempt,
  { attempts }: Decision,
  title: { readonly queue: string | undefined; readonly name: string | undefined },
): void {
  const note = readAttemptLog(attempts).handedBack;
  if (note === undefined) return;
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
