/**
 * What a duty does once the store has the end of a job: it counts the end in the metrics, where no attempt counts it,
 * and reports it to the user's hook.
 */
import type { ChangeNext } from "../../model/job/change.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { FailureReport } from "./failures.ts";
import type { Needs } from "../services.ts";

export type NoteEndNeeds = Needs<"metrics" | "reportFailure">;

/** @param next the change that the store applied; it may be no end of the job. */
export function noteEnd(
  { metrics, reportFailure }: NoteEndNeeds,
  job: Pick<FailureReport, "id" | "queue" | "name" | "attempt">,
  next: ChangeNext,
): void {
  const { to } = next;
  if (to !== "same" && to !== "deleted" && isTerminal(to)) metrics?.jobEnded(job, to);
  const { id, queue, name, attempt } = job;
  reportFailure?.({ id, queue, name, attempt, worker: null }, next);
}
