/**
 * Lanes (model/routing/lane.ts): the ready jobs of each in their order (lane-lines.ts), and its position among the
 * others. Both follow from the jobs. What the calls of a commit changed of jobs with lanes is written before anything
 * reads lanes, once per commit and lane. store/rules/gates/lanes.ts decides.
 */
import type { RouteContent } from "../../../model/routing/route.ts";
import { isInLine, keyUsesOf, permitChanges } from "../../../store/rules/gates/lane-change.ts";
import type { Laned } from "../../../store/rules/gates/lane-change.ts";
import { forgottenTurn, isAhead, joinTurn, positionOf, waitsAt } from "../../../store/rules/gates/lanes.ts";
import { openRowSets, readValue, runRowSets } from "../connection/connection.ts";
import type { SqlValue, Statements } from "../connection/connection.ts";
import { Unreadable } from "../connection/errors.ts";
import { addPermits, openKeyStates } from "../limits/key-gates.ts";
import type { KeyStates } from "../limits/key-gates.ts";
import { firstInLine, joinLines, leaveLine, placeColumns, valuesOf } from "./lane-lines.ts";
import type { InLine, Place } from "./lane-lines.ts";
import { readRoute } from "../jobs/routes.ts";
import { readLaneGates } from "../jobs/job-rows.ts";
import { isEmptyLane, isOpenLane } from "../connection/schema.ts";
import { runOnSeqs } from "../connection/seq-list.ts";
import type { Commit, Step } from "../connection/transaction.ts";
import { isAnyWaiting, releaseLanes } from "./waiting-lanes.ts";
import { sql } from "../../../store/sql.ts";

/** Input: lane. */
const readLane = sql`SELECT number, queue, pos, ${placeColumns} FROM millrace_lane WHERE key = ?`;
const readHighest = "SELECT max(number) FROM millrace_lane";
const laneColumns = `number, key, queue, waits_at, pos, ${placeColumns}`;
const lanesSql = (rows: string): string =>
  sql`INSERT INTO millrace_lane (${laneColumns}) ${rows} ON CONFLICT (number) DO UPDATE SET
    ${`waits_at, pos, ${placeColumns}`.replaceAll(/\w+/g, "$& = excluded.$&")}`;
/** Inputs of each row: these. Key and queue of a lane that is there stay. */
const setLanes = openRowSets(
  laneColumns,
  (set) => `WITH ${set} ${lanesSql(`SELECT ${laneColumns} FROM e WHERE true`)}`,
  lanesSql("VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
);
/** Input: seq. Answer: the gates of its keys. */
const readGates = "SELECT lane_gates FROM millrace_spec WHERE seq = ?";
/** Inputs: the numbers. */
const dropLanes = "DELETE FROM millrace_lane";
/** Input: queue. Answer: the turn that it has reached. */
const readTurn = "SELECT top FROM millrace_turn WHERE queue = ?";

/** A lane as it is written. */
interface LaneRow {
  readonly number: number;
  /** Its key and queue if it is new; the queue is null by rank. */
  readonly isNew?: { readonly key: string; readonly queue: string | null };
  /** Null by rank. */
  readonly turn: number | null;
  readonly first: Place | null;
  /** The gate at which it waits; null for an open or an empty one. */
  readonly waitsAt: string | null;
}

/** A job that joins the line of its lane or leaves it. */
interface Shift {
  readonly job: Laned;
  readonly joins: boolean;
}

/** Writes what the calls so far have changed of jobs with lanes. */
export function flushLanes(commit: Commit): void {
  const { statements, lanes: moves, now } = commit;
  /** By lane, in order. */
  const shifts = new Map<string, Shift[]>();
  /** Keys that the moved jobs ask for, and whether no permit of them came back. */
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
    // A taken permit makes no room.
    if (change > 0) gates.delete(key);
    if (change < 0) gates.set(key, false);
  }
  moves.length = 0;
  const stateOf = openKeyStates(statements, true);
  if (shifts.size > 0) shiftLines(commit, shifts, stateOf);
  if (gates.size > 0 && isAnyWaiting(statements)) releaseLanes(commit, gates, stateOf);
}

/** Running jobs with lanes have ended: they give back what they hold. They run, so they are in no line. */
export function leaveLanes(step: Pick<Step, "statements" | "now">, seqs: readonly number[]): void {
  const { statements, now } = step;
  const changes = new Map<string, number>();
  for (const job of readLaneGates(statements, seqs))
    for (const { key, weight } of keyUsesOf(job)) changes.set(key, (changes.get(key) ?? 0) - weight);
  if (changes.size === 0) return;
  addPermits(statements, changes, now);
  if (isAnyWaiting(statements))
    releaseLanes(
      step,
      [...changes.keys()].map((key) => [key, false] as const),
    );
}

function shiftLines(commit: Commit, shifts: ReadonlyMap<string, readonly Shift[]>, stateOf: KeyStates): void {
  const { statements } = commit;
  const joining: InLine[] = [];
  const changed: (() => LaneRow)[] = [];
  let highest: number | null = null;
  for (const [key, all] of shifts) {
    const known = readShown(statements, key);
    const last = lastOfEach(all);
    const joins = last.filter(({ joins: isJoin }) => isJoin).map(({ job }) => job);
    if (known === null && joins.length === 0) continue;
    const number =
      known?.number ?? (highest = (highest ?? readValue<number>(statements, readHighest) ?? 0) + 1);
    for (const { job, joins: isJoin } of last) if (!isJoin) leaveLine(statements, number, job);
    for (const job of joins) joining.push({ lane: number, place: placeOf(job) });
    const shown = known?.first ?? null;
    const hasLost = last.some(({ job, joins: isJoin }) => !isJoin && job.seq === shown?.seq);
    // Also the first job itself, with another clock.
    const isFirst = (job: Laned): boolean => shown === null || !isAhead(shown, job);
    if (!hasLost && !joins.some(isFirst)) continue;
    const row = known ?? newLane(commit, number, key, joins[0] as Laned);
    changed.push(() => ({ ...row, ...firstOf(commit, number, all, stateOf) }));
  }
  joinLines(statements, joining);
  writeLanes(
    statements,
    changed.map((row) => row()),
  );
}

/** A job may join and leave within one commit: of each place the last shift counts. */
function lastOfEach(shifts: readonly Shift[]): readonly Shift[] {
  if (shifts.every(({ joins }) => joins)) return shifts;
  return [...new Map(shifts.map((shift) => [`${shift.job.rank} ${shift.job.seq}`, shift])).values()];
}

const placeOf = ({ rank, seq, route, timerAt }: Laned): Place => ({ rank, seq, route, timerAt });

/** The first job of a lane whose line is written, and the gate at which the lane waits with it. */
function firstOf(
  { statements, now }: Commit,
  lane: number,
  shifts: readonly Shift[],
  stateOf: KeyStates,
): Pick<LaneRow, "first" | "waitsAt"> {
  const first = firstInLine(statements, lane);
  if (first === null) return { first, waitsAt: null };
  const known = shifts.find(({ job }) => job.seq === first.seq)?.job;
  const laneGates = known === undefined ? gatesInSpec(statements, first.seq) : known.laneGates;
  return { first, waitsAt: waitsAt(keyUsesOf({ laneGates }), stateOf, now) };
}

function gatesInSpec(statements: Statements, seq: number): Laned["laneGates"] {
  const text = readValue<string>(statements, readGates, seq);
  return text === null ? null : (JSON.parse(text) as string[]);
}

function readShown(statements: Statements, lane: string): LaneRow | null {
  const row = statements(readLane).get(lane) as
    | [number: number, queue: string | null, pos: number, ...first: SqlValue[]]
    | undefined;
  if (row === undefined) return null;
  const [number, queue, pos, ...place] = row;
  const [rank, seq, route, timerAt] = place as [number | null, number, number, number | null];
  return {
    number,
    turn: queue === null ? null : pos,
    first: rank === null ? null : { rank, seq, route, timerAt },
    waitsAt: null,
  };
}

function newLane(commit: Commit, number: number, key: string, { seq, route, laneStep }: Laned): LaneRow {
  const queue = laneStep === null ? null : contentOf(commit, seq, route).queue;
  const turn = queue === null ? null : joinTurn(readTop(commit.statements, queue));
  return { number, isNew: { key, queue }, turn, first: null, waitsAt: null };
}

/** Shows the first job of the line again. */
export function refreshLane(statements: Statements, lane: string): void {
  const shown = readShown(statements, lane);
  if (shown !== null)
    writeLanes(statements, [{ ...shown, first: firstInLine(statements, shown.number), waitsAt: null }]);
}

function contentOf({ statements, routes }: Commit, seq: number, route: number): RouteContent {
  const content = readRoute(statements, routes, route);
  if (content === null) throw new Unreadable("job", seq, "the content of its route is missing");
  return content;
}

/** The turn that a queue has reached. */
export function readTop(statements: Statements, queue: string): number {
  return readValue<number>(statements, readTurn, queue) ?? 0;
}

/** Input: route. */
const readOpen = sql`
  SELECT 1 FROM millrace_lane INDEXED BY millrace_lane_open WHERE ${isOpenLane} AND route = ? LIMIT 1`;

export function hasOpenLane(statements: Statements, routes: readonly number[]): boolean {
  return routes.some((route) => readValue(statements, readOpen, route) !== null);
}

export function writeLanes(statements: Statements, lanes: Iterable<LaneRow>): void {
  const values: SqlValue[] = [];
  const empty: number[] = [];
  for (const { number, isNew, turn, first, waitsAt: gate } of lanes) {
    // An empty lane by turn is there until its queue has reached its turn.
    if (first === null && turn === null) empty.push(number);
    else {
      values.push(number, isNew?.key ?? "", isNew?.queue ?? null, gate);
      if (first === null) values.push(turn, null, null, null, null);
      else values.push(positionOf(turn, first), ...valuesOf(first));
    }
  }
  runRowSets(statements, setLanes, { values, width: 9 });
  runOnSeqs(statements, dropLanes, empty, undefined, "number");
}

/** Inputs: queue, turn. */
const setTop = "INSERT OR REPLACE INTO millrace_turn (queue, top) VALUES (?, ?)";
/** Inputs: queue, turn. */
const deleteEmpty = sql`DELETE FROM millrace_lane WHERE ${isEmptyLane} AND queue = ? AND pos <= ?`;

/** What queues have reached; empty lanes whose turns are forgotten are deleted. */
export function writeTops(statements: Statements, tops: ReadonlyMap<string, number>): void {
  for (const [queue, top] of tops) {
    statements(setTop).run(queue, top);
    statements(deleteEmpty).run(queue, forgottenTurn(top));
  }
}
