/**
 * One store call inside a transaction: the time it happens at, and everything it has to tell at its end (rule R10): one packed feed
 * record, count deltas per route and state, and hints for those who watch.
 *
 * A unit that is refused half-way takes back what it told: `mark` before it, `takeBack` after.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { Statements } from "./connection.ts";
import { packEvent } from "./packed-events.ts";
import type { Run, Told } from "./packed-events.ts";
import type { RouteBook } from "./route-book.ts";

/** What a committed call makes known to those who watch. Plain arrays: it crosses threads. */
export interface Hints {
  routes: number[];
  dueAt: number | null;
  finished: string[];
  cancels: { id: string; owner: string }[];
}

/** What the calls of one transaction share. */
export interface Turn {
  readonly statements: Statements;
  readonly routes: RouteBook;
  readonly epoch: number;
  readonly now: number;
  /** The last seq given; null until first needed. */
  lastSeq: number | null;
}

export interface Step {
  readonly turn: Turn;
  readonly statements: Statements;
  readonly now: number;
  /** What the feed record will say. */
  readonly runs: Run[];
  /** route * 16 + state code -> how many more (or fewer) jobs. */
  readonly deltas: Map<number, number>;
  readonly hints: Hints;
}

/** How much was told at some moment. Everything told is appended, so lengths say it. */
export interface Mark {
  readonly runs: number;
  /** Of the last run, which may grow on. */
  readonly lastRun: number;
  readonly deltas: ReadonlyMap<number, number>;
  readonly routes: number;
  readonly dueAt: number | null;
  readonly finished: number;
  readonly cancels: number;
}

export function beginStep(turn: Turn): Step {
  return {
    turn,
    statements: turn.statements,
    now: turn.now,
    runs: [],
    deltas: new Map(),
    hints: emptyHints(),
  };
}

export function emptyHints(): Hints {
  return { routes: [], dueAt: null, finished: [], cancels: [] };
}

/** Tells of a job that is in `state` now. Also collects the hints that follow from it. */
export function tell(step: Step, told: Told): void {
  const { id, route, state, extra } = told;
  packEvent(step.runs, told);
  if (state === null) return;
  const { hints } = step;
  if (state === stateCodes.ready) {
    if (hints.routes.at(-1) !== route && !hints.routes.includes(route)) hints.routes.push(route);
  } else if (state >= stateCodes.completed) {
    hints.finished.push(id);
  } else if (state === stateCodes.running && told.kind === "cancel-asked" && typeof extra === "string") {
    hints.cancels.push({ id, owner: extra });
  }
}

export function hintDue(step: Step, at: number | null): void {
  if (at !== null && (step.hints.dueAt === null || at < step.hints.dueAt)) step.hints.dueAt = at;
}

export function count(step: Step, route: number, state: number, change: number): void {
  const key = route * 16 + state;
  step.deltas.set(key, (step.deltas.get(key) ?? 0) + change);
}

export function mark({ runs, deltas, hints }: Step): Mark {
  const { routes, dueAt, finished, cancels } = hints;
  return {
    runs: runs.length,
    lastRun: runs.at(-1)?.length ?? 0,
    deltas: new Map(deltas),
    routes: routes.length,
    dueAt,
    finished: finished.length,
    cancels: cancels.length,
  };
}

export function takeBack({ runs, deltas, hints }: Step, to: Mark): void {
  runs.length = to.runs;
  runs.at(-1)?.splice(to.lastRun);
  deltas.clear();
  for (const [key, change] of to.deltas) deltas.set(key, change);
  hints.routes.length = to.routes;
  hints.dueAt = to.dueAt;
  hints.finished.length = to.finished;
  hints.cancels.length = to.cancels;
}

/** Inputs: time, packed events. Answer: the record's number as the rowid. */
const appendFeed = "INSERT INTO millrace_feed (at, body) VALUES (?, ?) RETURNING number";

/** Inputs: route, state, change. */
const addTally = `INSERT INTO millrace_tally (route, state, count) VALUES (?, ?, ?)
  ON CONFLICT (route, state) DO UPDATE SET count = count + excluded.count`;

/** Writes what the call has to tell. Answers the number of its feed record, or null when it changed no job. */
export function endStep(step: Step): number | null {
  for (const [key, change] of step.deltas) {
    if (change !== 0) step.statements(addTally).run(Math.floor(key / 16), key % 16, change);
  }
  if (step.runs.length === 0) return null;
  const row = step.statements(appendFeed).get(step.now, JSON.stringify(step.runs)) as [number: number];
  return row[0];
}
