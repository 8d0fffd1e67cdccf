/**
 * The audit of lanes: the line of each, its first job, its holder, and what is held by key, held against the jobs
 * themselves. All of it follows from them, so whatever is wrong is made anew.
 */
import { isKeyedGate } from "../../model/lane.ts";
import { heldOf, isSole } from "../../store/rules/lane.ts";
import type { JobRow } from "../../store/job-fields.ts";
import { mendHolder, mendResting } from "./holders.ts";
import { addPermits } from "./key-gates.ts";
import { readValue } from "./connection.ts";
import { flushLanes, refreshLane } from "./lanes.ts";
import { wakeAtGate } from "./parked-lanes.ts";
import { readLanes } from "./rows.ts";
import { isKeeping, isLanedRoute, isReady, isRunning, isScheduled } from "./schema.ts";
import type { Step } from "./step.ts";

const laned = `route IN (SELECT number FROM millrace_route WHERE ${isLanedRoute})`;
const inLine = `SELECT s.lane_key AS lane, j.rank AS rank, j.seq AS seq, j.route AS route, j.timer_at AS timer_at
  FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq
  WHERE j.${laned} AND j.${isReady} AND s.lane_key IS NOT NULL`;
/** No input. A list that is damaged has nobody. */
const dropDamaged = "UPDATE millrace_lane SET behind = NULL WHERE NOT json_valid('[' || behind || ']')";
/**
 * What stands behind the first jobs of lanes, in their rows: of each by how much its rank is above the one before it.
 */
const behind = `SELECT l.key AS lane, l.number AS number,
    l.rank + sum(r.value) OVER (PARTITION BY l.number ORDER BY r.key) AS rank, b.value AS seq, l.route AS route
  FROM millrace_lane l, json_each('[' || l.behind || ']') r, json_each('[' || l.behind || ']') b
  WHERE l.behind IS NOT NULL AND r.key % 2 = 0 AND b.key = r.key + 1`;
const lines = `SELECT l.key AS lane, l.rank AS rank, l.seq AS seq, l.route AS route, l.timer_at AS timer_at
    FROM millrace_lane l WHERE l.seq IS NOT NULL
  UNION ALL SELECT lane, rank, seq, route, NULL FROM (${behind})
  UNION ALL SELECT ifnull(l.key, 'lane ' || i.lane), i.rank, i.seq, i.route, i.timer_at FROM millrace_line i
    LEFT JOIN millrace_lane l ON l.number = i.lane`;
/** No input. Answer: how many entries there should be, and are. */
const countLines = `SELECT (SELECT ifnull(sum(count), 0) FROM millrace_tally WHERE ${laned} AND ${isReady}),
  (SELECT count(*) FROM millrace_line) +
  (SELECT count(seq) + ifnull(sum((length(behind) - length(replace(behind, ',', '')) + 1) / 2), 0) FROM millrace_lane)`;
/** No input. Answer: entries that should not be, and those that should. */
const strayLines = `SELECT * FROM (${lines}) EXCEPT ${inLine}`;
const missingLines = `${inLine} EXCEPT SELECT * FROM (${lines})`;
/** No input. Entries of lanes that are not there. */
const dropOrphans = "DELETE FROM millrace_line WHERE lane NOT IN (SELECT number FROM millrace_lane)";
/** No input. Answer: lanes with a job that stands in its line twice, or not behind the first ones. */
const wrongLanes = `SELECT lane FROM (${lines}) GROUP BY lane, seq HAVING count(*) > 1
  UNION SELECT l.key FROM millrace_lane l WHERE l.seq IS NULL AND l.queue IS NULL AND l.parked_at IS NULL
  UNION SELECT l.key FROM millrace_line i JOIN millrace_lane l ON l.number = i.lane
    WHERE l.seq IS NULL OR l.has_more = 0 OR (i.rank, i.seq) < (l.rank, l.seq)
  UNION SELECT b.lane FROM millrace_line i JOIN (${behind}) b ON b.number = i.lane WHERE (i.rank, i.seq) < (b.rank, b.seq)
  UNION SELECT b.lane FROM (${behind}) b JOIN millrace_lane l ON l.number = b.number
    WHERE (b.rank, b.seq) < (l.rank, l.seq)`;
/** No input. Answer: jobs that hold permits of keys. */
const holders = `SELECT j.seq, j.state, j.keeps_lane, s.lane_key, s.lane_gates FROM millrace_job j JOIN millrace_spec s ON s.seq = j.seq
    WHERE j.${laned} AND s.lane_gates IS NOT NULL AND (${isRunning} OR (${isScheduled} AND j.keeps_lane = 1))
  UNION ALL SELECT h.seq, h.state, h.keeps_lane, s.lane_key, s.lane_gates FROM millrace_history h INDEXED BY millrace_history_keeping
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
  return { checked: found, changes: isSkipped ? 0 : mendLanes(step), last: null };
}

/** Answers how many entries were wrong. */
export function mendLanes(step: Step): number {
  if (readValue(step.statements, `SELECT 1 FROM millrace_route WHERE ${isLanedRoute} LIMIT 1`) === null)
    return 0;
  return mendLines(step) + mendResting(step.statements) + mendHeld(step);
}

type Entry = [lane: string, rank: number, seq: number];

function mendLines({ statements, commit }: Step): number {
  statements(dropDamaged).run();
  const stray = statements(strayLines).all() as unknown as Entry[];
  for (const [lane, rank, seq] of stray) refreshLane(statements, lane, (line) => line.leave({ rank, seq }));
  statements(dropOrphans).run();
  const missing = statements(missingLines).all() as unknown as Entry[];
  const found = readLanes(
    statements,
    missing.map(([, , seq]) => seq),
  );
  for (const to of found.values()) commit.lanes.push({ from: null, to });
  flushLanes(commit);
  const wrong = statements(wrongLanes).all() as [lane: string][];
  for (const [lane] of wrong) refreshLane(statements, lane, (line) => line.putBack([]));
  return stray.length + missing.length + wrong.length;
}

function mendHeld(step: Step): number {
  const { statements, now } = step;
  const changes = new Map<string, number>();
  const add = (key: string, change: number): unknown => changes.set(key, (changes.get(key) ?? 0) + change);
  for (const [key, held] of statements(readHeld).all() as [key: string, held: number][])
    if (isKeyedGate(key)) add(key, -held);
  let unnamed = 0;
  type Holder = [seq: number, state: number, keepsLane: 0 | 1, laneKey: string, laneGates: string];
  for (const [seq, state, keepsLane, laneKey, gates] of statements(holders).all() as unknown as Holder[]) {
    const laneGates = JSON.parse(gates) as NonNullable<JobRow["laneGates"]>;
    for (const use of heldOf({ state, keepsLane, laneGates })) {
      if (!isSole(use, laneKey)) add(use.key, use.weight);
      else if (mendHolder(statements, laneKey, seq)) unnamed += 1;
    }
  }
  const wrong = [...changes].filter(([, change]) => change !== 0);
  for (const [key, change] of wrong) {
    addPermits(statements, [[key, change]], now);
    wakeAtGate(step, key);
  }
  return wrong.length + unnamed;
}
