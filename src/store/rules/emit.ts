/**
 * Rule R10: every change of a job is emitted, with the state after the change and one value that belongs to that state.
 * The state counts of its route change with it.
 */
import type { EventKind } from "../../model/events/event-kind.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import { storeLimits } from "../contract-limits.ts";
import type { Outcome } from "./advance.ts";

/** An event as stores pack it. */
export interface EmittedEvent extends Pick<JobRow, "id" | "rev" | "route" | "attempt"> {
  readonly kind: EventKind;
  /** State code after the change; null once deleted. */
  readonly state: number | null;
  readonly extra: string | number | null;
  /** For a settle (`noteOf`); absent or "" for none. */
  readonly note?: string;
}

export function emit({ row, event, note }: Pick<Outcome, "row" | "event" | "note">): EmittedEvent {
  const { id, rev, route, attempt, state } = row;
  const emitted = { kind: event, id, rev, route, attempt };
  if (event === "deleted") return { ...emitted, state: null, extra: null };
  return { ...emitted, state, extra: extraOf(row, event), ...(note === undefined ? {} : { note }) };
}

/** The note of a settle's event: whether the start was not emitted yet, and a short attempt log. */
export function noteOf({ startedAt }: Pick<JobRow, "startedAt">, attempts: string | null): string {
  const log = attempts !== null && attempts.length <= storeLimits.noteCharsMax ? attempts : "";
  return startedAt === null ? `${unreportedStart}${log}` : log;
}

/** Begins a note: the start of the attempt was not emitted yet. */
export const unreportedStart = "!";

/**
 * claimed = whether it starts with the claim; progress = the text, also of a step, whose emitter puts it there;
 * scheduled = when it is due; finished = the reason; running with a
 * requested cancel, or a signal for it = its owner.
 */
export function extraOf(
  row: Pick<JobRow, "state" | "dueAt" | "reason" | "cancelAsked" | "owner" | "startedAt" | "progress">,
  event: EventKind,
): string | number | null {
  if (event === "claimed") return row.startedAt === null ? null : 1;
  if (event === "started") return row.startedAt;
  if (event === "progress" || event === "step") return row.progress;
  if (row.state === stateCodes.scheduled) return row.dueAt;
  if (row.state >= stateCodes.completed) return row.reason;
  const isForOwner = row.cancelAsked === 1 || event === "signalled";
  return row.state === stateCodes.running && isForOwner ? row.owner : null;
}

/** A change of the number of jobs of a route in a state. */
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
