/** Submit of one plain job (sql/submit-one.ts): the short path of a quiet process, whose hint may ride in the call itself. */
import { stateCodes } from "../../model/job-state.ts";
import type { Due } from "../../model/change.ts";
import { emptyHints, hintDue } from "../../store/hints.ts";
import type { SubmitAnswer } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import { callScalar } from "./call.ts";
import type { Calls } from "./call.ts";
import { packNullable, packText } from "./text.ts";

export async function submitOne(calls: Calls, job: NewJob): Promise<SubmitAnswer> {
  const ride = calls.ride();
  const values = [
    ride?.by ?? null,
    packText(job.queue),
    packText(job.name),
    packText(job.id),
    packText(job.input),
    packNullable(job.policy),
    packNullable(job.meta),
    inMs(job.due),
    at(job.due),
    job.rankBase,
    job.rankSlope,
    inMs(job.deadline),
    at(job.deadline),
    job.ttlMs,
  ];
  let isTold = false;
  try {
    const answer = await callScalar(calls, "submit_one_v1", values);
    const [now, route, state, timerAt, told] = answer.split(" ").map(Number) as [
      ...[now: number, route: number, state: number],
      ...[timerAt: number, told: number],
    ];
    isTold = told === 1;
    const hints = emptyHints();
    if (state === stateCodes.ready) hints.routes.add(route);
    if (timerAt > 0) hintDue(hints, timerAt - now);
    calls.tell(hints, isTold);
  } finally {
    ride?.over(isTold);
  }
  return { kind: "ok", ids: [job.id], hows: ["created"] };
}

/** A due time as the functions take it: a duration or an instant. */
export const inMs = (due: Due | null): number | null => (due !== null && "inMs" in due ? due.inMs : null);
export const at = (due: Due | null): number | null => (due !== null && "at" in due ? due.at : null);
