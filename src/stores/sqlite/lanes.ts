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

/** Of a job in line all that a claim needs to know before it takes the job. */
const lineColumns = "rank, seq, route, timer_at, step, gates";
/** Inputs: lane, then those. */
const addToLine = `INSERT OR REPLACE INTO millrace_line (lane, ${lineColumns}) VALUES (?, ?, ?, ?, ?, ?, ?)`;
/** Inputs: lane, rank, seq. */
const takeFromLine = "DELETE FROM millrace_line WHERE lane = ? AND rank = ? AND seq = ?";
/** Input: lane. Answer: its first job. */
const readFirst = `SELECT ${lineColumns} FROM millrace_line WHERE lane = ? ORDER BY rank, seq LIMIT 1`;
/** Input: lane. */
const readLane = "SELECT queue, pos, rank, seq FROM millrace_lane WHERE key = ?";
/** Inputs: lane, queue (null by rank), place, first job. */
const addLane = `INSERT INTO millrace_lane (key, queue, pos, ${lineColumns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`;
/** Inputs: place, first job, lane. Whose first job has changed waits at no gate. */
const setFirst = `UPDATE millrace_lane SET parked_at = NULL, pos = ?, (${lineColumns}) = (?, ?, ?, ?, ?, ?) WHERE key = ?`;
const dropLane = "DELETE FROM millrace_lane WHERE key = ?";
/** Inputs: place, lane. An empty lane of turns keeps its turn. */
const emptyLane = `UPDATE millrace_lane SET parked_at = NULL, pos = ?, (${lineColumns}) = (NULL, NULL, NULL, NULL, NULL, NULL)
  WHERE key = ?`;
/** Input: queue. Answer: the turn that it has reached. */
const readTop = "SELECT top FROM millrace_turn WHERE queue = ?";

type First = readonly [
  rank: number,
  seq: number,
  route: number,
  timerAt: number | null,
  step: number | null,
  gates: string | null,
];
type LaneRow = readonly [queue: string | null, pos: number, rank: number | null, seq: number | null];

/** What has happened in the line of one lane. */
interface Shift {
  /** Seqs that have left it. */
  readonly left: Set<number>;
  /** The first of those that have joined it. */
  joined: Pick<Laned, "rank" | "seq"> | null;
}

/**
 * Brings in what was told of jobs with lanes.
 * @param turns the turns that lanes have had since.
 */
export function flushLanes(commit: Commit, turns: ReadonlyMap<string, number> = new Map()): void {
  const { statements, lanes: moves, now } = commit;
  const shifts = new Map<string, Shift>();
  const gates = new Set<string>();
  const shiftOf = (lane: string): Shift => {
    const shift = shifts.get(lane) ?? { left: new Set(), joined: null };
    shifts.set(lane, shift);
    return shift;
  };
  for (const { from, to } of moves) {
    for (const job of [from, to]) for (const { key } of job === null ? [] : keyUsesOf(job)) gates.add(key);
    const was = from !== null && isInLine(from) ? from : null;
    const is = to !== null && isInLine(to) ? to : null;
    if (was !== null) leaveLine(statements, was, shiftOf(was.laneKey));
    if (is !== null) joinLine(statements, is, shiftOf(is.laneKey));
  }
  for (const [key, change] of permitChanges(moves))
    if (change !== 0) addPermits(statements, key, change, now);
  moves.length = 0;
  for (const [lane, shift] of shifts) {
    const row = statements(readLane).get(lane) as LaneRow | undefined;
    if (row === undefined || isFirstChanged(row, shift)) showFirst(commit, lane, row, turns.get(lane));
  }
  for (const key of gates) wakeAtGate(commit, key);
}

function leaveLine(statements: Statements, { laneKey, rank, seq }: Laned, shift: Shift): void {
  statements(takeFromLine).run(laneKey, rank, seq);
  shift.left.add(seq);
}

function joinLine(statements: Statements, job: Laned, shift: Shift): void {
  const { laneKey, rank, seq, route, timerAt, laneStep, laneGates } = job;
  const gates = laneGates === null ? null : JSON.stringify(laneGates);
  statements(addToLine).run(laneKey, rank, seq, route, timerAt, laneStep, gates);
  const { joined } = shift;
  if (joined === null || rank < joined.rank || (rank === joined.rank && seq < joined.seq)) shift.joined = job;
}

function isFirstChanged([, , rank, seq]: LaneRow, { left, joined }: Shift): boolean {
  if (rank === null || seq === null || left.has(seq)) return true;
  return joined !== null && (joined.rank < rank || (joined.rank === rank && joined.seq < seq));
}

/** A lane shows its first job, wherever that stands. */
export function refreshLane(commit: Pick<Commit, "statements" | "routes">, lane: string): void {
  showFirst(commit, lane, commit.statements(readLane).get(lane) as LaneRow | undefined);
}

/** @param turn that of the lane, where it has changed. */
function showFirst(
  commit: Pick<Commit, "statements" | "routes">,
  lane: string,
  row: LaneRow | undefined,
  turn?: number,
): void {
  const { statements } = commit;
  const first = statements(readFirst).get(lane) as First | undefined;
  if (first === undefined) {
    if (row === undefined) return;
    const [queue, pos] = row;
    if (queue === null) statements(dropLane).run(lane);
    else statements(emptyLane).run(turn ?? pos, lane);
    return;
  }
  const [rank, seq, route, , step] = first;
  const isByTurn = step !== null;
  if (row !== undefined) {
    statements(setFirst).run(isByTurn ? (turn ?? row[1]) : rank, ...first, lane);
    return;
  }
  const { queue } = contentOf(commit, seq, route);
  statements(addLane).run(
    lane,
    isByTurn ? queue : null,
    isByTurn ? readTurn(statements, queue) : rank,
    ...first,
  );
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

/** Inputs: queue, turn. */
const setTop = "INSERT OR REPLACE INTO millrace_turn (queue, top) VALUES (?, ?)";
/** Inputs: queue, its turn. */
const forgetEmpty = `DELETE FROM millrace_lane WHERE ${isEmptyLane} AND queue = ? AND pos <= ?`;

/** What queues have reached; empty lanes that are not ahead of it are forgotten. */
export function writeTops(statements: Statements, tops: ReadonlyMap<string, number>): void {
  for (const [queue, top] of tops) {
    statements(setTop).run(queue, top);
    statements(forgetEmpty).run(queue, top);
  }
}
