/**
 * The audit of lanes: the line of each, its first job, and what is held by key, compared with the jobs themselves. All
 * of it follows from them, so whatever is wrong is made anew.
 */
import { isKeyedGate } from "../../../model/routing/lane.ts";
import { heldOf } from "../../../store/rules/gates/lane-change.ts";
import type { JobRow } from "../../../store/job-fields.ts";
import { addPermits } from "../limits/key-gates.ts";
import { readValue } from "../connection/connection.ts";
import { flushLanes, refreshLane } from "../groups/lanes.ts";
import { readLanes } from "../jobs/job-rows.ts";
import {
  isKeeping,
  isLanedRoute,
  isReady,
  isRunning,
  isScheduled,
  isSuspended,
} from "../connection/schema.ts";
import type { Step } from "../connection/transaction.ts";
import { releaseLanes } from "../groups/waiting-lanes.ts";
import { sql } from "../../../store/sql.ts";

const laned = `route IN (SELECT number FROM millrace_route WHERE ${isLanedRoute})`;
const inLine = sql`SELECT s.lane_key AS lane, j.rank AS rank, j.seq AS seq, j.route AS route, j.timer_at AS timer_at
  FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq
  WHERE j.${laned} AND j.${isReady} AND s.lane_key IS NOT NULL`;
const lines = sql`SELECT ifnull(l.key, 'lane ' || i.lane) AS lane, i.rank AS rank, i.seq AS seq, i.route AS route,
    i.timer_at AS timer_at FROM millrace_line i LEFT JOIN millrace_lane l ON l.number = i.lane`;
/** No input. Answer: how many entries there should be, and are. */
const countLines = sql`SELECT (SELECT ifnull(sum(count), 0) FROM millrace_state_count WHERE ${laned} AND ${isReady}),
  (SELECT count(*) FROM millrace_line)`;
/** No input. Answer: entries that should not be, and those that should. */
const strayLines = sql`SELECT * FROM (${lines}) EXCEPT ${inLine}`;
const missingLines = `${inLine} EXCEPT SELECT * FROM (${lines})`;
/** Inputs: lane, rank, seq. */
const dropStray = sql`DELETE FROM millrace_line WHERE rank = @rank AND seq = @seq
  AND lane IN (SELECT number FROM millrace_lane WHERE key = @lane)`;
/** No input. Entries of lanes that are not there. */
const dropOrphans = "DELETE FROM millrace_line WHERE lane NOT IN (SELECT number FROM millrace_lane)";
/** No input. Answer: lanes that do not show the first job of their line, and empty ones by rank. */
const wrongLanes = sql`SELECT l.key FROM millrace_lane l LEFT JOIN millrace_line i ON i.lane = l.number
    AND (i.rank, i.seq) = (SELECT rank, seq FROM millrace_line WHERE lane = l.number ORDER BY rank, seq LIMIT 1)
  WHERE (i.rank, i.seq, i.route, i.timer_at) IS NOT (l.rank, l.seq, l.route, l.timer_at)
    OR (i.seq IS NULL AND l.queue IS NULL)`;
/** No input. Answer: jobs that hold permits of keys. */
const holders = sql`SELECT j.state, j.keeps_lane, s.lane_gates FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq
    WHERE j.${laned} AND s.lane_gates IS NOT NULL
      AND (${isRunning} OR ((${isScheduled} OR ${isSuspended}) AND j.keeps_lane = 1))
  UNION ALL SELECT h.state, h.keeps_lane, s.lane_gates FROM millrace_history h INDEXED BY millrace_history_keeping
    JOIN millrace_spec s ON s.seq = h.seq WHERE h.${isKeeping} AND s.lane_gates IS NOT NULL`;
const readHeld = "SELECT key, held FROM millrace_permit";
/** Input: now in us. Rows that say nothing any more. */
const dropIdle = "DELETE FROM millrace_permit WHERE held = 0 AND tat_us <= ? AND opens_at IS NULL";

/** Up to here every entry is compared; beyond it, only where the numbers differ. */
const comparedMax = 50_000;

export function auditLanes(step: Step): { checked: number; changes: number; last: null } {
  const { statements, now } = step;
  statements(dropIdle).run(now * 1000);
  const [wanted, found] = statements(countLines).get() as [wanted: number, found: number];
  const isSkipped = wanted === found && found > comparedMax;
  return { checked: found, changes: isSkipped ? 0 : repairLanes(step), last: null };
}

/** Answers how many entries were wrong. */
export function repairLanes(step: Step): number {
  if (readValue(step.statements, `SELECT 1 FROM millrace_route WHERE ${isLanedRoute} LIMIT 1`) === null)
    return 0;
  return repairLines(step) + repairHeld(step);
}

type Entry = [lane: string, rank: number, seq: number];

function repairLines({ statements, commit }: Step): number {
  const stray = statements(strayLines).all() as unknown as Entry[];
  for (const [lane, rank, seq] of stray) statements(dropStray).run({ lane, rank, seq });
  statements(dropOrphans).run();
  const missing = statements(missingLines).all() as unknown as Entry[];
  const found = readLanes(
    statements,
    missing.map(([, , seq]) => seq),
  );
  for (const to of found.values()) commit.lanes.push({ from: null, to });
  flushLanes(commit);
  const wrong = statements(wrongLanes).all() as [lane: string][];
  for (const [lane] of wrong) refreshLane(statements, lane);
  return stray.length + missing.length + wrong.length;
}

function repairHeld(step: Step): number {
  const { statements, now } = step;
  const changes = new Map<string, number>();
  const add = (key: string, change: number): unknown => changes.set(key, (changes.get(key) ?? 0) + change);
  for (const [key, held] of statements(readHeld).all() as [key: string, held: number][])
    if (isKeyedGate(key)) add(key, -held);
  type Holder = [state: number, keepsLane: 0 | 1, laneGates: string];
  for (const [state, keepsLane, gates] of statements(holders).all() as unknown as Holder[]) {
    const laneGates = JSON.parse(gates) as NonNullable<JobRow["laneGates"]>;
    for (const { key, weight } of heldOf({ state, keepsLane, laneGates })) add(key, weight);
  }
  const wrong = [...changes].filter(([, change]) => change !== 0);
  addPermits(statements, wrong, now);
  releaseLanes(
    step,
    wrong.map(([key]) => [key, false] as const),
  );
  return wrong.length;
}
