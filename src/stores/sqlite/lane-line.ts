/**
 * The line of one lane: its ready jobs in their order. The first ones stand in the row of the lane itself, so that a
 * claim knows who comes next and takes jobs without touching another page; the rest stands in millrace_line.
 *
 *   millrace_lane: rank, seq, route, timer_at   the first job
 *                  behind                       those that follow it, of its route and without a timer: of each by how
 *                                               much its rank is above that of the one before it, and its seq, as
 *                                               "0,57,12,80"; null for none
 *                  has_more                     1 where millrace_line may have others, all of them behind these
 *
 * What does not fit there (another route, a timer, too many) stands in millrace_line with all that is behind it. A
 * change in the middle puts the whole line into that table, and takes the first ones out again.
 */
import { openRowSets, runRowSets } from "./connection.ts";
import type { SqlValue, Statements } from "./connection.ts";

/** A job of a line. */
export interface Place {
  readonly rank: number;
  readonly seq: number;
  readonly route: number;
  readonly timerAt: number | null;
}

/** As `lineColumns` says. */
export type LineRow = readonly [
  rank: number | null,
  seq: number | null,
  route: number | null,
  timerAt: number | null,
  behind: string | null,
  hasMore: number,
];
/** The part of a line that the row of its lane has. */
export interface ShownLine {
  readonly first: Place | null;
  readonly behind: string | null;
  readonly hasMore: number;
}
const emptyLine: ShownLine = { first: null, behind: null, hasMore: 0 };

export function shownLineOf([rank, seq, route, timerAt, behind, hasMore]: LineRow): ShownLine {
  const isThere = rank !== null && seq !== null && route !== null;
  return { first: isThere ? { rank, seq, route, timerAt } : null, behind, hasMore };
}

type PlaceRow = readonly [rank: number, seq: number, route: number, timerAt: number | null];

const placeColumns = "rank, seq, route, timer_at";
export const placeWidth = 4;
/** Of millrace_lane: its first job, and what follows it. */
export const lineColumns = `${placeColumns}, behind, has_more`;

/** So many may stand behind the first one in the row of a lane: each makes it longer by some eight bytes. */
const behindMax = 16;
/**
 * Up to so many join there as they come, so that short lines need no other table. Each of them is a write of the row,
 * which costs more than one of millrace_line: with 16 an enqueue into a long line took a quarter longer.
 */
const joiningMax = 3;

/** Inputs of each row: number of the lane, then its place. */
const addPlaces = openRowSets(
  `lane, ${placeColumns}`,
  (set) =>
    `WITH ${set} INSERT OR REPLACE INTO millrace_line (lane, ${placeColumns}) SELECT lane, ${placeColumns} FROM e`,
  `INSERT OR REPLACE INTO millrace_line (lane, ${placeColumns}) VALUES (?, ?, ?, ?, ?)`,
);
/** Inputs: number of the lane, rank, seq. */
const dropPlace = "DELETE FROM millrace_line WHERE lane = ? AND rank = ? AND seq = ?";
/**
 * Input: number of the lane. Answer: the first of those that its row does not have, and one more than it has room for.
 */
const readFirst = `SELECT ${placeColumns} FROM millrace_line WHERE lane = ? ORDER BY rank, seq LIMIT ${behindMax + 2}`;
/** Inputs: number of the lane, rank and seq of the last. */
const dropFirst = "DELETE FROM millrace_line WHERE lane = ? AND (rank, seq) <= (?, ?)";

export class LaneLine {
  readonly #statements: Statements;
  readonly #number: number;
  first: Place | null;
  #behind: string | null;
  #hasMore: boolean;

  constructor(statements: Statements, number: number, shown: ShownLine = emptyLine) {
    this.#statements = statements;
    this.#number = number;
    this.first = shown.first;
    this.#behind = shown.behind;
    this.#hasMore = shown.hasMore !== 0;
  }

  /** As `lineColumns` says. */
  pushTo(values: SqlValue[]): void {
    const { first } = this;
    if (first === null) values.push(null, null, null, null);
    else values.push(first.rank, first.seq, first.route, first.timerAt);
    values.push(this.#behind, this.#hasMore ? 1 : 0);
  }

  /** The first job leaves. */
  shift(): void {
    const { first } = this;
    const behind = this.#behind;
    if (first === null || behind === null) return this.#takeFirst();
    const middle = behind.indexOf(",");
    const end = behind.indexOf(",", middle + 1);
    const rank = first.rank + Number(behind.slice(0, middle));
    const seq = Number(end < 0 ? behind.slice(middle + 1) : behind.slice(middle + 1, end));
    this.#behind = end < 0 ? null : behind.slice(end + 1);
    this.first = { rank, seq, route: first.route, timerAt: null };
  }

  join(job: Place): void {
    const { first } = this;
    if (first === null && !this.#hasMore) this.first = job;
    else if (first === null) this.#joinMiddle(job);
    else if (isAhead(job, first)) this.#joinAhead(job, first);
    else this.#joinBehind(job, first);
  }

  #joinBehind(job: Place, first: Place): void {
    const last = this.#lastBehind(first);
    if (isAhead(job, last)) this.#joinMiddle(job);
    else if (!this.#hasMore && last.count < joiningMax && mayFollow(job, first)) {
      const entry = `${job.rank - last.rank},${job.seq}`;
      this.#behind = this.#behind === null ? entry : `${this.#behind},${entry}`;
    } else {
      this.#add([job]);
      this.#hasMore = true;
    }
  }

  leave({ rank, seq }: Pick<Place, "rank" | "seq">): void {
    if (seq === this.first?.seq) this.shift();
    else {
      const places = this.#placesBehind();
      const others = places.filter((place) => place.seq !== seq);
      if (this.first !== null && others.length < places.length) this.#behind = packed(this.first, others);
      else this.#statements(dropPlace).run(this.#number, rank, seq);
    }
  }

  /** Puts these, which are ready after all, among the others. */
  putBack(jobs: readonly Place[]): void {
    this.spill();
    this.#add(jobs);
    this.#takeFirst();
  }

  /** All of them stand in millrace_line. */
  spill(): void {
    const { first } = this;
    if (first !== null) this.#add([first, ...this.#placesBehind()]);
    this.first = this.#behind = null;
    this.#hasMore = true;
  }

  #takeFirst(): void {
    this.first = this.#behind = null;
    if (!this.#hasMore) return;
    const rows = this.#statements(readFirst).all(this.#number) as PlaceRow[];
    this.#hasMore = false;
    const [first, ...others] = rows.map(([rank, seq, route, timerAt]) => ({ rank, seq, route, timerAt }));
    if (first === undefined) return;
    const end = others.findIndex((job) => !mayFollow(job, first));
    const behind = others.slice(0, Math.min(end < 0 ? others.length : end, behindMax));
    this.first = first;
    this.#behind = packed(first, behind);
    this.#hasMore = behind.length < others.length;
    const last = behind.at(-1) ?? first;
    this.#statements(dropFirst).run(this.#number, last.rank, last.seq);
  }

  #joinMiddle(job: Place): void {
    this.putBack([job]);
  }

  #joinAhead(job: Place, first: Place): void {
    const places = this.#placesBehind();
    if (!mayFollow(first, job) || places.length >= behindMax) return this.#joinMiddle(job);
    this.first = job;
    this.#behind = packed(job, [first, ...places]);
  }

  #add(jobs: readonly Place[]): void {
    const values: SqlValue[] = [];
    for (const { rank, seq, route, timerAt } of jobs) values.push(this.#number, rank, seq, route, timerAt);
    runRowSets(this.#statements, addPlaces, { values, width: 5 });
  }

  /** Where the last one that the row has stands, and how many stand behind the first one. */
  #lastBehind({ rank, seq }: Place): Pick<Place, "rank" | "seq"> & { readonly count: number } {
    const last = { rank, seq, count: 0 };
    const behind = this.#behind ?? "";
    for (let from = 0; from < behind.length; last.count += 1) {
      const middle = behind.indexOf(",", from);
      last.rank += Number(behind.slice(from, middle));
      const end = behind.indexOf(",", middle + 1);
      if (end < 0) last.seq = Number(behind.slice(middle + 1));
      from = end < 0 ? behind.length : end + 1;
    }
    return last;
  }

  #placesBehind(): Place[] {
    const { first } = this;
    const places: Place[] = [];
    if (first === null || this.#behind === null) return places;
    const { route } = first;
    let { rank } = first;
    const numbers = this.#behind.split(",").map(Number);
    for (let at = 0; at < numbers.length; at += 2) {
      rank += numbers[at] as number;
      places.push({ rank, seq: numbers[at + 1] as number, route, timerAt: null });
    }
    return places;
  }
}

/** What stands behind the first one, as its row has it. */
function packed(first: Place, places: readonly Place[]): string | null {
  let { rank } = first;
  const entries = places.map((place) => {
    const entry = `${place.rank - rank},${place.seq}`;
    rank = place.rank;
    return entry;
  });
  return entries.join(",") || null;
}

function isAhead(one: Pick<Place, "rank" | "seq">, other: Pick<Place, "rank" | "seq">): boolean {
  return one.rank < other.rank || (one.rank === other.rank && one.seq < other.seq);
}

/** Whether the row of a lane can have the job behind this first one. */
function mayFollow(job: Place, first: Place): boolean {
  return job.route === first.route && job.timerAt === null;
}
