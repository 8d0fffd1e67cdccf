/** The log lines about attempts that did not complete: one warning per failed attempt, one error per final failure. */
import type { Engine } from "../engine/engine.ts";
import type { Decision } from "../model/after-run.ts";
import { readAttemptLog } from "../model/attempt-log.ts";
import type { ErrorRecord } from "../model/attempt-log.ts";
import { durationText } from "../model/duration.ts";
import type { Route } from "../model/route.ts";
import type { Attempt } from "./attempt.ts";

export function describeEnd(
  engine: Engine,
  attempt: Attempt,
  decision: Decision,
  route: Route | undefined,
): void {
  const { next } = decision;
  if (next.event !== "failed" && next.event !== "retry-scheduled") return;
  const { job, policy } = attempt;
  const error = readAttemptLog(decision.attempts).entries.at(-1)?.error;
  const fields = { id: job.id, name: route?.name, queue: route?.queue, cause: causeChain(error) };
  const which = `attempt ${job.attempt} of ${policy.attempts}`;
  if (next.to === "failed") engine.log.error(`job failed for good: ${next.reason} (${which})`, fields);
  else if (next.to === "scheduled") {
    const when = "inMs" in next.due ? `in ${durationText(next.due.inMs)}` : "at its time";
    engine.log.warn(`${which} failed, next try ${when}`, fields);
  }
}

function causeChain(error: ErrorRecord | undefined): string {
  const chain: string[] = [];
  for (let each = error; each !== undefined; each = each.cause) chain.push(`${each.name}: ${each.message}`);
  return chain.join(" <- ");
}
