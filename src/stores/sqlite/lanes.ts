/**
 * Lanes (model/lane.ts): the ready jobs of each in their order (lane-line.ts), and its place among the others. Both
 * follow from the jobs; what calls have told of jobs with lanes is brought in before anybody looks, once per commit and
 * lane.
 */
import { isGateOfLane } from "../../model/lane.ts";
import type { KeyUse } from "../../model/lane.ts";
import type { RouteContent } from "../../model/route.ts";
import { heldOf, isInLine, isSole, keyUsesOf, permitChanges } from "../../store/rules/lane.ts";
import type { Laned, LaneMove } from "../../store/rules/lane.ts";
import { openRowSets, readValue, runRowSets } from "./connection.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { Unreadable } from "./errors.ts";
import { isHolding, releaseLanes, restsAt } from "./holders.ts";
import { addPermits, isAnyCounted, openKeyStates } from "./key-gates.ts";
import type { KeyStates } from "./key-gates.ts";
import { LaneLine, lineColumns, placeWidth, shownLineOf } from "./lane-line.ts";
import type { LineRow } from "./lane-line.ts";
import { closedGateOf, isAnyParked, wakeAtGate } from "./parked-lanes.ts";
import { readRoute } from "./routes.ts";
import { readLaneGates } from "./rows.ts";
import { isEmptyLane, isOpenLane } from "./schema.ts";
import { runOnSeqs } from "./seq-list.ts";
import type { Commit, Step } from "./step.ts";

/** Input: lane. */
const readLane = `SELECT number, queue, pos, holder, ${lineColumns} FROM millrace_lane WHERE key = ?`;
/** Inputs: lane, queue (null by rank), where it waits, place, first job. */
const insertLane = `INSERT INTO millrace_lane (key, queue, parked_at, pos, rank, seq, route, timer_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
/** Inputs: where it waits, place, line, holder, number. */
const setLine = `UPDATE millrace_lane SET parked_at = ?, pos = ?, rank = ?, seq = ?, route = ?, timer_at = ?, behind = ?,
  has_more = ?, holder = ? WHERE number = ?`;
const shownColumns = `parked_at, pos, ${lineColumns}, holder, number`;
const toExcluded = `parked_at, pos, ${lineColumns}, holder`.replaceAll(/\w+/g, "$& = excluded.$&");
/**
 * Inputs: the same of each row. Lanes are there: as rows that meet them they are written in 1.3 us, by UPDATE .. FROM,
 * which collects them in a table first, in 1.7, and one by one in 1.8.
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
  /** As it was written: it may hold the lane no more. */
  holder: number | null;
  readonly line: LaneLine;
}

/** What a change of lanes looks at. */
interface Looks extends Pick<Holds, "taken"> {
  readonly stateOf: KeyStates;
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
  const { taken, left } = holdsOf(moves);
  for (const key of left.values()) gates.set(key, false);
  moves.length = 0;
  const looks = { stateOf: openKeyStates(statements, true), taken };
  for (const [lane, all] of shifts) shiftLine(commit, lane, all, looks);
  releaseLanes(statements, [...left.keys()]);
  if (gates.size > 0 && isAnyParked(statements))
    for (const [key, isMet] of gates) wakeAtGate(commit, key, isMet);
}

interface Holds {
  /** The jobs that have taken lanes, by lane. */
  readonly taken: ReadonlyMap<string, number>;
  /** The jobs that hold their lanes no more, with the gates of their groups. */
  readonly left: ReadonlyMap<number, string>;
}

function holdsOf(moves: readonly LaneMove[]): Holds {
  const taken = new Map<string, number>();
  const left = new Map<number, string>();
  for (const { from, to } of moves) {
    const [had, has] = [soleOf(from), soleOf(to)];
    if (from !== null && had !== null && has === null) left.set(from.seq, had);
    else if (to !== null && had === null && has !== null) {
      taken.set(to.laneKey, to.seq);
      left.delete(to.seq);
    }
  }
  return { taken, left };
}

function soleOf(job: Laned | null): string | null {
  if (job === null) return null;
  return heldOf(job).find((use) => isSole(use, job.laneKey))?.key ?? null;
}

/** Running jobs with lanes have ended: they give back what they hold. They run, so they stand in no line. */
export function leaveLanes(
  { statements, now }: Pick<Step, "statements" | "now">,
  seqs: readonly number[],
): void {
  releaseLanes(statements, seqs);
  const isParked = isAnyParked(statements);
  if (!isParked && !isAnyCounted(statements)) return;
  const changes = new Map<string, number>();
  for (const { laneKey, laneGates } of readLaneGates(statements, seqs))
    for (const use of keyUsesOf({ laneGates })) {
      const back = isSole(use, laneKey) ? 0 : use.weight;
      changes.set(use.key, (changes.get(use.key) ?? 0) - back);
    }
  addPermits(statements, changes, now);
  if (isParked) for (const key of changes.keys()) wakeAtGate({ statements, now }, key);
}

function shiftLine(commit: Commit, lane: string, shifts: readonly Shift[], looks: Looks): void {
  const { statements } = commit;
  const shown = readShown(statements, lane);
  if (shown === null) {
    addLane(commit, lane, shifts, looks);
    return;
  }
  shown.holder = looks.taken.get(lane) ?? shown.holder;
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
  showFirst(statements, shown, (seq, isHeld) => {
    const uses = keyUsesOf({ laneGates: gatesOf(seq) });
    if (isHeld && uses.some((use) => isSole(use, lane))) return restsAt;
    return closedFor(commit, { lane, uses, isHeld }, looks.stateOf);
  });
}

/** The gate at which the lane waits whose first job asks for these; null for none. */
function closedFor(
  { now }: Commit,
  {
    lane,
    uses,
    isHeld,
  }: { readonly lane: string; readonly uses: readonly KeyUse[]; readonly isHeld: boolean },
  stateOf: KeyStates,
): string | null {
  if (uses.length === 0) return null;
  const byHolder = isHeld ? 1 : 0;
  return closedGateOf(uses, (key) => stateOf(key, isGateOfLane(key, lane) ? byHolder : undefined), now);
}

function gatesInSpec(statements: Statements, seq: number): Laned["laneGates"] {
  const text = readValue<string>(statements, readGates, seq);
  return text === null ? null : (JSON.parse(text) as string[]);
}

function readShown(statements: Statements, lane: string): Shown | null {
  const row = statements(readLane).get(lane) as
    | [number: number, queue: string | null, pos: number, holder: number | null, ...line: LineRow]
    | undefined;
  if (row === undefined) return null;
  const [number, queue, pos, holder, ...line] = row;
  return { number, queue, pos, holder, line: new LaneLine(statements, number, shownLineOf(line)) };
}

/**
 * As one row with its first job: as an empty one that is told its number, and then shows the job, it took twice as
 * long.
 */
function addLane(commit: Commit, lane: string, shifts: readonly Shift[], looks: Looks): void {
  const { statements } = commit;
  // Nobody leaves a lane that is not there, unless a hand in the file broke it.
  const at = shifts.findIndex(({ joins }) => joins);
  const job = shifts[at]?.job;
  if (job === undefined) return;
  const { seq, route, rank, timerAt, laneStep } = job;
  const queue = laneStep === null ? null : contentOf(commit, seq, route).queue;
  const pos = queue === null ? rank : readTurn(statements, queue);
  const parkedAt = closedFor(commit, { lane, uses: keyUsesOf(job), isHeld: false }, looks.stateOf);
  statements(insertLane).run(lane, queue, parkedAt, pos, rank, seq, route, timerAt);
  if (at + 1 < shifts.length) shiftLine(commit, lane, shifts.slice(at + 1), looks);
}

/** @param closedOf the gate at which a lane with this first job waits; told whether somebody holds the lane. */
function showFirst(
  statements: Statements,
  { number, queue, pos, holder: last, line }: Shown,
  closedOf: (seq: number, isHeld: boolean) => string | null,
): void {
  const holder = last !== null && isHolding(statements, last) ? last : null;
  const parkedAt = line.first === null ? null : closedOf(line.first.seq, holder !== null);
  writeLanes(statements, [{ number, turn: queue === null ? null : pos, parkedAt, holder, line }]);
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
  /** The gate at which it waits; null for none. One that is held and has no jobs rests. */
  readonly parkedAt: string | null;
  /** Who holds it; null for nobody. */
  readonly holder: number | null;
  readonly line: LaneLine;
}

export function writeLanes(statements: Statements, lanes: Iterable<Showing>): void {
  const values: SqlValue[] = [];
  const empty: number[] = [];
  for (const { number, turn, parkedAt, holder, line } of lanes) {
    const { first } = line;
    // An empty lane of turns keeps its turn.
    if (first === null && turn === null && holder === null) empty.push(number);
    else {
      values.push(first === null && holder !== null ? restsAt : parkedAt, turn ?? first?.rank ?? 0);
      line.pushTo(values);
      values.push(holder, number);
    }
  }
  runRowSets(statements, setLines, { values, width: 10 });
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
