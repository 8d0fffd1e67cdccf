/**
 * Submit of one plain job (jobs/submit-one.sql.ts): the fast path of a quiet process, whose call may carry the hint to
 * the other processes itself.
 */
import { routeNumber } from "../../../model/routing/route.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { emptyHints, hintDue } from "../../../store/watch/hints.ts";
import { columnOf } from "../../../store/job-fields.ts";
import type { SubmitAnswer } from "../../../store/operations.ts";
import type { NewJob } from "../../../store/records.ts";
import { callScalar } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { listText } from "../functions/columns.ts";
import { gatesText } from "./routes.ts";
import { placeParameters } from "./place-parameters.ts";
import { givenFields } from "./submit-one.sql.ts";
import { packNullable, packText } from "../functions/packed-values.ts";

export async function submitOne(calls: Calls, job: NewJob): Promise<SubmitAnswer> {
  const { queue, name, requires = [], gates = [] } = job;
  const route = routeNumber(queue, name, job.requires, job.gates);
  const ride = calls.ride();
  const values: Record<string, string | number | null> = {
    p_by: ride?.by ?? null,
    p_route: route,
    p_queue: packText(queue),
    p_name: packText(name),
    p_requires: listText(requires),
    p_gates: gatesText(gates),
  };
  for (const { name: parameter, of } of placeParameters) values[parameter] = of(job);
  const given = job as unknown as Readonly<Record<string, string | null | undefined>>;
  for (const field of givenFields) values[`p_${columnOf(field)}`] = packNullable(given[field]);
  let isAnnounced = false;
  try {
    const answer = await callScalar(calls, "submit_one_v1", values);
    if (answer === "") return { kind: "refused", reason: "intake-closed", id: job.id };
    const [now, state, timerAt, emitted] = answer.split(" ").map(Number) as [number, number, number, number];
    isAnnounced = emitted === 1;
    const hints = emptyHints();
    if (state === stateCodes.ready) hints.routes.add(route);
    if (timerAt > 0) hintDue(hints, timerAt - now);
    calls.emit(hints, isAnnounced);
  } finally {
    ride?.over(isAnnounced);
  }
  return { kind: "ok", ids: [job.id], hows: ["created"] };
}
