/**
 * Who holds a lane. Of a group that runs one job at a time the lane names the job that took the permit last, and
 * whether it still has it is read from that job: it does while it runs, and while it keeps its lane (`heldOf` of
 * store/rules/lane.ts). So a claim writes it with the row of the lane that it writes anyway, the end of a job writes
 * nothing of it, and nothing can leak.
 *
 *   millrace_lane: holder      seq of that job; null for none
 *                  parked_at   empty for a lane that rests: a claim has met it while its holder had the permit, or
 *                              nobody else stands in its line. Whoever ends the hold opens it, or takes the row away
 *
 * That is so for `isSole` uses only, in lanes by rank. What others hold of the same gate is counted by key
 * (key-gates.ts).
 */
import { laneOfGate } from "../../model/lane.ts";
import { readValue } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { isKeeping, isRestingLane, isRunning } from "./schema.ts";
import { runOnSeqs } from "./seq-list.ts";

/** Where a lane waits that rests. */
export const restsAt = "";

/** Whether the live job with this seq holds what it took; null where it is not live. */
export const holdsLive = (seq: string): string =>
  `(SELECT ${isRunning} OR ${isKeeping} FROM millrace_job WHERE seq = ${seq})`;
/** Input: seq. */
const readLive = `SELECT ${holdsLive("?")}`;
/** Input: seq. Answer: a row for a finished job that holds on. */
const readKept = `SELECT 1 FROM millrace_history WHERE seq = ? AND ${isKeeping}`;
const hasKept = `SELECT 1 FROM millrace_history INDEXED BY millrace_history_keeping WHERE ${isKeeping} LIMIT 1`;
/** Input: lane. */
const readHolder = "SELECT holder FROM millrace_lane WHERE key = ?";

const resting = `millrace_lane INDEXED BY millrace_lane_resting`;
const hasResting = `SELECT 1 FROM ${resting} WHERE ${isRestingLane} LIMIT 1`;
/** Inputs: the holders. */
const dropResting = `DELETE FROM ${resting}`;
const openResting = `UPDATE ${resting} SET parked_at = NULL`;

/** Whether a finished job holds the lane on; most stores have none, which is known by one look per call. */
export function openKeptHolders(statements: Statements): (seq: number) => boolean {
  let isAny: boolean | null = null;
  return (seq) => {
    isAny ??= readValue(statements, hasKept) !== null;
    return isAny && readValue(statements, readKept, seq) !== null;
  };
}

export function isHolding(statements: Statements, seq: number): boolean {
  const live = readValue<number>(statements, readLive, seq);
  return live === null ? readValue(statements, readKept, seq) !== null : live === 1;
}

/** How much of the gate of a group is held by the holder of its lane. */
export function heldByHolder(statements: Statements, key: string): 0 | 1 {
  const holder = readValue<number>(statements, readHolder, laneOfGate(key));
  return holder !== null && isHolding(statements, holder) ? 1 : 0;
}

/** These jobs hold their lanes no more: lanes that rest are shown again, and those without jobs go. */
export function releaseLanes(statements: Statements, seqs: readonly number[]): void {
  if (seqs.length === 0 || readValue(statements, hasResting) === null) return;
  runOnSeqs(statements, dropResting, seqs, undefined, `${isRestingLane} AND route IS NULL AND holder`);
  runOnSeqs(statements, openResting, seqs, undefined, `${isRestingLane} AND holder`);
}

/** No input. Lanes that rest although nobody holds them. */
const isForgotten = `${isRestingLane} AND ifnull(${holdsLive("millrace_lane.holder")}, 0) = 0
  AND NOT EXISTS (SELECT 1 FROM millrace_history h WHERE h.seq = millrace_lane.holder AND h.${isKeeping})`;
/** Inputs: holder, lane. */
const setHolder = `UPDATE millrace_lane SET holder = ?, parked_at = CASE WHEN route IS NULL THEN '${restsAt}' ELSE parked_at END
  WHERE key = ?`;
/** Inputs: lane, holder. A lane in which nobody stands. */
const addHeld = `INSERT INTO millrace_lane (key, pos, parked_at, holder) VALUES (?, 0, '${restsAt}', ?)`;

/** Shows lanes that rest for nobody. Answers how many there were. */
export function mendResting(statements: Statements): number {
  const dropped = statements(`DELETE FROM millrace_lane WHERE ${isForgotten} AND route IS NULL`).run();
  const opened = statements(`UPDATE millrace_lane SET parked_at = NULL WHERE ${isForgotten}`).run();
  return Number(dropped.changes) + Number(opened.changes);
}

/** The lane names this job, which holds it. Answers whether it did not. */
export function mendHolder(statements: Statements, lane: string, seq: number): boolean {
  const named = readValue<number>(statements, readHolder, lane);
  if (named !== null && (named === seq || isHolding(statements, named))) return false;
  if (Number(statements(setHolder).run(seq, lane).changes) === 0) statements(addHeld).run(lane, seq);
  return true;
}
