/** The last step of the index audit: the state counts, held against a recount of all jobs by route and state. */
import { stateCodes } from "../../../model/job/job-state.ts";
import type { Statements } from "../connection/connection.ts";
import { sql } from "../../../store/sql.ts";

/** No input. Answer: route, state and how many there really are, where the state count says otherwise. */
const wrongStateCounts = sql`WITH real (route, state, count) AS (
    SELECT route, state, count(*) FROM millrace_job GROUP BY route, state
    UNION ALL SELECT route, state, count(*) FROM millrace_history GROUP BY route, state)
  SELECT route, state, count FROM real
    WHERE count IS NOT (SELECT count FROM millrace_state_count t WHERE t.route = real.route AND t.state = real.state)
  UNION ALL SELECT route, state, 0 FROM millrace_state_count t WHERE count <> 0
    AND NOT EXISTS (SELECT 1 FROM real WHERE real.route = t.route AND real.state = t.state)`;
/** Inputs: route, state, count. */
const setStateCount = "INSERT OR REPLACE INTO millrace_state_count (route, state, count) VALUES (?, ?, ?)";

/** No input. Answer: how many rows there are, and how many the state counts say, live and finished. */
const readSums = sql`SELECT (SELECT count(*) FROM millrace_job), (SELECT count(*) FROM millrace_history),
  (SELECT ifnull(sum(count), 0) FROM millrace_state_count WHERE state < ${stateCodes.completed}),
  (SELECT ifnull(sum(count), 0) FROM millrace_state_count WHERE state >= ${stateCodes.completed})`;

/** Up to here a recount by route and state is cheap. */
const recountRowsMax = 50_000;

/**
 * A recount of a million rows by route and state sorts them, for half a second in which nobody else gets an answer;
 * counting them takes a few milliseconds. So a large store is recounted only when its sums are wrong.
 */
export function auditStateCounts(statements: Statements): { checked: number; changes: number; last: null } {
  const sums = statements(readSums).get() as [live: number, finished: number, number, number];
  const [live, finished, liveCounted, finishedCounted] = sums;
  const isRight = live === liveCounted && finished === finishedCounted;
  const checked = live + finished;
  const changes = isRight && checked > recountRowsMax ? 0 : recountStates(statements);
  return { checked, changes, last: null };
}

/** Answers how many state counts were wrong. */
export function recountStates(statements: Statements): number {
  const rows = statements(wrongStateCounts).all() as [route: number, state: number, count: number][];
  for (const row of rows) statements(setStateCount).run(...row);
  return rows.length;
}
