/**
 * The heads of lanes as a claim reads them: the lane, its first job as it will stand once leased, and what that job
 * asks for of keys.
 */
import type { KeyUse } from "../../../model/routing/lane.ts";
import { keyUsesOf } from "../../../store/rules/gates/lane-change.ts";
import { limitTo } from "../connection/connection.ts";
import type { NamedValues, SqlValue } from "../connection/connection.ts";
import type { Place } from "./lane-lines.ts";
import {
  columns as jobColumns,
  leasedWidth,
  lowestFenceOf,
  readRouteOf,
  readSeq,
} from "../runs/leased-columns.ts";
import { isOpenLane } from "../connection/schema.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** A lane as this claim sees it. */
export interface Head {
  readonly number: number;
  /** Its first job that has not been taken. */
  first: Place;
  /** Its place among other lanes; the seq of its first job breaks ties. */
  pos: number;
  /** What the spec of its first job says. */
  step: number | null;
  uses: readonly KeyUse[];
  /** That spec was not read: most lanes have so many others before their next turn that it is not needed. */
  isBare: boolean;
  /** Its first job as it will stand once leased; null if it was not read with the lane. */
  leased: readonly SqlValue[] | null;
  /** The job after those that were taken; null for none. */
  next: Place | null;
}

/** The columns of the first job, and after them those of its lane. */
type HeadRow = readonly SqlValue[];
/** Seq and route of the first job are among its own columns. */
type LaneRow = readonly [
  number: number,
  gates: string | null,
  rank: number,
  timerAt: number | null,
  pos: number,
  step: number | null,
];

/** Most first jobs are taken, so all of a job is read with its lane. Each column that is read costs, so few are. */
const columns = `${jobColumns}, l.number, s.lane_gates, l.rank, l.timer_at, l.pos, s.lane_step`;
const joined = "CROSS JOIN millrace_job j ON j.seq = l.seq CROSS JOIN millrace_spec s ON s.seq = l.seq";
/** Inputs: now, lowest fence, route, place and seq to go on after, limit. Answer: heads of open lanes, in order. */
const readOpen = sql`SELECT ${columns} FROM millrace_lane l INDEXED BY millrace_lane_open ${joined}
  WHERE ${isOpenLane.replaceAll(/route|waits_at/g, "l.$&")} AND l.route = @route AND (l.pos, l.seq) > (@pos, @seq)
  ORDER BY l.pos, l.seq ${limitTo("@max")}`;
/** Inputs: now, lowest fence, number of a lane. Answer: its head. */
const readOne = sql`SELECT ${columns} FROM millrace_lane l ${joined} WHERE l.number = @number`;
/** Input: seq. Answer: what its spec says of its lane. */
const readSpec = "SELECT lane_step, lane_gates FROM millrace_spec WHERE seq = ?";

/** Reads heads for one claim. */
export class LaneHeads {
  readonly #step: Step;
  /** What the columns of jobs are computed from. */
  readonly #named: NamedValues;

  constructor(step: Step) {
    this.#step = step;
    this.#named = { now: step.now, lowestFence: lowestFenceOf(step) };
  }

  /** Of open lanes of a route, in order, after this place. */
  open(route: number, { pos, seq }: { readonly pos: number; readonly seq: number }, max: number): Head[] {
    const named = { ...this.#named, route, pos, seq, max };
    return (this.#step.statements(readOpen).all(named) as HeadRow[]).map(headOf);
  }

  one(number: number): Head | null {
    const row = this.#step.statements(readOne).get({ ...this.#named, number });
    return row === undefined ? null : headOf(row as HeadRow);
  }

  /** Reads what the spec of the first job says. Answers whether there is one. */
  readSpec(head: Head): boolean {
    const row = this.#step.statements(readSpec).get(head.first.seq) as
      | [step: number | null, gates: string | null]
      | undefined;
    if (row === undefined) return false;
    head.step = row[0];
    head.uses = usesOf(row[1]);
    head.isBare = false;
    return true;
  }
}

function headOf(leased: HeadRow): Head {
  const at = leasedWidth;
  const rank = leased[at + 2] as LaneRow[2];
  const timerAt = leased[at + 3] as LaneRow[3];
  return {
    number: leased[at] as LaneRow[0],
    first: { rank, seq: readSeq(leased), route: readRouteOf(leased), timerAt },
    pos: leased[at + 4] as LaneRow[4],
    step: leased[at + 5] as LaneRow[5],
    uses: usesOf(leased[at + 1] as LaneRow[1]),
    isBare: false,
    leased,
    next: null,
  };
}

const none: readonly KeyUse[] = [];

function usesOf(gates: string | null): readonly KeyUse[] {
  return gates === null ? none : keyUsesOf({ laneGates: JSON.parse(gates) as string[] });
}
