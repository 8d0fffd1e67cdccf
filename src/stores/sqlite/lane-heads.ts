/**
 * The heads of lanes as a claim reads them: the lane, its first job as it will stand once leased, what that job asks
 * for of keys, and who holds the lane.
 */
import { isGroupGate } from "../../model/lane.ts";
import type { KeyUse, LaneOrder } from "../../model/lane.ts";
import { isSole, keyUsesOf } from "../../store/rules/lane.ts";
import { limitTo } from "./connection.ts";
import type { NamedValues, SqlValue } from "./connection.ts";
import { holdsLive, openKeptHolders, restsAt } from "./holders.ts";
import { LaneLine } from "./lane-line.ts";
import type { Place } from "./lane-line.ts";
import { columns as jobColumns, leasedWidth, lowestFenceOf, readRouteOf, readSeq } from "./leased-columns.ts";
import { readRoute } from "./routes.ts";
import { isOpenLane } from "./schema.ts";
import type { Step } from "./step.ts";

/** A lane as this claim sees it. */
export interface Head {
  readonly number: number;
  readonly line: LaneLine;
  /** Its first job that has not been taken. */
  first: Place;
  /** Its place among other lanes; the seq of its first job breaks ties. */
  pos: number;
  /** What the spec of its first job says. */
  step: number | null;
  asks: Asks;
  /** That spec has not been read: most lanes have so many others before their next turn that nobody asks. */
  isBare: boolean;
  /** Its turn behind those of its jobs that were leased; null by rank. */
  turn: number | null;
  /** Its first job as it will stand once leased; null where it was not read with the lane. */
  leased: readonly SqlValue[] | null;
  readonly key: string;
  /** Who holds the lane; null for nobody. */
  holder: number | null;
  /** Somebody holds it, or was let pass in this call. */
  isHeld: boolean;
  /** The gate at which it waits behind this claim; null for none. */
  parkedAt: string | null;
  /** It was taken from, so its row is written. */
  isTaken: boolean;
}

/** What a job asks for of keys. */
export interface Asks {
  readonly uses: readonly KeyUse[];
  /** The only permit of its lane's own group; null where it does not ask for it. */
  readonly sole: KeyUse | null;
  /** The others, which are counted by key. */
  readonly counted: readonly KeyUse[];
  /** Whether there are gates of groups among these. */
  readonly isMixed: boolean;
}

/** The columns of the first job, and behind them those of its lane. */
type HeadRow = readonly SqlValue[];
/** Seq and route of the line are those of the job. */
type LaneRow = readonly [
  number: number,
  gates: string | null,
  rank: number,
  timerAt: number | null,
  behind: string | null,
  hasMore: number,
];
type RankRow = readonly [key: string, holder: number | null, holds: number | null];
type TurnRow = readonly [pos: number, step: number];
const byOrder = leasedWidth + 6;

/** Most first jobs are taken, so all of a job is read with its lane. Each column that is read costs, so few are. */
const shared = `${jobColumns}, l.number, s.lane_gates, l.rank, l.timer_at, l.behind, l.has_more`;
const columnsOf: Readonly<Record<LaneOrder, string>> = {
  rank: `${shared}, l.key, l.holder, ${holdsLive("l.holder")}`,
  turn: `${shared}, l.pos, s.lane_step`,
};
const joined = "CROSS JOIN millrace_job j ON j.seq = l.seq CROSS JOIN millrace_spec s ON s.seq = l.seq";

/** Inputs: now, lowest fence, route, place and seq to go on behind, limit. Answer: heads of open lanes, in order. */
const openLanes = (order: LaneOrder): string =>
  `SELECT ${columnsOf[order]} FROM millrace_lane l INDEXED BY millrace_lane_open ${joined}
    WHERE ${isOpenLane.replaceAll(/route|parked_at/g, "l.$&")} AND l.route = @route AND (l.pos, l.seq) > (@pos, @seq)
    ORDER BY l.pos, l.seq ${limitTo("@max")}`;
const readOpen = { rank: openLanes("rank"), turn: openLanes("turn") };
/** Inputs: now, lowest fence, number of a lane. Answer: its head. */
const oneLane = (order: LaneOrder): string =>
  `SELECT ${columnsOf[order]} FROM millrace_lane l ${joined} WHERE l.number = @number`;
const readOne = { rank: oneLane("rank"), turn: oneLane("turn") };
/** Input: seq. Answer: what its spec says of its lane. */
const readSpec = "SELECT lane_step, lane_gates FROM millrace_spec WHERE seq = ?";

/** Reads heads for one claim. */
export class LaneHeads {
  readonly #step: Step;
  /** What the columns of jobs are computed from. */
  readonly #named: NamedValues;
  readonly #isKept: (seq: number) => boolean;

  constructor(step: Step) {
    this.#step = step;
    this.#named = { now: step.now, lowestFence: lowestFenceOf(step) };
    this.#isKept = openKeptHolders(step.statements);
  }

  /** Of open lanes of a route, in order, behind this place. */
  open(route: number, { pos, seq }: { readonly pos: number; readonly seq: number }, max: number): Head[] {
    const order = this.#orderOf(route);
    const named = { ...this.#named, route, pos, seq, max };
    const rows = this.#step.statements(readOpen[order]).all(named) as HeadRow[];
    return rows.map((row) => this.#headOf(row, order));
  }

  /** Of one lane, whose first job is of this route. */
  one(number: number, route: number): Head | null {
    const order = this.#orderOf(route);
    const row = this.#step.statements(readOne[order]).get({ ...this.#named, number });
    return row === undefined ? null : this.#headOf(row as HeadRow, order);
  }

  /** Reads what the spec of the first job says. Answers whether there is one. */
  readSpec(head: Head): boolean {
    const row = this.#step.statements(readSpec).get(head.first.seq) as
      | [step: number | null, gates: string | null]
      | undefined;
    if (row === undefined) return false;
    head.step = row[0];
    head.asks = asksOf(row[1], head.key);
    head.isBare = false;
    return true;
  }

  #orderOf(route: number): LaneOrder {
    const { statements, commit } = this.#step;
    return readRoute(statements, commit.routes, route)?.lanes ?? "rank";
  }

  #headOf(leased: HeadRow, order: LaneOrder): Head {
    const at = leasedWidth;
    const number = leased[at] as LaneRow[0];
    const rank = leased[at + 2] as LaneRow[2];
    const timerAt = leased[at + 3] as LaneRow[3];
    const behind = leased[at + 4] as LaneRow[4];
    const hasMore = leased[at + 5] as LaneRow[5];
    const first: Place = { rank, seq: readSeq(leased), route: readRouteOf(leased), timerAt };
    const isByTurn = order === "turn";
    const turn = isByTurn ? (leased[byOrder] as TurnRow[0]) : null;
    const key = isByTurn ? "" : (leased[byOrder] as RankRow[0]);
    const last = isByTurn ? null : (leased[byOrder + 1] as RankRow[1]);
    const holds = isByTurn ? null : (leased[byOrder + 2] as RankRow[2]);
    const holder = last !== null && (holds === null ? this.#isKept(last) : holds === 1) ? last : null;
    // Written out: put together from parts it took a twentieth of a claim.
    return {
      number,
      line: new LaneLine(this.#step.statements, number, { first, behind, hasMore }),
      first,
      pos: turn ?? rank,
      step: isByTurn ? (leased[byOrder + 1] as TurnRow[1]) : null,
      asks: asksOf(leased[at + 1] as LaneRow[1], key),
      isBare: false,
      turn,
      leased,
      key,
      holder,
      isHeld: holder !== null,
      parkedAt: null,
      isTaken: false,
    };
  }
}

const none: readonly KeyUse[] = [];
const asksNothing: Asks = { uses: none, sole: null, counted: none, isMixed: false };

function asksOf(gates: string | null, laneKey: string): Asks {
  if (gates === null) return asksNothing;
  const uses = keyUsesOf({ laneGates: JSON.parse(gates) as string[] });
  const sole = uses.find((use) => isSole(use, laneKey)) ?? null;
  if (sole !== null && uses.length === 1) return { uses, sole, counted: none, isMixed: false };
  const counted = sole === null ? uses : uses.filter((use) => use !== sole);
  return { uses, sole, counted, isMixed: counted.some(({ key }) => isGroupGate(key)) };
}

/** Where a lane waits that this gate has refused. */
export function placeAt({ asks, holder }: Head, gate: string): string {
  return holder !== null && gate === asks.sole?.key ? restsAt : gate;
}
