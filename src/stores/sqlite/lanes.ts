/**
 * Lanes (model/lane.ts): the ready jobs of each in their order (millrace_line), and of each its first job and its place
 * among the others (millrace_lane). Both follow from the jobs; what calls have told of jobs with lanes is brought in
 * before anybody looks, once per commit and lane.
 */
import type { GateState } from "../../model/gate.ts";
import type { RouteContent } from "../../model/route.ts";
import { isInLine, keyUsesOf, permitChanges } from "../../store/rules/lane.ts";
import type { Laned } from "../../store/rules/lane.ts";
import { openRowSets, readValue, runRowSets } from "./connection.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { Unreadable } from "./errors.ts";
import { addPermits, openKeyStates } from "./key-gates.ts";
import { closedGateOf, isAnyParked, wakeAtGate } from "./parked-lanes.ts";
import { readRoute } from "./routes.ts";
import { isEmptyLane, isOpenLane } from "./schema.ts";
import type { Commit } from "./step.ts";

const lineColumns = "rank, seq, route, timer_at";
/** Inputs: number of the lane, then those. */
const addToLine = `INSERT OR REPLACE INTO millrace_line (lane, ${lineColumns}) VALUES (?, ?, ?, ?, ?)`;
/** Inputs: number of the lane, rank, seq. */
const takeFromLine = "DELETE FROM millrace_line WHERE lane = ? AND rank = ? AND seq = ?";
/** Input: number of the lane. Answer: its first job. */
const readFirst = `SELECT ${lineColumns} FROM millrace_line WHERE lane = ? ORDER BY rank, seq LIMIT 1`;
/** Input: lane. */
const readLane = "SELECT number, queue, pos, rank, seq FROM millrace_lane WHERE key = ?";
/** Inputs: lane, queue (null by rank), place. Answer: its number. */
const addLane = "INSERT INTO millrace_lane (key, queue, pos) VALUES (?, ?, ?) RETURNING number";
/** Inputs: where it waits, place, first job, number. */
const setFirst = `UPDATE millrace_lane SET parked_at = ?, pos = ?, rank = ?, seq = ?, route = ?, timer_at = ?
  WHERE number = ?`;
/** Inputs: the same of each row. */
const setFirsts = openRowSets(
  "parked_at, pos, rank, seq, route, timer_at, number",
  (
    set,
  ) => `WITH ${set} UPDATE millrace_lane SET parked_at = e.parked_at, pos = e.pos, rank = e.rank, seq = e.seq,
    route = e.route, timer_at = e.timer_at FROM e WHERE millrace_lane.number = e.number`,
  setFirst,
);
/** Input: seq. Answer: the gates of its keys. */
const readGates = "SELECT lane_gates FROM millrace_spec WHERE seq = ?";
/** Input: number. */
const dropLane = "DELETE FROM millrace_lane WHERE number = ?";
/** Input: queue. Answer: the turn that it has reached. */
const readTop = "SELECT top FROM millrace_turn WHERE queue = ?";

export type First = readonly [rank: number, seq: number, route: number, timerAt: number | null];
const nobody = [null, null, null, null] as const;

/** A lane as it was shown. */
interface Shown {
  readonly number: number;
  /** Null for one that goes by rank. */
  readonly queue: string | null;
  readonly pos: number;
  readonly rank: number | null;
  readonly seq: number | null;
}

/** A job that joins the line of its lane or leaves it. */
interface Shift {
  readonly job: Laned;
  readonly joins: boolean;
}

/** Brings in what was told of jobs with lanes. */
export function flushLanes(commit: Commit): void {
  const { statements, lanes: moves, now } = commit;
  /** By lane, in order. */
  const shifts = new Map<string, Shift[]>();
  /** Keys that the moved jobs ask for; false for those of which permits came back. */
  const gates = new Map<string, boolean>();
  const shift = (job: Laned | null, joins: boolean): void => {
    if (job === null || !isInLine(job)) return;
    const known = shifts.get(job.laneKey);
    if (known === undefined) shifts.set(job.laneKey, [{ job, joins }]);
    else known.push({ job, joins });
  };
  for (const { from, to } of moves) {
    for (const job of [from, to])
      for (const { key } of job === null ? [] : keyUsesOf(job)) gates.set(key, true);
    shift(from, false);
    shift(to, true);
  }
  const changes = permitChanges(moves);
  addPermits(statements, changes, now);
  for (const [key, change] of changes) {
    // Who takes a permit makes no room.
    if (change > 0) gates.delete(key);
    if (change < 0) gates.set(key, false);
  }
  moves.length = 0;
  const stateOf = openKeyStates(statements, true);
  for (const [lane, all] of shifts) shiftLine(commit, lane, all, stateOf);
  if (gates.size > 0 && isAnyParked(statements))
    for (const [key, isMet] of gates) wakeAtGate(commit, key, isMet);
}

function shiftLine(
  commit: Commit,
  lane: string,
  shifts: readonly Shift[],
  stateOf: (key: string) => GateState,
): void {
  const { statements, now } = commit;
  const shown = readShown(statements, lane) ?? addShown(commit, lane, (shifts[0] as Shift).job);
  const { number } = shown;
  let isFirstSame = shown.seq !== null;
  for (const { job, joins } of shifts) {
    const { rank, seq, route, timerAt } = job;
    if (joins) statements(addToLine).run(number, rank, seq, route, timerAt);
    else statements(takeFromLine).run(number, rank, seq);
    isFirstSame &&= joins ? !isAhead(job, shown) : seq !== shown.seq;
  }
  if (isFirstSame) return;
  const gatesOf = (seq: number): Laned["laneGates"] => {
    const known = shifts.find(({ job }) => job.seq === seq)?.job;
    return known === undefined ? gatesInSpec(statements, seq) : known.laneGates;
  };
  showFirst(statements, shown, (seq) => closedGateOf(keyUsesOf({ laneGates: gatesOf(seq) }), stateOf, now));
}

function gatesInSpec(statements: Statements, seq: number): Laned["laneGates"] {
  const text = readValue<string>(statements, readGates, seq);
  return text === null ? null : (JSON.parse(text) as string[]);
}

function isAhead(job: Laned, { rank, seq }: Shown): boolean {
  return rank === null || seq === null || job.rank < rank || (job.rank === rank && job.seq < seq);
}

function readShown(statements: Statements, lane: string): Shown | null {
  const row = statements(readLane).get(lane) as
    | [number: number, queue: string | null, pos: number, rank: number | null, seq: number | null]
    | undefined;
  if (row === undefined) return null;
  const [number, queue, pos, rank, seq] = row;
  return { number, queue, pos, rank, seq };
}

function addShown(commit: Commit, lane: string, { seq, route, rank, laneStep }: Laned): Shown {
  const { statements } = commit;
  const queue = laneStep === null ? null : contentOf(commit, seq, route).queue;
  const pos = queue === null ? rank : readTurn(statements, queue);
  const number = readValue<number>(statements, addLane, lane, queue, pos) as number;
  return { number, queue, pos, rank: null, seq: null };
}

/** @param closedFor the gate at which a lane with this first job waits. */
function showFirst(
  statements: Statements,
  { number, queue, pos }: Shown,
  closedFor: (seq: number) => string | null,
): void {
  const first = statements(readFirst).get(number) as First | undefined;
  if (first !== undefined)
    statements(setFirst).run(closedFor(first[1]), queue === null ? first[0] : pos, ...first, number);
  // An empty lane of turns keeps its turn.
  else if (queue === null) statements(dropLane).run(number);
  else statements(setFirst).run(null, pos, ...nobody, number);
}

/** Shows the first job of a lane that may show another one. */
export function refreshLane(statements: Statements, lane: string): void {
  const shown = readShown(statements, lane);
  if (shown !== null) showFirst(statements, shown, () => null);
}

function contentOf({ statements, routes }: Commit, seq: number, route: number): RouteContent {
  const content = readRoute(statements, routes, route);
  if (content === null) throw new Unreadable("job", seq, "the content of its route is missing");
  return content;
}

export function readTurn(statements: Statements, queue: string): number {
  return readValue<number>(statements, readTop, queue) ?? 0;
}

/** Input: route. */
const readOpen = `SELECT 1 FROM millrace_lane INDEXED BY millrace_lane_open WHERE ${isOpenLane} AND route = ? LIMIT 1`;

export function hasOpenLane(statements: Statements, routes: readonly number[]): boolean {
  return routes.some((route) => readValue(statements, readOpen, route) !== null);
}

/** A lane of which a claim has taken the first jobs. */
export interface Served {
  readonly number: number;
  /** Its turn from now on; null by rank. */
  readonly turn: number | null;
  /** The gate at which its next job was refused; null for none. */
  parkedAt: string | null;
  /** What stands behind the last that was taken, null for nobody; undefined where the claim has not looked. */
  readonly next: First | null | undefined;
}

/**
 * Takes these jobs out of their lines, one by one: as sets it takes as long. Their lanes show the next, as sets: 1.4 us a
 * lane instead of 2.5; from a list in JSON it took twice as long.
 */
export function serveLanes(
  statements: Statements,
  taken: readonly { readonly number: number; readonly rank: number; readonly seq: number }[],
  served: Iterable<Served>,
): void {
  const leave = statements(takeFromLine);
  for (const { number, rank, seq } of taken) leave.run(number, rank, seq);
  const values: SqlValue[] = [];
  for (const { number, turn, parkedAt, next } of served) {
    const first = next === undefined ? (statements(readFirst).get(number) as First | undefined) : next;
    if (first !== undefined && first !== null) values.push(parkedAt, turn ?? first[0], ...first, number);
    // An empty lane of turns keeps its turn.
    else if (turn === null) statements(dropLane).run(number);
    else values.push(null, turn, ...nobody, number);
  }
  runRowSets(statements, setFirsts, { values, width: 7 });
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
