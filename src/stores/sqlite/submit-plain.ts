/**
 * The plain road of a submit (store/plain.ts): nothing is looked up, and what is rare of a job has its initial value.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { NewJob } from "../../store/records.ts";
import { placePlain } from "../../store/rules/place.ts";
import { keepRoute } from "./routes.ts";
import { count, setClock, tellEvent } from "./step.ts";
import type { Step } from "./step.ts";
import { nextSeq } from "./submit-general.ts";

export function submitPlain(step: Step, job: NewJob): void {
  const { statements, commit, now } = step;
  const route = keepRoute(statements, commit.routes, job);
  const row = placePlain(job, { seq: nextSeq(commit), route, now });
  commit.insert.add(row, true);
  const { id, state, dueAt, timerAt } = row;
  count(step, route, state, 1);
  setClock(step, timerAt);
  const extra = state === stateCodes.scheduled ? dueAt : null;
  tellEvent(step, { kind: "submitted", id, rev: 1, route, state, attempt: 0, extra });
}
