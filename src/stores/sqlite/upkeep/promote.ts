/**
 * Promotion (rule R5): scheduled jobs whose time has come become ready. The routes that have due jobs share a call, so
 * that a flood on one keeps no other waiting.
 *
 *  at most `max` timers have rung   all of them are read, and the due jobs among them are shared out here
 *  more than that                   the index by (route, due_at) is asked for the longest due job of each route, a
 *                                   seek per route, and then for the share of each
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import type { PromoteAnswer } from "../../../store/operations.ts";
import { moveLane, emitMove } from "../../../store/rules/call-events.ts";
import { asLaned } from "../../../store/rules/gates/lane-change.ts";
import { promote as promoteRow, shareOf, shareOut } from "../../../store/rules/promote.ts";
import type { Shares } from "../../../store/rules/promote.ts";
import { timerAt } from "../jobs/clock.ts";
import { columnList, rowReader, setList } from "../connection/columns.ts";
import { limitTo } from "../connection/connection.ts";
import { nextClockInMs } from "./due.ts";
import { hasLanes } from "../jobs/routes.ts";
import { readLive } from "../jobs/job-rows.ts";
import { isScheduled, isWatched } from "../connection/schema.ts";
import { runOnSeqs } from "../connection/seq-list.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

const { scheduled, ready } = stateCodes;

const promotedNames = ["seq", "id", "route", "rev", "attempt", "state", "dueAt"] as const;
const readPromoted = rowReader(promotedNames);
type Promoted = ReturnType<typeof readPromoted>;
const columns = columnList(promotedNames, { rev: "rev + 1" });

const byRoute = "millrace_job j INDEXED BY millrace_job_due";

/** Inputs: now, limit. Answer: jobs whose timer has rung, whatever it was; those that are due with their next rev. */
const readRung = sql`SELECT ${columns} FROM millrace_job INDEXED BY millrace_job_clock
  WHERE ${isWatched} AND timer_at <= ? ORDER BY timer_at, seq ${limitTo("?")}`;
/** Inputs: route, now, limit. Answer: the due jobs of one route as they will stand, longest due first. */
const readOfRoute = sql`SELECT ${columns} FROM ${byRoute}
  WHERE ${isScheduled} AND route = ? AND due_at <= ? ORDER BY due_at, seq ${limitTo("?")}`;
/** Input: now. Answer: the routes that have due jobs, by their longest due job. Goes from route to route by seeks. */
const readDueRoutes = sql`WITH RECURSIVE
  present (route) AS (
    SELECT min(j.route) FROM ${byRoute} WHERE ${isScheduled}
    UNION ALL SELECT (SELECT min(j.route) FROM ${byRoute}
      WHERE ${isScheduled} AND j.route > present.route) FROM present WHERE present.route IS NOT NULL),
  heads (route, at) AS MATERIALIZED (
    SELECT route, (SELECT min(j.due_at) FROM ${byRoute}
      WHERE ${isScheduled} AND j.route = present.route) FROM present WHERE route IS NOT NULL)
  SELECT route FROM heads WHERE at <= ? ORDER BY at, route`;
/** Inputs: the seqs. Guard: read as scheduled in the same transaction. `promote` of store/rules/promote.ts. */
const promote = sql`
  UPDATE millrace_job SET ${setList({ state: ready, rev: "rev + 1", keepsLane: 0, timerAt: timerAt.ready })}`;

export function promoteDue(step: Step, { max }: { readonly max: number }): PromoteAnswer {
  const { statements, now } = step;
  const rung = statements(readRung)
    .all(now, max + 1)
    .map(readPromoted);
  const { jobs, more } = rung.length > max ? readShares(step, max) : shareRung(rung, max, now);
  joinLanes(step, jobs);
  for (const { id, route, rev, attempt } of jobs)
    emitMove(step, scheduled, { kind: "promoted", id, rev, route, state: ready, attempt, extra: null });
  runOnSeqs(
    statements,
    promote,
    jobs.map(({ seq }) => seq),
  );
  return { count: jobs.length, more, nextDueInMs: nextClockInMs(statements, now) };
}

/** Those with a lane stand in line from now on, and hold nothing of it any more. */
function joinLanes(step: Step, jobs: readonly Promoted[]): void {
  for (const { seq, route } of jobs) {
    if (!hasLanes(step, route)) continue;
    const row = readLive(step.statements, seq);
    if (row !== null) moveLane(step, asLaned(row), asLaned(promoteRow(row).row));
  }
}

/** Of all jobs whose timer has rung, each route's share of those that are due. */
function shareRung(rung: readonly Promoted[], max: number, now: number): Shares<Promoted> {
  const due = rung.filter(({ state, dueAt }) => state === scheduled && dueAt <= now);
  due.sort((one, other) => one.dueAt - other.dueAt || one.seq - other.seq);
  return shareOut(due, max);
}

function readShares({ statements, now }: Step, max: number): Shares<Promoted> {
  const routes = statements(readDueRoutes).all(now) as [route: number][];
  const share = shareOf(max, routes.length);
  let more = routes.length > max;
  const jobs = routes.slice(0, max).flatMap(([route]) => {
    const due = statements(readOfRoute)
      .all(route, now, share + 1)
      .map(readPromoted);
    more ||= due.length > share;
    return due.slice(0, share);
  });
  return { jobs, more };
}
