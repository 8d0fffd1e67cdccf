/**
 * Lanes (model/lane.ts): the ready jobs of each in their order (millrace_line), and of each its first job and its place
 * among the others (millrace_lane). Both follow from the jobs; what calls have told of jobs with lanes is brought in
 * before anybody looks, once per commit and lane.
 */
import type { RouteContent } from "../../model/route.ts";
import { isInLine, keyUsesOf, permitChanges } from "../../store/rules/lane.ts";
import type { Laned } from "../../store/rules/lane.ts";
import { readValue } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { Unreadable } from "./errors.ts";
import { addPermits } from "./key-gates.ts";
import { wakeAtGate } from "./parked-lanes.ts";
import { readRoute } from "./routes.ts";
import { isEmptyLane } from "./schema.ts";
import type { Commit } from "./step.ts";

/** Inputs: lane, rank, seq, route. */
const addToLine = "INSERT OR REPLACE INTO millrace_line (lane, rank, seq, route) VALUES (?, ?, ?, ?)";
/** Inputs: lane, rank, seq. */
const takeFromLine = "DELETE FROM millrace_line WHERE lane = ? AND rank = ? AND seq = ?";
/** Input: lane. Answer: its first job. */
const readFirst = "SELECT rank, seq, route FROM millrace_line WHERE lane = ? ORDER BY rank, seq LIMIT 1";
/** Input: lane. */
const readLane = "SELECT queue, pos, route, seq, parked_at FROM millrace_lane WHERE key = ?";
/** Inputs: lane, queue (null by rank), place, route, first job, where it waits. */
const writeLane =
  "INSERT OR REPLACE INTO millrace_lane (key, queue, pos, route, seq, parked_at) VALUES (?, ?, ?, ?, ?, ?)";
const dropLane = "DELETE FROM millrace_lane WHERE key = ?";
/** An empty lane of turns keeps its turn. */
const emptyLane = "UPDATE millrace_lane SET route = NULL, seq = NULL, parked_at = NULL WHERE key = ?";
/** Input: queue. Answer: the turn that it has reached. */
const readTop = "SELECT top FROM millrace_turn WHERE queue = ?";

type First = readonly [rank: number, seq: number, route: number];
type LaneRow = readonly [
  queue: string | null,
  pos: number,
  route: number | null,
  seq: number | null,
  parkedAt: string | null,
];

/** Brings in what was told of jobs with lanes. */
export function flushLanes(commit: Commit): void {
  const { statements, lanes: moves, now } = commit;
  const lanes = new Set<string>();
  const gates = new Set<string>();
  for (const { from, to } of moves) {
    moveInLine(statements, from, to);
    for (const job of [from, to]) {
      if (job === null) continue;
      lanes.add(job.laneKey);
      for (const { key } of keyUsesOf(job)) gates.add(key);
    }
  }
  for (const [key, change] of permitChanges(moves))
    if (change !== 0) addPermits(statements, key, change, now);
  moves.length = 0;
  for (const lane of lanes) refreshLane(commit, lane);
  for (const key of gates) wakeAtGate(commit, key);
}

function moveInLine(statements: Statements, from: Laned | null, to: Laned | null): void {
  const was = from !== null && isInLine(from) ? from : null;
  const is = to !== null && isInLine(to) ? to : null;
  const isSame =
    was !== null &&
    is !== null &&
    was.laneKey === is.laneKey &&
    was.rank === is.rank &&
    was.route === is.route;
  if (isSame) return;
  if (was !== null) statements(takeFromLine).run(was.laneKey, was.rank, was.seq);
  if (is !== null) statements(addToLine).run(is.laneKey, is.rank, is.seq, is.route);
}

/** A lane shows its first job, wherever that stands; one whose first job has changed waits at no gate. */
export function refreshLane(commit: Pick<Commit, "statements" | "routes">, lane: string): void {
  const { statements } = commit;
  const first = statements(readFirst).get(lane) as First | undefined;
  const row = statements(readLane).get(lane) as LaneRow | undefined;
  if (first === undefined) {
    if (row !== undefined) statements(row[0] === null ? dropLane : emptyLane).run(lane);
    return;
  }
  const [rank, seq, route] = first;
  const { queue, lanes } = contentOf(commit, seq, route);
  const isByTurn = lanes === "turn";
  const pos = isByTurn ? (row?.[1] ?? readTurn(statements, queue)) : rank;
  const isSame = row !== undefined && row[3] === seq && row[2] === route;
  if (isSame && row[1] === pos) return;
  statements(writeLane).run(lane, isByTurn ? queue : null, pos, route, seq, isSame ? row[4] : null);
}

function contentOf(
  { statements, routes }: Pick<Commit, "statements" | "routes">,
  seq: number,
  route: number,
): RouteContent {
  const content = readRoute(statements, routes, route);
  if (content === null) throw new Unreadable("job", seq, "the content of its route is missing");
  return content;
}

export function readTurn(statements: Statements, queue: string): number {
  return readValue<number>(statements, readTop, queue) ?? 0;
}

/** Inputs: turn, lane. */
const setTurn = "UPDATE millrace_lane SET pos = ? WHERE key = ?";
/** Inputs: queue, turn. */
const setTop = "INSERT OR REPLACE INTO millrace_turn (queue, top) VALUES (?, ?)";
/** Inputs: queue, its turn. */
const forgetEmpty = `DELETE FROM millrace_lane WHERE ${isEmptyLane} AND queue = ? AND pos <= ?`;

/** The turns that lanes have after a claim. */
export function writeTurns(statements: Statements, turns: ReadonlyMap<string, number>): void {
  for (const [lane, turn] of turns) statements(setTurn).run(turn, lane);
}

/** What queues have reached; empty lanes that are not ahead of it are forgotten. */
export function writeTops(statements: Statements, tops: ReadonlyMap<string, number>): void {
  for (const [queue, top] of tops) {
    statements(setTop).run(queue, top);
    statements(forgetEmpty).run(queue, top);
  }
}
