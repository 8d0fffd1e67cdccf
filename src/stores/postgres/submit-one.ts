/**
 * Submit of one plain job (sql/submit-one.ts): the short road of a quiet process, whose hint may ride in the call
 * itself.
 */
import type { Due } from "../../model/change.ts";
import { routeNumber } from "../../model/route.ts";
import { stateCodes } from "../../model/job-state.ts";
import { emptyHints, hintDue } from "../../store/hints.ts";
import { columnOf } from "../../store/job-fields.ts";
import type { SubmitAnswer } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import { callScalar } from "./call.ts";
import type { Calls } from "./call.ts";
import { listText } from "./columns.ts";
import { givenFields } from "./sql/submit-one.ts";
import { packNullable, packText } from "./text.ts";

export async function submitOne(calls: Calls, job: NewJob): Promise<SubmitAnswer> {
  const { queue, name, caps = [], due, deadline } = job;
  const route = routeNumber(queue, name, job.caps);
  const ride = calls.ride();
  const values: Record<string, string | number | null> = {
    p_by: ride?.by ?? null,
    p_route: route,
    p_queue: packText(queue),
    p_name: packText(name),
    p_caps: listText(caps),
    p_due_in: inMs(due),
    p_due_at: at(due),
    p_rank_base: job.rankBase,
    p_rank_slope: job.rankSlope,
    p_deadline_in: inMs(deadline),
    p_deadline_at: at(deadline),
    p_ttl: job.ttlMs,
  };
  const given = job as unknown as Readonly<Record<string, string | null | undefined>>;
  for (const field of givenFields) values[`p_${columnOf(field)}`] = packNullable(given[field] ?? null);
  let isTold = false;
  try {
    const answer = await callScalar(calls, "submit_one_v1", values);
    const [now, state, timerAt, told] = answer.split(" ").map(Number) as [number, number, number, number];
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
