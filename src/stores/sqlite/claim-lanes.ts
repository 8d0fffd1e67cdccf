/**
 * Which jobs of lanes a claim takes (rules R6, R7): the first of each open lane, in the order of the lanes, and behind a
 * job that was taken the next of its lane. A lane whose first job the gate of a key refuses is parked there once the claim
 * has been written; a gate of the route closes the route for this call.
 */
import { isGroupGate, isKeyedGate } from "../../model/lane.ts";
import type { KeyUse } from "../../model/lane.ts";
import type { Admission } from "../../store/rules/admit.ts";
import { isSole, keyUsesOf } from "../../store/rules/lane.ts";
import { limitTo } from "./connection.ts";
import type { NamedValues, SqlValue } from "./connection.ts";
import { holdsLive, openKeptHolders, restsAt } from "./holders.ts";
import { addPermits, isAnyGroupCounted, setKeyClock, takeRungKeys } from "./key-gates.ts";
import { LaneLine, lineColumns } from "./lane-line.ts";
import type { LineRow, Place } from "./lane-line.ts";
import { columns as jobColumns, leasedWidth, lowestFenceOf, readLeasedRows } from "./leased-columns.ts";
import { readTurn, writeLanes, writeTops } from "./lanes.ts";
import type { Showing } from "./lanes.ts";
import { wakeAtGate } from "./parked-lanes.ts";
import { readRoute } from "./routes.ts";
import { isOpenLane } from "./schema.ts";
import type { Step } from "./step.ts";

/** A lane as this claim sees it. */
interface Head {
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
}

/** What a job asks for of keys. */
interface Asks {
  readonly uses: readonly KeyUse[];
  /** The only permit of its lane's own group; null where it does not ask for it. */
  readonly sole: KeyUse | null;
  /** The others, which are counted by key. */
  readonly counted: readonly KeyUse[];
  /** Whether there are gates of groups among these. */
  readonly isMixed: boolean;
}

/** A job that passed. */
interface Picked {
  readonly head: Head;
  readonly leased: Head["leased"];
  readonly place: Place;
  readonly asks: Asks;
  readonly step: number | null;
  /** The turn of its lane behind it; null by rank. */
  readonly turn: number | null;
}

interface Refused {
  readonly head: Head;
  readonly gate: string;
}

/** Of the lane; before these stand the columns of its first job. */
type LaneRow = readonly [
  number: number,
  pos: number,
  step: number | null,
  gates: string | null,
  key: string,
  holder: number | null,
  holds: number | null,
  ...line: LineRow,
];

/** Most first jobs are taken, so all of a job is read with its lane: read by itself it cost a fifth of a claim. */
const columns = `${jobColumns}, l.number, l.pos, s.lane_step, s.lane_gates, l.key, l.holder, ${holdsLive("l.holder")},
  ${lineColumns.replaceAll(/\w+/g, "l.$&")}`;
const joined = "CROSS JOIN millrace_job j ON j.seq = l.seq CROSS JOIN millrace_spec s ON s.seq = l.seq";
/** Inputs: now, lowest fence, route, place and seq to go on behind, limit. Answer: heads of open lanes, in order. */
const readOpen = `SELECT ${columns} FROM millrace_lane l INDEXED BY millrace_lane_open ${joined}
  WHERE ${isOpenLane.replaceAll(/route|parked_at/g, "l.$&")} AND l.route = @route AND (l.pos, l.seq) > (@pos, @seq)
  ORDER BY l.pos, l.seq ${limitTo("@max")}`;
/** Inputs: now, lowest fence, number of a lane. Answer: its head. */
const readOne = `SELECT ${columns} FROM millrace_lane l ${joined} WHERE l.number = @number`;
/** Input: seq. Answer: what its spec says of its lane. */
const readSpec = "SELECT lane_step, lane_gates FROM millrace_spec WHERE seq = ?";

/** Inputs: key of the gate, number of the lane, its first job. */
const parkLane = "UPDATE millrace_lane SET parked_at = ? WHERE number = ? AND seq = ?";

const refusedMax = 1000;
const lowest = -Number.MAX_SAFE_INTEGER;

/** The open lanes of one route, read by batches. */
interface Source {
  readonly route: number;
  /** Of the last that was read. */
  pos: number;
  seq: number;
  heads: readonly Head[];
  next: number;
  isDry: boolean;
}

export class LanePick {
  readonly #step: Step;
  readonly #admission: Admission;
  readonly #routes: ReadonlySet<number>;
  readonly #batch: number;
  /** What the columns of jobs are computed from. */
  readonly #named: NamedValues;
  readonly #sources: Source[];
  /** Heads behind taken ones and of lanes that were woken, in order. */
  readonly #others: Head[] = [];
  /** Lanes that had their chance in this call. */
  readonly #seen = new Set<number>();
  readonly #closed = new Set<number>();
  readonly #refused: Refused[] = [];
  readonly #isKept: (seq: number) => boolean;
  /** Gates of groups are asked for by others than their own lanes, so that all of them are looked at by key. */
  #isMixed: boolean | null = null;
  readonly #tops = new Map<string, number>();
  /** In claim order. */
  readonly picked: Picked[] = [];

  constructor(step: Step, routes: readonly number[], max: number, admission: Admission) {
    this.#step = step;
    this.#admission = admission;
    this.#routes = new Set(routes);
    this.#named = { now: step.now, lowestFence: lowestFenceOf(step) };
    this.#isKept = openKeptHolders(step.statements);
    this.#batch = Math.ceil(max / this.#routes.size) + 4;
    for (const key of takeRungKeys(step)) wakeAtGate(step, key);
    this.#sources = [...this.#routes].map((route) => ({
      ...{ route, pos: lowest, seq: 0 },
      ...{ heads: [], next: 0, isDry: false },
    }));
    for (const source of this.#sources) this.#fetch(source);
    while (this.picked.length < max && !this.isCut) {
      const head = this.#first();
      if (head === null) break;
      this.#consider(head);
    }
  }

  /** So many lanes were refused that the rest is left to another claim: nobody waits while thousands are parked. */
  get isCut(): boolean {
    return this.#refused.length >= refusedMax;
  }

  /** The picked jobs as they will stand once leased, in claim order. */
  readRows(): unknown[] {
    const unread: number[] = [];
    for (const { leased, place } of this.picked) if (leased === null) unread.push(place.seq);
    const others = readLeasedRows(this.#step, unread);
    return this.picked.map(({ leased, place }) => leased ?? others.get(place.seq));
  }

  /** The picked job of this number was leased. Answers what it asks for of keys. */
  leased(at: number): readonly KeyUse[] {
    const { place, asks } = this.picked[at] as Picked;
    const { uses, sole, counted } = asks;
    this.#admission.leased(place.route, sole === null || this.#isMixed === true ? uses : counted);
    return uses;
  }

  /** So many of the picked jobs were leased: their lanes have had their turns, and those that were refused wait. */
  close(leased: number): void {
    const { statements, now } = this.#step;
    const tops = new Map<string, number>();
    const held = new Map<string, number>();
    for (const { head, place, asks, step, turn } of this.picked.slice(0, leased)) {
      head.turn = turn;
      if (turn !== null && step !== null) tops.set(this.#queueOf(place.route), turn - step);
      if (asks.sole !== null) head.holder = place.seq;
      for (const { key, weight } of asks.counted) held.set(key, (held.get(key) ?? 0) + weight);
    }
    const showing = this.#shown(leased);
    writeLanes(statements, showing.values());
    addPermits(statements, held, now);
    writeTops(statements, tops);
    const gates = new Set<string>();
    for (const { head, gate } of this.#refused) {
      gates.add(gate);
      if (!showing.has(head)) statements(parkLane).run(placeAt(head, gate), head.number, head.first.seq);
    }
    for (const gate of gates) {
      const opens = this.#admission.opensAtOf(gate);
      if (opens !== null) setKeyClock(statements, gate, opens, now);
    }
  }

  /** The lanes that were taken from, as they stand now. Picked jobs that were not leased are in their lines again. */
  #shown(leased: number): Map<Head, Showing> {
    const isWhole = leased === this.picked.length;
    const unleased = new Map<Head, Place[]>();
    for (const { head, place } of this.picked.slice(leased)) {
      const places = unleased.get(head);
      if (places === undefined) unleased.set(head, [place]);
      else places.push(place);
    }
    for (const [{ line }, places] of unleased) line.putBack(places);
    // Behind a picked job that was not leased after all, another one is the first.
    const parkedAt = new Map(
      isWhole ? this.#refused.map(({ head, gate }) => [head, placeAt(head, gate)]) : [],
    );
    const showing = new Map<Head, Showing>();
    for (const { head } of this.picked) {
      if (showing.has(head)) continue;
      const { number, line, turn, holder } = head;
      showing.set(head, { number, line, turn, holder, parkedAt: parkedAt.get(head) ?? null });
    }
    return showing;
  }

  #consider(head: Head): void {
    if (head.isBare && !this.#readSpec(head)) return;
    const { first } = head;
    const { route } = first;
    this.#seen.add(head.number);
    if (this.#isRung(first) || !this.#routes.has(route) || this.#closed.has(route)) return;
    const refusing = this.#refusedBy(head);
    if (refusing.length === 0) {
      this.#take(head);
      return;
    }
    const gate = refusing.find(isKeyedGate);
    if (gate === undefined) {
      this.#closed.add(route);
      return;
    }
    this.#refused.push({ head, gate });
    // It was looked at in the stead of others that wait for what it does not take now.
    for (const { key } of head.asks.uses) if (!refusing.includes(key)) this.#wake(key);
  }

  /** A lane that alone asks for the gate of its group needs no look by key: its holder says all. */
  #refusedBy({ first, asks, isHeld }: Head): readonly string[] {
    const { uses, sole, counted } = asks;
    if (asks.isMixed) this.#mix();
    if (sole === null || this.#isAnyMixed) return this.#admission.refusedBy(first.route, uses);
    return this.#admission.refusedBy(first.route, counted, isHeld ? sole.key : null);
  }

  get #isAnyMixed(): boolean {
    this.#isMixed ??= isAnyGroupCounted(this.#step.statements);
    return this.#isMixed;
  }

  /** From now on by key, with those that have passed. */
  #mix(): void {
    if (this.#isAnyMixed) return;
    this.#isMixed = true;
    for (const { asks } of this.picked) if (asks.sole !== null) this.#admission.passed([asks.sole]);
  }

  #take(head: Head): void {
    const { first, step, asks, line, leased } = head;
    const turn = step === null ? null : this.#takeTurn(head, step);
    this.picked.push({ head, leased, place: first, asks, step, turn });
    head.leased = null;
    head.isHeld ||= asks.sole !== null;
    line.shift();
    if (line.first === null) return;
    head.first = line.first;
    head.pos = turn ?? line.first.rank;
    head.isBare = true;
    this.#add(head);
  }

  #readSpec(head: Head): boolean {
    const row = this.#step.statements(readSpec).get(head.first.seq) as
      | [step: number | null, gates: string | null]
      | undefined;
    if (row === undefined) return false;
    head.step = row[0];
    head.asks = asksOf(row[1], head.key);
    head.isBare = false;
    return true;
  }

  #takeTurn({ pos, first }: Head, step: number): number {
    const queue = this.#queueOf(first.route);
    const top = Math.max(pos, this.#tops.get(queue) ?? readTurn(this.#step.statements, queue));
    this.#tops.set(queue, top);
    return top + step;
  }

  #queueOf(route: number): string {
    const { statements, commit } = this.#step;
    return readRoute(statements, commit.routes, route)?.queue ?? "";
  }

  #wake(gate: string): void {
    const { statements } = this.#step;
    for (const { number } of wakeAtGate(this.#step, gate)) {
      const row = statements(readOne).get({ ...this.#named, number }) as SqlValue[] | undefined;
      if (row !== undefined && !this.#seen.has(number)) this.#add(this.#headOf(row));
    }
  }

  #headOf(leased: readonly SqlValue[]): Head {
    const [number, pos, step, gates, key, last, holds, ...row] = leased.slice(
      leasedWidth,
    ) as unknown as LaneRow;
    const line = new LaneLine(this.#step.statements, number, row);
    const first = line.first as Place;
    const turn = step === null ? null : pos;
    const holder = last !== null && (holds === null ? this.#isKept(last) : holds === 1) ? last : null;
    return {
      ...{ number, line, first, pos: turn ?? first.rank, step, asks: asksOf(gates, key), isBare: false },
      ...{ turn, leased, key, holder, isHeld: holder !== null },
    };
  }

  #isRung({ timerAt }: Place): boolean {
    return timerAt !== null && timerAt <= this.#step.now;
  }

  #add(head: Head): void {
    let at = this.#others.length;
    while (at > 0 && isBefore(head, this.#others[at - 1] as Head)) at -= 1;
    this.#others.splice(at, 0, head);
  }

  #first(): Head | null {
    let first: Source | null = null;
    let head: Head | null = null;
    for (const source of this.#sources) {
      const next = this.#nextOf(source);
      if (next !== null && (head === null || isBefore(next, head))) [first, head] = [source, next];
    }
    const other = this.#others[0];
    if (other !== undefined && (head === null || isBefore(other, head))) {
      this.#others.shift();
      return other;
    }
    if (first !== null) first.next += 1;
    return head;
  }

  /** A route whose gate has refused a job is left; a lane that was woken may be met twice. */
  #nextOf(source: Source): Head | null {
    if (this.#closed.has(source.route)) return null;
    for (;;) {
      const head = source.heads[source.next];
      if (head === undefined) {
        if (source.isDry) return null;
        this.#fetch(source);
      } else if (this.#seen.has(head.number)) source.next += 1;
      else return head;
    }
  }

  #fetch(source: Source): void {
    const { route, pos, seq } = source;
    const named = { ...this.#named, route, pos, seq, max: this.#batch };
    const rows = this.#step.statements(readOpen).all(named) as SqlValue[][];
    source.heads = rows.map((row) => this.#headOf(row));
    // Heads move on while they are taken from.
    const last = source.heads.at(-1);
    if (last !== undefined) [source.pos, source.seq] = [last.pos, last.first.seq];
    source.next = 0;
    source.isDry = rows.length < this.#batch;
  }
}

const asksNothing: Asks = { uses: [], sole: null, counted: [], isMixed: false };

function asksOf(gates: string | null, laneKey: string): Asks {
  if (gates === null) return asksNothing;
  const uses = keyUsesOf({ laneGates: JSON.parse(gates) as string[] });
  const sole = uses.find((use) => isSole(use, laneKey)) ?? null;
  const counted = sole === null ? uses : uses.filter((use) => use !== sole);
  return { uses, sole, counted, isMixed: counted.some(({ key }) => isGroupGate(key)) };
}

/** Where a lane waits that this gate has refused. */
function placeAt({ asks, holder }: Head, gate: string): string {
  return holder !== null && gate === asks.sole?.key ? restsAt : gate;
}

function isBefore(one: Head, other: Head): boolean {
  return one.pos < other.pos || (one.pos === other.pos && one.first.seq < other.first.seq);
}
