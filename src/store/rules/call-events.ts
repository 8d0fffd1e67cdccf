/**
 * What the calls of an embedded store have to emit when they end (rule R10), collected while they run: events, in
 * bundles of those that differ only in their job; changes of state counts; the earliest clock that was set; changes of
 * lanes. State counts and lanes are collected over all calls of one commit, everything else per call.
 *
 * A unit that is refused half-way takes its events back: `savepoint` before it, `rollBack` after.
 */
import { eventCodes } from "../../model/events/event-kind.ts";
import { jobStates, stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { EventBundle } from "../packing/packed-events.ts";
import type { Outcome } from "./advance.ts";
import { asLaned } from "./gates/lane-change.ts";
import type { Laned, LaneMove } from "./gates/lane-change.ts";
import { countsOf, emit } from "./emit.ts";
import type { EmittedEvent } from "./emit.ts";

export interface Counts {
  /** How many more (or fewer) jobs a route has, by state code. */
  readonly byRoute: Map<number, number[]>;
  /** The last route: a bulk of one kind counts it again and again. */
  last: { readonly route: number; readonly states: number[] } | null;
}

/** Events of one call that differ only in their job. */
export type EmittedBundle = EventBundle & { readonly ids: string[]; readonly notes?: string[] };

export interface CallEvents {
  readonly counts: Counts;
  /** Changes of jobs with lanes, in order. */
  readonly lanes: LaneMove[];
  readonly events: EmittedBundle[];
  /** The earliest clock that was set. */
  dueAt: number | null;
  /** Documents were written that are due already. */
  hasDueDocs: boolean;
}

export function openCounts(): Counts {
  return { byRoute: new Map(), last: null };
}

export function clearCounts(counts: Counts): void {
  counts.byRoute.clear();
  counts.last = null;
}

/** Emits the result of a rule. `from` is the job before; null for a new one. */
export function emitOutcome(callEvents: CallEvents, from: JobRow | null, outcome: Outcome): void {
  for (const { route, state, change } of countsOf(from, outcome)) count(callEvents, route, state, change);
  const { row, isKept } = outcome;
  const [laneFrom, laneTo] = [from === null ? null : asLaned(from), isKept ? asLaned(row) : null];
  if (laneFrom !== null || laneTo !== null) moveLane(callEvents, laneFrom, laneTo);
  emitEvent(callEvents, emit(outcome));
  const { state, timerAt } = outcome.row;
  if (state !== stateCodes.running && timerAt !== from?.timerAt) setClock(callEvents, timerAt);
}

/** Emits a new job (`placeNew`). The caller emits the change of its lane. */
export function emitSubmitted(
  callEvents: CallEvents,
  row: Pick<JobRow, "id" | "route" | "state" | "dueAt" | "timerAt">,
): void {
  const { id, route, state, dueAt, timerAt } = row;
  count(callEvents, route, state, 1);
  setClock(callEvents, timerAt);
  const extra = state === stateCodes.scheduled ? dueAt : null;
  emitEvent(callEvents, { kind: "submitted", id, rev: 1, route, state, attempt: 0, extra });
}

/** Emits a job that comes into this state as the last one did, and differs from it in its id alone. */
export function emitAlike(
  callEvents: CallEvents,
  row: Pick<JobRow, "route" | "state">,
  emitted: EmittedBundle,
  id: string,
): void {
  count(callEvents, row.route, row.state, 1);
  emitted.ids.push(id);
}

export function moveLane({ lanes }: Pick<CallEvents, "lanes">, from: Laned | null, to: Laned | null): void {
  lanes.push({ from, to });
}

export function emitEvent({ events }: Pick<CallEvents, "events">, emitted: EmittedEvent): void {
  const { kind, id, rev, route, state, attempt, extra, note = "" } = emitted;
  const code = eventCodes[kind];
  const last = events.at(-1);
  const isSame =
    last !== undefined &&
    last.kind === code &&
    last.route === route &&
    last.state === state &&
    last.rev === rev &&
    last.attempt === attempt &&
    last.extra === extra &&
    (last.notes !== undefined) === (note !== "");
  if (isSame) {
    last.ids.push(id);
    last.notes?.push(note);
  } else {
    const notes = note === "" ? {} : { notes: [note] };
    events.push({ kind: code, rev, route, state, attempt, extra, ids: [id], ...notes });
  }
}

/** Emits that a job has moved from one state to another, and changes the state counts of its route. */
export function emitMove(
  callEvents: CallEvents,
  from: number,
  emitted: EmittedEvent & { readonly state: number },
): void {
  count(callEvents, emitted.route, from, -1);
  count(callEvents, emitted.route, emitted.state, 1);
  emitEvent(callEvents, emitted);
}

export function setClock(callEvents: CallEvents, at: number | null): void {
  if (at !== null && (callEvents.dueAt === null || at < callEvents.dueAt)) callEvents.dueAt = at;
}

/** The due time of a document: one that is due already hides no clock. */
export function setDocClock(callEvents: CallEvents, at: number | null, now: number): void {
  if (at !== null && at <= now) callEvents.hasDueDocs = true;
  else setClock(callEvents, at);
}

export function count({ counts }: CallEvents, route: number, state: number, change: number): void {
  if (counts.last?.route !== route) {
    const states = counts.byRoute.get(route) ?? jobStates.map(() => 0);
    counts.byRoute.set(route, states);
    counts.last = { route, states };
  }
  counts.last.states[state]! += change;
}

/** How much was emitted at a moment. */
export interface Savepoint {
  readonly events: number;
  /** Of the last bundle, which may grow on. */
  readonly lastIds: number;
  readonly byRoute: Counts["byRoute"];
  readonly lanes: number;
  readonly dueAt: number | null;
}

export function savepoint({ counts, lanes, events, dueAt }: CallEvents): Savepoint {
  const byRoute = new Map([...counts.byRoute].map(([route, states]) => [route, [...states]]));
  return {
    events: events.length,
    lastIds: events.at(-1)?.ids.length ?? 0,
    byRoute,
    lanes: lanes.length,
    dueAt,
  };
}

export function rollBack(callEvents: CallEvents, to: Savepoint): void {
  const { counts, events } = callEvents;
  events.length = to.events;
  events.at(-1)?.ids.splice(to.lastIds);
  events.at(-1)?.notes?.splice(to.lastIds);
  clearCounts(counts);
  for (const [route, states] of to.byRoute) counts.byRoute.set(route, states);
  callEvents.lanes.length = to.lanes;
  callEvents.dueAt = to.dueAt;
}
