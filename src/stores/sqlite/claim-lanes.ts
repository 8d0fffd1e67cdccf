/**
 * Which jobs of lanes a claim takes (rules R6, R7): the first of each open lane, in the order of the lanes, and behind a
 * job that was taken the next of its lane. A lane whose first job the gate of a key refuses is parked there once the claim
 * has been written; a gate of the route closes the route for this call.
 */
import { isKeyedGate } from "../../model/lane.ts";
import type { KeyUse } from "../../model/lane.ts";
import type { Admission } from "../../store/rules/admit.ts";
import { keyUsesOf } from "../../store/rules/lane.ts";
import { limitTo } from "./connection.ts";
import { addPermits, takeRungKeys, setKeyClock } from "./key-gates.ts";
import { LaneLine, lineColumns } from "./lane-line.ts";
import type { LineRow, Place } from "./lane-line.ts";
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
  uses: readonly KeyUse[];
  /** That spec has not been read: most lanes have so many others before their next turn that nobody asks. */
  isBare: boolean;
  /** Its turn behind those of its jobs that were leased; null by rank. */
  turn: number | null;
}

/** A job that passed. */
interface Picked {
  readonly head: Head;
  readonly place: Place;
  readonly uses: readonly KeyUse[];
  readonly step: number | null;
  /** The turn of its lane behind it; null by rank. */
  readonly turn: number | null;
}

interface Refused {
  readonly head: Head;
  readonly gate: string;
}

type HeadRow = readonly [
  number: number,
  pos: number,
  step: number | null,
  gates: string | null,
  ...line: LineRow,
];

const columns = `l.number, l.pos, s.lane_step, s.lane_gates, ${lineColumns.replaceAll(/\w+/g, "l.$&")}`;
const joined = "JOIN millrace_spec s ON s.seq = l.seq";
/** Inputs: route, place and seq to go on behind, limit. Answer: heads of open lanes, in order. */
const readOpen = `SELECT ${columns} FROM millrace_lane l INDEXED BY millrace_lane_open ${joined}
  WHERE ${isOpenLane} AND l.route = ? AND (l.pos, l.seq) > (?, ?) ORDER BY l.pos, l.seq ${limitTo("?")}`;
/** Input: number of a lane. Answer: its head. */
const readOne = `SELECT ${columns} FROM millrace_lane l ${joined} WHERE l.number = ?`;
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
  readonly #sources: Source[];
  /** Heads behind taken ones and of lanes that were woken, in order. */
  readonly #others: Head[] = [];
  /** Lanes that had their chance in this call. */
  readonly #seen = new Set<number>();
  readonly #closed = new Set<number>();
  readonly #refused: Refused[] = [];
  readonly #tops = new Map<string, number>();
  /** In claim order. */
  readonly picked: Picked[] = [];

  constructor(step: Step, routes: readonly number[], max: number, admission: Admission) {
    this.#step = step;
    this.#admission = admission;
    this.#routes = new Set(routes);
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

  get seqs(): readonly number[] {
    return this.picked.map(({ place }) => place.seq);
  }

  /** So many of the picked jobs were leased: their lanes have had their turns, and those that were refused wait. */
  close(leased: number): void {
    const { statements, now } = this.#step;
    const tops = new Map<string, number>();
    const held = new Map<string, number>();
    for (const { head, place, uses, step, turn } of this.picked.slice(0, leased)) {
      head.turn = turn;
      if (turn !== null && step !== null) tops.set(this.#queueOf(place.route), turn - step);
      for (const { key, weight } of uses) held.set(key, (held.get(key) ?? 0) + weight);
    }
    const showing = this.#shown(leased);
    writeLanes(statements, showing.values());
    addPermits(statements, held, now);
    writeTops(statements, tops);
    const gates = new Set<string>();
    for (const { head, gate } of this.#refused) {
      gates.add(gate);
      if (!showing.has(head)) statements(parkLane).run(gate, head.number, head.first.seq);
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
    const parkedAt = new Map(isWhole ? this.#refused.map(({ head, gate }) => [head, gate]) : []);
    const showing = new Map<Head, Showing>();
    for (const { head } of this.picked) {
      if (showing.has(head)) continue;
      const { number, line, turn } = head;
      showing.set(head, { number, line, turn, parkedAt: parkedAt.get(head) ?? null });
    }
    return showing;
  }

  #consider(head: Head): void {
    if (head.isBare && !this.#readSpec(head)) return;
    const { first, uses } = head;
    const { route } = first;
    this.#seen.add(head.number);
    if (this.#isRung(first) || !this.#routes.has(route) || this.#closed.has(route)) return;
    const refusing = this.#admission.refusedBy(route, uses);
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
    for (const { key } of uses) if (!refusing.includes(key)) this.#wake(key);
  }

  #take(head: Head): void {
    const { first, step, uses, line } = head;
    const turn = step === null ? null : this.#takeTurn(head, step);
    this.picked.push({ head, place: first, uses, step, turn });
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
    head.uses = usesOf(row[1]);
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
      const row = statements(readOne).get(number) as HeadRow | undefined;
      if (row !== undefined && !this.#seen.has(number)) this.#add(this.#headOf(row));
    }
  }

  #headOf([number, pos, step, gates, ...row]: HeadRow): Head {
    const line = new LaneLine(this.#step.statements, number, row);
    const first = line.first as Place;
    const turn = step === null ? null : pos;
    return { number, line, first, pos: turn ?? first.rank, step, uses: usesOf(gates), isBare: false, turn };
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
    const rows = this.#step
      .statements(readOpen)
      .all(source.route, source.pos, source.seq, this.#batch) as unknown as HeadRow[];
    source.heads = rows.map((row) => this.#headOf(row));
    // Heads move on while they are taken from.
    const last = source.heads.at(-1);
    if (last !== undefined) [source.pos, source.seq] = [last.pos, last.first.seq];
    source.next = 0;
    source.isDry = rows.length < this.#batch;
  }
}

function usesOf(gates: string | null): readonly KeyUse[] {
  return keyUsesOf({ laneGates: gates === null ? null : (JSON.parse(gates) as string[]) });
}

function isBefore(one: Head, other: Head): boolean {
  return one.pos < other.pos || (one.pos === other.pos && one.first.seq < other.first.seq);
}
