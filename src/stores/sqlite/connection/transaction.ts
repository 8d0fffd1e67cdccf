/**
 * One store call inside a transaction: the time it happens at, and everything that it emits at its end: one packed
 * feed record and hints for those who watch. New jobs and the changes of counts are collected over all calls of the
 * transaction (their commit).
 */
import type { JobRow } from "../../../store/job-fields.ts";
import { hintDue, hintEvent } from "../../../store/watch/hints.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import { mayFree, packEvents } from "../../../store/packing/packed-events.ts";
import { clearCounts, openCounts } from "../../../store/rules/call-events.ts";
import type { Counts, CallEvents } from "../../../store/rules/call-events.ts";
import { readValue } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { openInsert } from "../jobs/insert.ts";
import type { Insert } from "../jobs/insert.ts";
import type { Passing } from "../../../store/rules/flow/arrive.ts";
import type { LaneMove } from "../../../store/rules/gates/lane-change.ts";
import { routesFreed } from "../limits/gates.ts";
import { flushLanes } from "../groups/lanes.ts";
import type { KnownRoutes } from "../jobs/routes.ts";
import type { Target } from "../flows/targets.ts";
import { sql } from "../../../store/sql.ts";

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
  readonly counts: Counts;
  readonly lanes: LaneMove[];
  /** Whether any of its calls moved a job of a lane. */
  hasMovedLanes: boolean;
}

export interface Step extends CallEvents {
  readonly commit: Commit;
  readonly statements: Statements;
  readonly now: number;
  /** Routes whose gate was put. */
  readonly woken: Set<number>;
  /** Members of flows that have ended in the unit at hand, and whose ends are not passed on yet. */
  readonly ended: EndedMember[];
  /**
   * Jobs at which ends have arrived, by id; null for one that is not there. What they count is not written yet
   * (targets.ts).
   */
  readonly targets: Map<string, Target | null>;
}

export interface EndedMember extends Pick<JobRow, "id" | "state"> {
  readonly passing: Passing;
}

export function beginCommit(given: Pick<Commit, "statements" | "routes" | "epoch" | "now">): Commit {
  return {
    ...given,
    lastSeq: null,
    insert: openInsert(given.statements),
    counts: openCounts(),
    lanes: [],
    hasMovedLanes: false,
  };
}

export function beginStep(commit: Commit): Step {
  const { statements, now, counts, lanes } = commit;
  return {
    commit,
    statements,
    now,
    counts,
    lanes,
    events: [],
    dueAt: null,
    hasDueDocs: false,
    woken: new Set(),
    ended: [],
    targets: new Map(),
  };
}

/** Answer: the last seq ever given. */
const lastSeqGiven = "SELECT seq FROM sqlite_sequence WHERE name = 'millrace_spec'";

export function nextSeq(commit: Commit): number {
  commit.lastSeq ??= readValue<number>(commit.statements, lastSeqGiven) ?? 0;
  commit.lastSeq += 1;
  return commit.lastSeq;
}

/** Inputs: time, packed events. Answer: the record's number. */
const appendFeed = "INSERT INTO millrace_feed (at, body) VALUES (?, ?) RETURNING number";

/**
 * Writes what the call has emitted and adds its hints. Answers the number of its feed record, or null when it changed
 * no job.
 */
export function endStep(step: Step, hints: Hints): number | null {
  const { statements, now, events, dueAt, hasDueDocs, woken } = step;
  hints.hasDueDocs ||= hasDueDocs;
  if (dueAt !== null) hintDue(hints, dueAt - now);
  for (const route of woken) hints.routes.add(route);
  if (events.length === 0) return null;
  const left = events.filter(mayFree);
  if (left.length > 0)
    for (const route of routesFreed(
      statements,
      left.map((event) => event.route),
    ))
      hints.routes.add(route);
  for (const event of events) hintEvent(hints, event, now);
  return readValue(statements, appendFeed, now, packEvents(events));
}

/** Inputs: route, state, change. */
const addStateCount = sql`INSERT INTO millrace_state_count (route, state, count) VALUES (?, ?, ?)
  ON CONFLICT (route, state) DO UPDATE SET count = count + excluded.count`;

/** Writes what the calls so far have left to be written together: before anybody looks, and before the commit. */
export function flushCommit(commit: Commit): void {
  const { statements, insert, counts, lanes } = commit;
  insert.flush();
  if (lanes.length > 0) {
    commit.hasMovedLanes = true;
    flushLanes(commit);
  }
  for (const [route, states] of counts.byRoute) {
    for (const [state, change] of states.entries())
      if (change !== 0) statements(addStateCount).run(route, state, change);
  }
  clearCounts(counts);
}
