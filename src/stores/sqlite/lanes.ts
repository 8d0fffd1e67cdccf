/**
 * Lanes (model/lane.ts): the ready jobs of each in their order (lane-line.ts), and its place among the others. Both follow
 * from the jobs; what calls have told of jobs with lanes is brought in before anybody looks, once per commit and lane.
 */
import type { GateState } from "../../model/gate.ts";
import type { RouteContent } from "../../model/route.ts";
import { isInLine, keyUsesOf, permitChanges } from "../../store/rules/lane.ts";
import type { Laned } from "../../store/rules/lane.ts";
import { openRowSets, readValue, runRowSets } from "./connection.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { Unreadable } from "./errors.ts";
import { addPermits, openKeyStates } from "./key-gates.ts";
import { LaneLine, lineColumns, placeWidth } from "./lane-line.ts";
import type { LineRow, Place } from "./lane-line.ts";
import { closedGateOf, isAnyParked, wakeAtGate } from "./parked-lanes.ts";
import { readRoute } from "./routes.ts";
import { isEmptyLane, isOpenLane } from "./schema.ts";
import { runOnSeqs } from "./seq-list.ts";
import type { Commit, Step } from "./step.ts";

/** Input: lane. */
const readLane = `SELECT number, queue, pos, ${lineColumns} FROM millrace_lane WHERE key = ?`;
/** Inputs: lane, queue (null by rank), where it waits, place, first job. */
const insertLane = `INSERT INTO millrace_lane (key, queue, parked_at, pos, rank, seq, route, timer_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
/** Inputs: where it waits, place, line, number. */
const setLine = `UPDATE millrace_lane SET parked_at = ?, pos = ?, rank = ?, seq = ?, route = ?, timer_at = ?, behind = ?,
  has_more = ? WHERE number = ?`;
const shownColumns = `parked_at, pos, ${lineColumns}, number`;
const toExcluded = `parked_at, pos, ${lineColumns}`.replaceAll(/\w+/g, "$& = excluded.$&");
/**
 * Inputs: the same of each row. Lanes are there: as rows that meet them they are written in 1.3 us, by UPDATE .. FROM, which
 * collects them in a table first, in 1.7, and one by one in 1.8.
 */
const setLines = openRowSets(
  shownColumns,
  (
    set,
  ) => `WITH ${set} INSERT INTO millrace_lane (key, ${shownColumns}) SELECT '', ${shownColumns} FROM e WHERE true
    ON CONFLICT (number) DO UPDATE SET ${toExcluded}`,
  setLine,
);
/** Inputs: what follows the first job, number. Its first job is the same. */
const setBehind = "UPDATE millrace_lane SET behind = ?, has_more = ? WHERE number = ?";
/** Input: seq. Answer: the gates of its keys. */
const readGates = "SELECT lane_gates FROM millrace_spec WHERE seq = ?";
/** Inputs: the numbers. */
const dropLanes = "DELETE FROM millrace_lane";
/** Input: queue. Answer: the turn that it has reached. */
const readTop = "SELECT top FROM millrace_turn WHERE queue = ?";

/** A lane as it was shown. */
interface Shown {
  readonly number: number;
  /** Null for one that goes by rank. */
  readonly queue: string | null;
  readonly pos: number;
  readonly line: LaneLine;
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

/** Of jobs that have ended, by the gates of their keys. */
export function givePermitsBack(
  { statements, now }: Pick<Step, "statements" | "now">,
  gatesOfJobs: readonly (readonly string[])[],
): void {
  const changes = new Map<string, number>();
  for (const laneGates of gatesOfJobs)
    for (const { key, weight } of keyUsesOf({ laneGates }))
      changes.set(key, (changes.get(key) ?? 0) - weight);
  if (changes.size === 0) return;
  addPermits(statements, changes, now);
  if (isAnyParked(statements)) for (const key of changes.keys()) wakeAtGate({ statements, now }, key);
}

function shiftLine(
  commit: Commit,
  lane: string,
  shifts: readonly Shift[],
  stateOf: (key: string) => GateState,
): void {
  const { statements, now } = commit;
  const shown = readShown(statements, lane);
  if (shown === null) {
    addLane(commit, lane, shifts, stateOf);
    return;
  }
  const { line, number } = shown;
  const [from, to]: [SqlValue[], SqlValue[]] = [[], []];
  line.pushTo(from);
  for (const { job, joins } of shifts) {
    const { rank, seq, route, timerAt } = job;
    if (joins) line.join({ rank, seq, route, timerAt });
    else line.leave(job);
  }
  line.pushTo(to);
  const changed = to.findIndex((value, at) => value !== from[at]);
  if (changed < 0) return;
  if (changed >= placeWidth) {
    statements(setBehind).run(...to.slice(placeWidth), number);
    return;
  }
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

function readShown(statements: Statements, lane: string): Shown | null {
  const row = statements(readLane).get(lane) as
    | [number: number, queue: string | null, pos: number, ...line: LineRow]
    | undefined;
  if (row === undefined) return null;
  const [number, queue, pos, ...line] = row;
  return { number, queue, pos, line: new LaneLine(statements, number, line) };
}

/** As one row with its first job: as an empty one that is told its number, and then shows the job, it took twice as long. */
function addLane(
  commit: Commit,
  lane: string,
  shifts: readonly Shift[],
  stateOf: (key: string) => GateState,
): void {
  const { statements, now } = commit;
  // Nobody leaves a lane that is not there, unless a hand in the file broke it.
  const at = shifts.findIndex(({ joins }) => joins);
  const job = shifts[at]?.job;
  if (job === undefined) return;
  const { seq, route, rank, timerAt, laneStep } = job;
  const queue = laneStep === null ? null : contentOf(commit, seq, route).queue;
  const pos = queue === null ? rank : readTurn(statements, queue);
  const parkedAt = closedGateOf(keyUsesOf(job), stateOf, now);
  statements(insertLane).run(lane, queue, parkedAt, pos, rank, seq, route, timerAt);
  if (at + 1 < shifts.length) shiftLine(commit, lane, shifts.slice(at + 1), stateOf);
}

/** @param closedFor the gate at which a lane with this first job waits. */
function showFirst(
  statements: Statements,
  { number, queue, pos, line }: Shown,
  closedFor: (seq: number) => string | null,
): void {
  const parkedAt = line.first === null ? null : closedFor(line.first.seq);
  writeLanes(statements, [{ number, turn: queue === null ? null : pos, parkedAt, line }]);
}

/** Shows a lane whose line was changed behind the back of its jobs. */
export function refreshLane(statements: Statements, lane: string, change: (line: LaneLine) => void): void {
  const shown = readShown(statements, lane);
  if (shown === null) return;
  change(shown.line);
  showFirst(statements, shown, () => null);
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

/** A lane that shows another job. */
export interface Showing {
  readonly number: number;
  /** Its turn from now on; null by rank. */
  readonly turn: number | null;
  /** The gate at which it waits; null for none. */
  readonly parkedAt: string | null;
  readonly line: LaneLine;
}

export function writeLanes(statements: Statements, lanes: Iterable<Showing>): void {
  const values: SqlValue[] = [];
  const empty: number[] = [];
  for (const { number, turn, parkedAt, line } of lanes) {
    const { first } = line;
    // An empty lane of turns keeps its turn.
    if (first === null && turn === null) empty.push(number);
    else {
      values.push(parkedAt, turn ?? (first as Place).rank);
      line.pushTo(values);
      values.push(number);
    }
  }
  runRowSets(statements, setLines, { values, width: 9 });
  runOnSeqs(statements, dropLanes, empty, undefined, "number");
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
