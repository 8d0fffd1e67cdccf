/**
 * What the calls of an embedded store have to emit when they end (rule R10), collected while they run: events, in
 * bundles of those that differ only in their job; changes of state counts; the earliest clock that was set; changes of
 * lanes. State counts and lanes are collected over all calls of one commit, everything else per call.
 *
 * A unit that is refused half-way takes its events back: `mark` before it, `takeBack` after.
 */
import { eventCodes } from "../../model/events/event-kind.ts";
import { jobStates, stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { EventBundle } from "../packing/packed-events.ts";
import type { Outcome } from "./advance.ts";
import { asLaned } from "./gates/lane.ts";
import type { Laned, LaneMove } from "./gates/lane.ts";
import { countsOf, tell } from "./emit.ts";
import type { Told } from "./emit.ts";

export interface Counts {
  /** How many more (or fewer) jobs a route has, by state code. */
  readonly byRoute: Map<number, number[]>;
  /** The last route: a bulk of one kind counts it again and again. */
  last: { readonly route: number; readonly states: number[] } | null;
}

/** Events of one call that differ only in their job. */
export type ToldBundle = EventBundle & { readonly ids: string[]; readonly notes?: string[] };

export interface Telling {
  readonly counts: Counts;
  /** Changes of jobs with lanes, in order. */
  readonly lanes: LaneMove[];
  readonly events: ToldBundle[];
  /** The earliest clock that was set. */
  dueAt: number | null;
  /** Documents were written that are due already. */
  hasDueDocs: boolean;
}

export function openCounts(): Counts {
  return { byRoute: new Map(), last: null };
}

export function forgetCounts(counts: Counts): void {
  counts.byRoute.clear();
  counts.last = null;
}

/** Emits the result of a rule. `from` is the job before; null for a new one. */
export function tellOutcome(telling: Telling, from: JobRow | null, outcome: Outcome): void {
  for (const { route, state, change } of countsOf(from, outcome)) count(telling, route, state, change);
  const { row, isKept } = outcome;
  const [laneFrom, laneTo] = [from === null ? null : asLaned(from), isKept ? asLaned(row) : null];
  if (laneFrom !== null || laneTo !== null) moveLane(telling, laneFrom, laneTo);
  tellEvent(telling, tell(outcome));
  const { state, timerAt } = outcome.row;
  if (state !== stateCodes.running && timerAt !== from?.timerAt) setClock(telling, timerAt);
}

/** Emits a new job (`placeNew`). The caller emits the change of its lane. */
export function tellSubmitted(
  telling: Telling,
  row: Pick<JobRow, "id" | "route" | "state" | "dueAt" | "timerAt">,
): void {
  const { id, route, state, dueAt, timerAt } = row;
  count(telling, route, state, 1);
  setClock(telling, timerAt);
  const extra = state === stateCodes.scheduled ? dueAt : null;
  tellEvent(telling, { kind: "submitted", id, rev: 1, route, state, attempt: 0, extra });
}

/** Emits a job that comes into this state as the last one did, and differs from it in its id alone. */
export function tellAlike(
  telling: Telling,
  row: Pick<JobRow, "route" | "state">,
  told: ToldBundle,
  id: string,
): void {
  count(telling, row.route, row.state, 1);
  told.ids.push(id);
}

export function moveLane({ lanes }: Pick<Telling, "lanes">, from: Laned | null, to: Laned | null): void {
  lanes.push({ from, to });
}

export function tellEvent({ events }: Pick<Telling, "events">, told: Told): void {
  const { kind, id, rev, route, state, attempt, extra, note = "" } = told;
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
export function tellMove(telling: Telling, from: number, told: Told & { readonly state: number }): void {
  count(telling, told.route, from, -1);
  count(telling, told.route, told.state, 1);
  tellEvent(telling, told);
}

export function setClock(telling: Telling, at: number | null): void {
  if (at !== null && (telling.dueAt === null || at < telling.dueAt)) telling.dueAt = at;
}

/** The due time of a document: one that is due already hides no clock. */
export function setDocClock(telling: Telling, at: number | null, now: number): void {
  if (at !== null && at <= now) telling.hasDueDocs = true;
  else setClock(telling, at);
}

export function count({ counts }: Telling, route: number, state: number, change: number): void {
  if (counts.last?.route !== route) {
    const states = counts.byRoute.get(route) ?? jobStates.map(() => 0);
    counts.byRoute.set(route, states);
    counts.last = { route, states };
  }
  counts.last.states[state]! += change;
}

/** How much was emitted at a moment. */
export interface Mark {
  readonly events: number;
  /** Of the last bundle, which may grow on. */
  readonly lastIds: number;
  readonly byRoute: Counts["byRoute"];
  readonly lanes: number;
  readonly dueAt: number | null;
}

export function mark({ counts, lanes, events, dueAt }: Telling): Mark {
  const byRoute = new Map([...counts.byRoute].map(([route, states]) => [route, [...states]]));
  return {
    events: events.length,
    lastIds: events.at(-1)?.ids.length ?? 0,
    byRoute,
    lanes: lanes.length,
    dueAt,
  };
}

export function takeBack(telling: Telling, to: Mark): void {
  const { counts, events } = telling;
  events.length = to.events;
  events.at(-1)?.ids.splice(to.lastIds);
  events.at(-1)?.notes?.splice(to.lastIds);
  forgetCounts(counts);
  for (const [route, states] of to.byRoute) counts.byRoute.set(route, states);
  telling.lanes.length = to.lanes;
  telling.dueAt = to.dueAt;
}
