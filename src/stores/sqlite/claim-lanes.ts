/**
 * Which jobs of lanes a claim takes (rules R6, R7): the first of each open lane, in the order of the lanes, and behind
 * a job that was taken the next of its lane. A lane whose first job the gate of a key refuses is parked there once the
 * claim has been written; a gate of the route closes the route for this call.
 */
import { isKeyedGate } from "../../model/lane.ts";
import type { KeyUse } from "../../model/lane.ts";
import type { Admission } from "../../store/rules/admit.ts";
import { addPermits, isAnyGroupCounted, setKeyClock, takeRungKeys } from "./key-gates.ts";
import { LaneHeads, placeAt } from "./lane-heads.ts";
import type { Asks, Head } from "./lane-heads.ts";
import type { LaneLine, Place } from "./lane-line.ts";
import { readLeasedRows } from "./leased-columns.ts";
import { readTurn, writeLanes, writeTops } from "./lanes.ts";
import type { Showing } from "./lanes.ts";
import { wakeAtGate } from "./parked-lanes.ts";
import { readRoute } from "./routes.ts";
import type { Step } from "./step.ts";

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
  readonly #heads: LaneHeads;
  readonly #sources: Source[];
  /** Heads behind taken ones and of lanes that were woken, in order. */
  readonly #others: Head[] = [];
  /** Lanes that were woken in this call, which are among the open ones from then on. */
  readonly #woken = new Set<number>();
  readonly #closed = new Set<number>();
  readonly #refused: Refused[] = [];
  /** Gates of groups are asked for by others than their own lanes, so that all of them are looked at by key. */
  #isMixed: boolean | null = null;
  readonly #tops = new Map<string, number>();
  /** In claim order. */
  readonly picked: Picked[] = [];

  constructor(step: Step, routes: readonly number[], max: number, admission: Admission) {
    this.#step = step;
    this.#admission = admission;
    this.#routes = new Set(routes);
    this.#heads = new LaneHeads(step);
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
    const { picked } = this;
    const tops = new Map<string, number>();
    const held = new Map<string, number>();
    for (let at = 0; at < leased; at++) {
      const { head, place, asks, step, turn } = picked[at] as Picked;
      head.turn = turn;
      if (turn !== null && step !== null) tops.set(this.#queueOf(place.route), turn - step);
      if (asks.sole !== null) {
        head.holder = place.seq;
        if (this.#isMixed !== true) this.#admission.passed(asks.sole, true);
      }
      for (const { key, weight } of asks.counted) held.set(key, (held.get(key) ?? 0) + weight);
    }
    writeLanes(statements, this.#shown(leased));
    addPermits(statements, held, now);
    writeTops(statements, tops);
    const gates = new Set<string>();
    for (const { head, gate } of this.#refused) {
      gates.add(gate);
      if (!head.isTaken) statements(parkLane).run(placeAt(head, gate), head.number, head.first.seq);
    }
    for (const gate of gates) {
      const opens = this.#admission.opensAtOf(gate);
      if (opens !== null) setKeyClock(statements, gate, opens, now);
    }
  }

  /** The lanes that were taken from, as they stand now. Picked jobs that were not leased are in their lines again. */
  #shown(leased: number): Showing[] {
    if (leased < this.picked.length) this.#putBack(this.picked.slice(leased));
    // Behind a picked job that was not leased after all, another one is the first.
    else for (const { head, gate } of this.#refused) head.parkedAt = placeAt(head, gate);
    const showing: Showing[] = [];
    for (const { head } of this.picked) {
      if (head.isTaken) continue;
      head.isTaken = true;
      showing.push(head);
    }
    return showing;
  }

  #putBack(unleased: readonly Picked[]): void {
    const byLane = new Map<LaneLine, Place[]>();
    for (const { head, place } of unleased) {
      const places = byLane.get(head.line);
      if (places === undefined) byLane.set(head.line, [place]);
      else places.push(place);
    }
    for (const [line, places] of byLane) line.putBack(places);
  }

  #consider(head: Head): void {
    if (head.isBare && !this.#heads.readSpec(head)) return;
    const { first } = head;
    const { route } = first;
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
    for (const { asks } of this.picked) if (asks.sole !== null) this.#admission.passed(asks.sole, false);
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
    for (const { number, route } of wakeAtGate(this.#step, gate)) {
      const head = this.#heads.one(number, route);
      if (head === null) continue;
      this.#woken.add(number);
      this.#add(head);
    }
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

  /** A route whose gate has refused a job is left; a lane that was woken has its place among the others. */
  #nextOf(source: Source): Head | null {
    if (this.#closed.has(source.route)) return null;
    for (;;) {
      const head = source.heads[source.next];
      if (head === undefined) {
        if (source.isDry) return null;
        this.#fetch(source);
      } else if (this.#woken.size > 0 && this.#woken.has(head.number)) source.next += 1;
      else return head;
    }
  }

  #fetch(source: Source): void {
    source.heads = this.#heads.open(source.route, source, this.#batch);
    // Heads move on while they are taken from.
    const last = source.heads.at(-1);
    if (last !== undefined) [source.pos, source.seq] = [last.pos, last.first.seq];
    source.next = 0;
    source.isDry = source.heads.length < this.#batch;
  }
}

function isBefore(one: Head, other: Head): boolean {
  return one.pos < other.pos || (one.pos === other.pos && one.first.seq < other.first.seq);
}
