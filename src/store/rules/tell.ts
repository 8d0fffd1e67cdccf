/**
 * Rule R10: every change of a job is told, with the state it is in after the change and one value that goes with that state; the counts of its
 * route move with it.
 */
import type { EventKind } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { Outcome } from "./advance.ts";

/** An event as stores pack it. */
export interface Told extends Pick<JobRow, "id" | "rev" | "route" | "attempt"> {
  readonly kind: EventKind;
  /** State code after the change; null once removed. */
  readonly state: number | null;
  readonly extra: string | number | null;
}

export function tell({ row, event }: Pick<Outcome, "row" | "event">): Told {
  const { id, rev, route, attempt, state } = row;
  return event === "removed"
    ? { kind: event, id, rev, route, attempt, state: null, extra: null }
    : { kind: event, id, rev, route, attempt, state, extra: extraOf(row, event) };
}

/** scheduled = when it is due; finished = the reason; running with a cancel asked = who runs it, but not at a claim. */
export function extraOf(
  row: Pick<JobRow, "state" | "dueAt" | "reason" | "cancelAsked" | "owner">,
  event: EventKind,
): string | number | null {
  if (row.state === stateCodes.scheduled) return row.dueAt;
  if (row.state >= stateCodes.completed) return row.reason;
  const isTold = row.state === stateCodes.running && row.cancelAsked === 1 && event !== "claimed";
  return isTold ? row.owner : null;
}

/** How the number of jobs in a state of a route moves. */
export interface Count extends Pick<JobRow, "route" | "state"> {
  readonly change: 1 | -1;
}

/** `from` is null for a new job. */
export function countsOf(from: JobRow | null, { row, isKept }: Pick<Outcome, "row" | "isKept">): Count[] {
  if (from !== null && isKept && from.state === row.state && from.route === row.route) return [];
  const counts: Count[] = [];
  if (from !== null) counts.push({ route: from.route, state: from.state, change: -1 });
  if (isKept) counts.push({ route: row.route, state: row.state, change: 1 });
  return counts;
}
