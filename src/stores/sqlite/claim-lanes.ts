/**
 * Which jobs of lanes a claim takes (rules R6, R7): the first of each open lane, in the order of the lanes, and behind a
 * job that was taken the next of its lane. A lane whose first job the gate of a key refuses is parked there once the claim
 * has been written; a gate of the route closes the route for this call.
 */
import { isKeyedGate } from "../../model/lane.ts";
import type { KeyUse } from "../../model/lane.ts";
import type { JobRow } from "../../store/job-fields.ts";
import type { Admission } from "../../store/rules/admit.ts";
import { keyUsesOf } from "../../store/rules/lane.ts";
import { limitTo } from "./connection.ts";
import { addPermits, takeRungKeys, setKeyClock } from "./key-gates.ts";
import { readTurn, serveLanes, writeTops } from "./lanes.ts";
import type { First, Served } from "./lanes.ts";
import { wakeAtGate } from "./parked-lanes.ts";
import { readRoute } from "./routes.ts";
import { isOpenLane } from "./schema.ts";
import type { Step } from "./step.ts";

/** The first job of a lane that has not been taken. */
interface Head extends Pick<JobRow, "seq" | "rank" | "route"> {
  readonly lane: string;
  /** Of the lane. */
  readonly number: number;
  /** Its place among the heads of other lanes; seq breaks ties. */
  readonly pos: number;
  readonly step: number | null;
  readonly uses: readonly KeyUse[];
  readonly isRung: boolean;
  /** Set for what stands behind this job of the lane, which was taken, and has not been read. */
  readonly behind?: Pick<JobRow, "rank" | "seq">;
  /** Its gates have not been read: most lanes have so many others before their next turn that nobody asks. */
  readonly isBare?: true;
}

/** A job that passed. */
interface Picked {
  readonly head: Head;
  /** The turn of its lane behind it; null by rank. */
  readonly turn: number | null;
}

interface Refused {
  readonly head: Head;
  readonly gate: string;
}

type HeadRow = readonly [
  number: number,
  lane: string,
  pos: number,
  rank: number,
  seq: number,
  route: number,
  timerAt: number | null,
  step: number | null,
  gates: string | null,
];

const columns = `l.rank, l.seq, l.route, l.timer_at, s.lane_step, s.lane_gates`;
const joined = "JOIN millrace_spec s ON s.seq = l.seq";
/** Inputs: route, place and seq to go on behind, limit. Answer: heads of open lanes, in order. */
const readOpen = `SELECT l.number, l.key, l.pos, ${columns} FROM millrace_lane l INDEXED BY millrace_lane_open ${joined}
  WHERE ${isOpenLane} AND l.route = ? AND (l.pos, l.seq) > (?, ?) ORDER BY l.pos, l.seq ${limitTo("?")}`;
/** Input: lane. Answer: its head. */
const readOne = `SELECT l.number, l.key, l.pos, ${columns} FROM millrace_lane l ${joined} WHERE l.key = ?`;
/** Inputs: number of a lane, rank and seq to go on behind. Answer: the next in line. */
const readBehind = `SELECT rank, seq, route, timer_at FROM millrace_line
  WHERE lane = ? AND (rank, seq) > (?, ?) ORDER BY rank, seq LIMIT 1`;
/** Input: seq. Answer: what its spec says of its lane. */
const readSpec = "SELECT lane_step, lane_gates FROM millrace_spec WHERE seq = ?";

/** Inputs: key of the gate, number of the lane, its first job. */
const parkLane = "UPDATE millrace_lane SET parked_at = ? WHERE number = ? AND seq = ?";

const refusedMax = 1000;
const lowest = -Number.MAX_SAFE_INTEGER;

/** The open lanes of one route, read by batches. */
interface Source {
  readonly route: number;
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
  readonly #seen = new Set<string>();
  readonly #closed = new Set<number>();
  /** By lane that was taken from: what stands behind, where that was read. */
  readonly #behind = new Map<string, First | null>();
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
    this.#sources = [...this.#routes].map((route) => ({ route, heads: [], next: 0, isDry: false }));
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
    return this.picked.map(({ head }) => head.seq);
  }

  /** So many of the picked jobs were leased: their lanes have had their turns, and those that were refused wait. */
  close(leased: number): void {
    const { statements, now } = this.#step;
    const taken = this.picked.slice(0, leased);
    const served = new Map<string, Served>();
    const tops = new Map<string, number>();
    const held = new Map<string, number>();
    for (const { head, turn } of taken) {
      const { lane, number, step, route, uses } = head;
      // Behind a picked job that was not leased after all, another one is the first.
      const next = leased === this.picked.length ? this.#behind.get(lane) : undefined;
      served.set(lane, { number, turn, parkedAt: null, next });
      if (turn !== null && step !== null) tops.set(this.#queueOf(route), turn - step);
      for (const { key, weight } of uses) held.set(key, (held.get(key) ?? 0) + weight);
    }
    const others = this.#refused.filter(({ head, gate }) => {
      const lane = served.get(head.lane);
      if (lane !== undefined && leased === this.picked.length) lane.parkedAt = gate;
      return lane === undefined;
    });
    serveLanes(
      statements,
      taken.map(({ head }) => head),
      served.values(),
    );
    addPermits(statements, held, now);
    writeTops(statements, tops);
    for (const { head, gate } of others) statements(parkLane).run(gate, head.number, head.seq);
    for (const gate of new Set(this.#refused.map((each) => each.gate))) {
      const opens = this.#admission.opensAtOf(gate);
      if (opens !== null) setKeyClock(statements, gate, opens, now);
    }
  }

  #consider(head: Head): void {
    if (head.behind !== undefined) {
      this.#readBehind(head, head.behind);
      return;
    }
    if (head.isBare === true) {
      this.#readSpec(head);
      return;
    }
    this.#seen.add(head.lane);
    if (head.isRung || !this.#routes.has(head.route) || this.#closed.has(head.route)) return;
    const refusing = this.#admission.refusedBy(head.route, head.uses);
    if (refusing.length === 0) {
      this.#take(head);
      return;
    }
    const gate = refusing.find(isKeyedGate);
    if (gate === undefined) {
      this.#closed.add(head.route);
      return;
    }
    this.#refused.push({ head, gate });
    // It was looked at in the stead of others that wait for what it does not take now.
    for (const { key } of head.uses) if (!refusing.includes(key)) this.#wake(key);
  }

  #take(head: Head): void {
    const turn = head.step === null ? null : this.#takeTurn(head, head.step);
    this.picked.push({ head, turn });
    this.#behind.delete(head.lane);
    // Where the next one stands is read when it may be its turn: by turn most lanes are done with one.
    const place = { seq: turn === null ? head.seq : 0, pos: turn ?? head.pos };
    this.#add({ ...head, ...place, behind: { rank: head.rank, seq: head.seq } });
  }

  #readBehind({ lane, number, pos, step }: Head, behind: Pick<JobRow, "rank" | "seq">): void {
    const found = this.#step.statements(readBehind).get(number, behind.rank, behind.seq) as First | undefined;
    this.#behind.set(lane, found ?? null);
    if (found === undefined) return;
    const [rank, seq, route, timerAt] = found;
    const place = { lane, number, pos: step === null ? rank : pos, rank, seq, route };
    this.#add({ ...place, step, uses: [], isRung: this.#isRung(timerAt), isBare: true });
  }

  #readSpec(head: Head): void {
    const { isBare: _isBare, ...bare } = head;
    const row = this.#step.statements(readSpec).get(head.seq) as
      | [step: number | null, gates: string | null]
      | undefined;
    if (row !== undefined) this.#consider({ ...bare, step: row[0], uses: usesOf(row[1]) });
  }

  #takeTurn({ pos, route }: Head, step: number): number {
    const queue = this.#queueOf(route);
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
    for (const { key } of wakeAtGate(this.#step, gate)) {
      const row = statements(readOne).get(key) as HeadRow | undefined;
      if (row !== undefined && !this.#seen.has(key)) this.#add(this.#headOf(row));
    }
  }

  #headOf([number, lane, pos, rank, seq, route, timerAt, step, gates]: HeadRow): Head {
    const isRung = this.#isRung(timerAt);
    const place = step === null ? rank : pos;
    return { lane, number, pos: place, seq, route, rank, step, uses: usesOf(gates), isRung };
  }

  #isRung(timerAt: number | null): boolean {
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
      } else if (this.#seen.has(head.lane)) source.next += 1;
      else return head;
    }
  }

  #fetch(source: Source): void {
    const { pos, seq } = source.heads.at(-1) ?? { pos: lowest, seq: 0 };
    const rows = this.#step
      .statements(readOpen)
      .all(source.route, pos, seq, this.#batch) as unknown as HeadRow[];
    source.heads = rows.map((row) => this.#headOf(row));
    source.next = 0;
    source.isDry = rows.length < this.#batch;
  }
}

function usesOf(gates: string | null): readonly KeyUse[] {
  return keyUsesOf({ laneGates: gates === null ? null : (JSON.parse(gates) as string[]) });
}

function isBefore(one: Head, other: Head): boolean {
  return one.pos < other.pos || (one.pos === other.pos && one.seq < other.seq);
}
