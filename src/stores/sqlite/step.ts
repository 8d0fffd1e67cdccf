/**
 * One store call inside a transaction: the time it happens at, and everything it has to tell at its end (rule R10):
 * one packed feed record and hints for those who watch. New jobs and the changes of counts are collected over all
 * calls of the transaction (their commit).
 *
 * A unit that is refused half-way takes back what it told: `mark` before it, `takeBack` after.
 */
import { eventCodes } from "../../model/event-kind.ts";
import { jobStates, stateCodes } from "../../model/job-state.ts";
import { hintDue, hintEvent } from "../../store/hints.ts";
import type { Hints } from "../../store/hints.ts";
import type { JobRow } from "../../store/job-fields.ts";
import { packEvents } from "../../store/packed-events.ts";
import type { EventBundle } from "../../store/packed-events.ts";
import type { Outcome } from "../../store/rules/advance.ts";
import { countsOf, tell } from "../../store/rules/tell.ts";
import type { Told } from "../../store/rules/tell.ts";
import type { Statements } from "./connection.ts";
import { openInsert } from "./insert.ts";
import type { Insert } from "./insert.ts";
import type { KnownRoutes } from "./routes.ts";

/** What the calls of one transaction share. */
export interface Commit {
  readonly statements: Statements;
  readonly routes: KnownRoutes;
  readonly epoch: number;
  readonly now: number;
  /** The last seq given; null until first needed. */
  lastSeq: number | null;
  /** New jobs of this call and those before it that are not written yet. */
  readonly insert: Insert;
  /** How many more (or fewer) jobs a route has, by state code. */
  readonly counts: Map<number, number[]>;
  /** The route counted last: a bulk of one kind counts it again and again. */
  lastCounted: { readonly route: number; readonly states: number[] } | null;
}

export interface Step {
  readonly commit: Commit;
  readonly statements: Statements;
  readonly now: number;
  /** What the feed record will say: events that differ only in their job are one bundle. */
  readonly events: (EventBundle & { readonly ids: string[] })[];
  /** The earliest clock that was set. */
  dueAt: number | null;
}

export function beginCommit(given: Pick<Commit, "statements" | "routes" | "epoch" | "now">): Commit {
  const insert = openInsert(given.statements);
  return { ...given, lastSeq: null, insert, counts: new Map(), lastCounted: null };
}

export function beginStep(commit: Commit): Step {
  const { statements, now } = commit;
  return { commit, statements, now, events: [], dueAt: null };
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

export function count({ commit }: Step, route: number, state: number, change: number): void {
  if (commit.lastCounted?.route !== route) {
    const states = commit.counts.get(route) ?? jobStates.map(() => 0);
    commit.counts.set(route, states);
    commit.lastCounted = { route, states };
  }
  commit.lastCounted.states[state]! += change;
}

/** How much was told at some moment. */
export interface Mark {
  readonly events: number;
  /** Of the last bundle, which may grow on. */
  readonly lastIds: number;
  readonly counts: Commit["counts"];
  readonly dueAt: number | null;
}

export function mark({ commit, events, dueAt }: Step): Mark {
  const counts = new Map([...commit.counts].map(([route, states]) => [route, [...states]]));
  return { events: events.length, lastIds: events.at(-1)?.ids.length ?? 0, counts, dueAt };
}

export function takeBack(step: Step, to: Mark): void {
  const { commit, events } = step;
  events.length = to.events;
  events.at(-1)?.ids.splice(to.lastIds);
  forgetCounts(commit);
  for (const [route, states] of to.counts) commit.counts.set(route, states);
  step.dueAt = to.dueAt;
}

/** Inputs: time, packed events. Answer: the record's number. */
const appendFeed = "INSERT INTO millrace_feed (at, body) VALUES (?, ?) RETURNING number";

/** Inputs: route, state, change. */
const addTally = `INSERT INTO millrace_tally (route, state, count) VALUES (?, ?, ?)
  ON CONFLICT (route, state) DO UPDATE SET count = count + excluded.count`;

/**
 * Writes what the call has to tell and adds its hints. Answers the number of its feed record, or null when it changed
 * no job.
 */
export function endStep({ statements, now, events, dueAt }: Step, hints: Hints): number | null {
  if (dueAt !== null) hintDue(hints, dueAt - now);
  if (events.length === 0) return null;
  for (const event of events) hintEvent(hints, event, now);
  const [number] = statements(appendFeed).get(now, packEvents(events)) as [number: number];
  return number;
}

/** Writes what the calls so far have left to be written together: before anybody looks, and before the commit. */
export function flushCommit(commit: Commit): void {
  const { statements, insert, counts } = commit;
  insert.flush();
  for (const [route, states] of counts) {
    for (const [state, change] of states.entries())
      if (change !== 0) statements(addTally).run(route, state, change);
  }
  forgetCounts(commit);
}

function forgetCounts(commit: Commit): void {
  commit.counts.clear();
  commit.lastCounted = null;
}
