/**
 * One store call inside a transaction: the time it happens at, and everything it has to tell at its end (rule R10): one packed feed
 * record, count deltas per route and state, and hints for those who watch.
 *
 * A unit that is refused half-way takes back what it told: `mark` before it, `takeBack` after.
 */
import { eventCodes } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import { hintDue, hintEvent } from "../../store/hints.ts";
import type { Hints } from "../../store/hints.ts";
import type { JobRow } from "../../store/job-fields.ts";
import { packEvents } from "../../store/packed-events.ts";
import type { EventBundle } from "../../store/packed-events.ts";
import type { Outcome } from "../../store/rules/advance.ts";
import { countsOf, tell } from "../../store/rules/tell.ts";
import type { Told } from "../../store/rules/tell.ts";
import type { Statements } from "./connection.ts";
import type { KnownRoutes } from "./routes.ts";

/** What the calls of one transaction share. */
export interface Turn {
  readonly statements: Statements;
  readonly routes: KnownRoutes;
  readonly epoch: number;
  readonly now: number;
  /** The last seq given; null until first needed. */
  lastSeq: number | null;
}

export interface Step {
  readonly turn: Turn;
  readonly statements: Statements;
  readonly now: number;
  /** What the feed record will say: events that differ only in their job are one bundle. */
  readonly events: (EventBundle & { readonly ids: string[] })[];
  /** route * statesMax + state code -> how many more (or fewer) jobs. */
  readonly counts: Map<number, number>;
  /** The earliest clock that was set. */
  dueAt: number | null;
}

/** More than there are states; routes have 48 bits, so both fit into an exact number. */
const statesMax = 16;

export function beginStep(turn: Turn): Step {
  const { statements, now } = turn;
  return { turn, statements, now, events: [], counts: new Map(), dueAt: null };
}

/** Tells what a rule made of a job. `from` is the job as it stood; null for a new one. */
export function tellOutcome(step: Step, from: JobRow | null, outcome: Outcome): void {
  for (const { route, state, change } of countsOf(from, outcome)) count(step, route, state, change);
  tellEvent(step, tell(outcome));
  const { state, timerAt } = outcome.row;
  if (state !== stateCodes.running && timerAt !== from?.timerAt) setClock(step, timerAt);
}

export function tellEvent({ events }: Step, { kind, id, rev, route, state, attempt, extra }: Told): void {
  const code = eventCodes[kind];
  const last = events.at(-1);
  const isSame =
    last !== undefined &&
    last.kind === code &&
    last.route === route &&
    last.state === state &&
    last.rev === rev &&
    last.attempt === attempt &&
    last.extra === extra;
  if (isSame) last.ids.push(id);
  else events.push({ kind: code, rev, route, state, attempt, extra, ids: [id] });
}

export function setClock(step: Step, at: number | null): void {
  if (at !== null && (step.dueAt === null || at < step.dueAt)) step.dueAt = at;
}

export function count({ counts }: Step, route: number, state: number, change: number): void {
  const key = route * statesMax + state;
  counts.set(key, (counts.get(key) ?? 0) + change);
}

/** How much was told at some moment. */
export interface Mark {
  readonly events: number;
  /** Of the last bundle, which may grow on. */
  readonly lastIds: number;
  readonly counts: ReadonlyMap<number, number>;
  readonly dueAt: number | null;
}

export function mark({ events, counts, dueAt }: Step): Mark {
  return { events: events.length, lastIds: events.at(-1)?.ids.length ?? 0, counts: new Map(counts), dueAt };
}

export function takeBack(step: Step, to: Mark): void {
  const { events, counts } = step;
  events.length = to.events;
  events.at(-1)?.ids.splice(to.lastIds);
  counts.clear();
  for (const [key, change] of to.counts) counts.set(key, change);
  step.dueAt = to.dueAt;
}

/** Inputs: time, packed events. Answer: the record's number. */
const appendFeed = "INSERT INTO millrace_feed (at, body) VALUES (?, ?) RETURNING number";

/** Inputs: route, state, change. */
const addTally = `INSERT INTO millrace_tally (route, state, count) VALUES (?, ?, ?)
  ON CONFLICT (route, state) DO UPDATE SET count = count + excluded.count`;

/** Writes what the call has to tell and adds its hints. Answers the number of its feed record, or null when it changed no job. */
export function endStep({ statements, now, events, counts, dueAt }: Step, hints: Hints): number | null {
  for (const [key, change] of counts) {
    if (change !== 0) statements(addTally).run(Math.floor(key / statesMax), key % statesMax, change);
  }
  if (dueAt !== null) hintDue(hints, dueAt - now);
  if (events.length === 0) return null;
  for (const event of events) hintEvent(hints, event, now);
  const [number] = statements(appendFeed).get(now, packEvents(events)) as [number: number];
  return number;
}
