/**
 * The lines of lanes: millrace_line has all ready jobs of each lane in their order, millrace_lane the first of each.
 */
import { openRowSets, runRowSets } from "../connection/connection.ts";
import type { SqlValue, Statements } from "../connection/connection.ts";
import { sql } from "../../../store/sql.ts";

/** A ready job of a lane. */
export interface Place {
  readonly rank: number;
  readonly seq: number;
  readonly route: number;
  readonly timerAt: number | null;
}

type PlaceRow = readonly [rank: number, seq: number, route: number, timerAt: number | null];

export const placeColumns = "rank, seq, route, timer_at";
export const valuesOf = ({ rank, seq, route, timerAt }: Place): PlaceRow => [rank, seq, route, timerAt];

/** Inputs of each row: number of the lane, then its place. */
const addPlaces = openRowSets(
  `lane, ${placeColumns}`,
  (set) =>
    `WITH ${set} INSERT OR REPLACE INTO millrace_line (lane, ${placeColumns}) SELECT lane, ${placeColumns} FROM e`,
  sql`INSERT OR REPLACE INTO millrace_line (lane, ${placeColumns}) VALUES (?, ?, ?, ?, ?)`,
);
/** Inputs: number of the lane, rank, seq. */
const dropPlace = "DELETE FROM millrace_line WHERE lane = ? AND rank = ? AND seq = ?";
const inOrder = "ORDER BY rank, seq LIMIT 1";
/** Input: number of the lane. Answer: its first job. */
const readFirst = sql`SELECT ${placeColumns} FROM millrace_line WHERE lane = ? ${inOrder}`;
/** Inputs: number of the lane, rank and seq of a job. Answer: the one that follows it. */
const readNext = sql`SELECT ${placeColumns} FROM millrace_line WHERE lane = ? AND (rank, seq) > (?, ?) ${inOrder}`;

/** A job and the number of its lane. */
export interface InLine {
  readonly lane: number;
  readonly place: Place;
}

export function joinLines(statements: Statements, joining: readonly InLine[]): void {
  const values: SqlValue[] = [];
  for (const { lane, place } of joining) values.push(lane, ...valuesOf(place));
  runRowSets(statements, addPlaces, { values, width: 5 });
}

export function leaveLine(
  statements: Statements,
  lane: number,
  { rank, seq }: Pick<Place, "rank" | "seq">,
): void {
  statements(dropPlace).run(lane, rank, seq);
}

export function firstInLine(statements: Statements, lane: number): Place | null {
  return placeOf(statements(readFirst).get(lane));
}

export function nextInLine(statements: Statements, lane: number, { rank, seq }: Place): Place | null {
  return placeOf(statements(readNext).get(lane, rank, seq));
}

function placeOf(row: unknown): Place | null {
  if (row === undefined) return null;
  const [rank, seq, route, timerAt] = row as PlaceRow;
  return { rank, seq, route, timerAt };
}
