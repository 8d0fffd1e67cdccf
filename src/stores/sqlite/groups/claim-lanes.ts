/**
 * Which jobs of lanes a claim takes (rules R6, R7): the first of each open lane, in the order of the lanes, and after a
 * job that was taken the next of its lane. A lane whose first job is refused by the gate of a key waits there once the
 * claim has been written; a gate of the route closes the route for this call. store/rules/gates/lanes.ts decides.
 */
import type { KeyUse } from "../../../model/routing/lane.ts";
import type { Admission } from "../../../store/rules/gates/admit.ts";
import { isLaneAhead, leftAt, positionOf, refusedAt, takeTurn } from "../../../store/rules/gates/lanes.ts";
import { addPermits, setKeyClock, takeRungKeys } from "../limits/key-gates.ts";
import { LaneHeads } from "./lane-heads.ts";
import type { Head } from "./lane-heads.ts";
import { leaveLine, nextInLine } from "./lane-lines.ts";
import type { Place } from "./lane-lines.ts";
import { readLeasedRows } from "../runs/leased-columns.ts";
import { readTop, writeLanes, writeTops } from "./lanes.ts";
import { isAnyWaiting, releaseLanes } from "./waiting-lanes.ts";
import { readRoute } from "../jobs/routes.ts";
import type { Step } from "../connection/transaction.ts";

/** A job that passed. */
interface Picked {
  readonly head: Head;
  readonly leased: Head["leased"];
  readonly place: Place;
  readonly uses: readonly KeyUse[];
  /** The turn of its lane from then on, and the top of its queue; null by rank. */
  readonly turned: ReturnType<typeof takeTurn> | null;
}

interface Refused {
  readonly head: Head;
  readonly gate: string;
}

/** A lane from which jobs were leased. */
interface Shown {
  turn: number | null;
  first: Place | null;
  waitsAt: string | null;
}

/** Inputs: key of the gate, number of the lane, its first job. */
const letWait = "UPDATE millrace_lane SET waits_at = ? WHERE number = ? AND seq = ?";

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
  /** Heads after taken ones and of lanes that were released, in order. */
  readonly #others: Head[] = [];
  /** Lanes that were released in this call, which are among the open ones from then on. */
  readonly #released = new Set<number>();
  readonly #closed = new Set<number>();
  readonly #refused: Refused[] = [];
  readonly #tops = new Map<string, number>();
  /** Whether a lane waited when the claim began: it makes none wait before its end. */
  #isAnyWaiting: boolean | null = null;
  /** In claim order. */
  readonly picked: Picked[] = [];

  constructor(step: Step, routes: readonly number[], max: number, admission: Admission) {
    this.#step = step;
    this.#admission = admission;
    this.#routes = new Set(routes);
    this.#heads = new LaneHeads(step);
    this.#batch = Math.ceil(max / this.#routes.size) + 4;
    releaseLanes(
      step,
      takeRungKeys(step).map((key) => [key, false] as const),
    );
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

  /** So many lanes were refused that the rest is left to another claim: one call does not make thousands wait. */
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
    const { place, uses } = this.picked[at] as Picked;
    this.#admission.leased(place.route, uses);
    return uses;
  }

  /** This many of the picked jobs were leased: their lanes have had their turns, and refused lanes wait. */
  close(leased: number): void {
    const { statements, now } = this.#step;
    const tops = new Map<string, number>();
    const held = new Map<string, number>();
    const shown = new Map<Head, Shown>();
    for (const { head, place, uses, turned } of this.picked.slice(0, leased)) {
      leaveLine(statements, head.number, place);
      if (turned !== null) tops.set(this.#queueOf(place.route), turned.top);
      for (const { key, weight } of uses) held.set(key, (held.get(key) ?? 0) + weight);
      shown.set(head, { turn: turned?.turn ?? null, first: head.next, waitsAt: null });
    }
    // A job that was not leased after all is the first of its lane again, and takes no permits.
    const left = new Set<string>();
    for (const { head, place, uses } of this.picked.slice(leased).toReversed()) {
      const lane = shown.get(head);
      if (lane !== undefined) lane.first = place;
      for (const { key } of uses) left.add(key);
    }
    const gates = new Set<string>();
    for (const { head, gate } of this.#refused) {
      if (left.has(gate)) continue;
      gates.add(gate);
      const lane = shown.get(head);
      if (lane === undefined) statements(letWait).run(gate, head.number, head.first.seq);
      else if (lane.first === head.first) lane.waitsAt = gate;
    }
    writeLanes(
      statements,
      [...shown].map(([{ number }, lane]) => ({ number, ...lane })),
    );
    addPermits(statements, held, now);
    writeTops(statements, tops);
    for (const gate of gates) {
      const opens = this.#admission.opensAtOf(gate);
      if (opens !== null) setKeyClock(statements, gate, opens, now);
    }
  }

  #consider(head: Head): void {
    if (head.isBare && !this.#heads.readSpec(head)) return;
    const { first, uses } = head;
    const { route, timerAt } = first;
    const isRung = timerAt !== null && timerAt <= this.#step.now;
    if (isRung || !this.#routes.has(route) || this.#closed.has(route)) return;
    const refusing = this.#admission.refusedBy(route, uses);
    if (refusing.length === 0) {
      this.#take(head);
      return;
    }
    const gate = refusedAt(refusing);
    if (gate === null) {
      this.#closed.add(route);
      return;
    }
    this.#refused.push({ head, gate });
    this.#release(leftAt(uses, refusing));
  }

  #take(head: Head): void {
    const { first, step, uses, leased } = head;
    let turned: Picked["turned"] = null;
    if (step !== null) {
      const queue = this.#queueOf(first.route);
      turned = takeTurn(head.pos, this.#tops.get(queue) ?? readTop(this.#step.statements, queue), step);
      this.#tops.set(queue, turned.top);
    }
    this.picked.push({ head, leased, place: first, uses, turned });
    head.leased = null;
    head.next = nextInLine(this.#step.statements, head.number, first);
    if (head.next === null) return;
    head.first = head.next;
    head.pos = positionOf(turned?.turn ?? null, head.next);
    head.isBare = true;
    this.#add(head);
  }

  #queueOf(route: number): string {
    const { statements, commit } = this.#step;
    return readRoute(statements, commit.routes, route)?.queue ?? "";
  }

  #release(gates: readonly string[]): void {
    this.#isAnyWaiting ??= isAnyWaiting(this.#step.statements);
    if (gates.length === 0 || !this.#isAnyWaiting) return;
    for (const { number } of releaseLanes(
      this.#step,
      gates.map((key) => [key, false] as const),
    )) {
      const head = this.#heads.one(number);
      if (head === null) continue;
      this.#released.add(number);
      this.#add(head);
    }
  }

  #add(head: Head): void {
    let at = this.#others.length;
    while (at > 0 && isLaneAhead(head, this.#others[at - 1] as Head)) at -= 1;
    this.#others.splice(at, 0, head);
  }

  #first(): Head | null {
    let first: Source | null = null;
    let head: Head | null = null;
    for (const source of this.#sources) {
      const next = this.#nextOf(source);
      if (next !== null && (head === null || isLaneAhead(next, head))) [first, head] = [source, next];
    }
    const other = this.#others[0];
    if (other !== undefined && (head === null || isLaneAhead(other, head))) {
      this.#others.shift();
      return other;
    }
    if (first !== null) first.next += 1;
    return head;
  }

  /** A route whose gate has refused a job is left; a lane that was released has its place among the others. */
  #nextOf(source: Source): Head | null {
    if (this.#closed.has(source.route)) return null;
    for (;;) {
      const head = source.heads[source.next];
      if (head === undefined) {
        if (source.isDry) return null;
        this.#fetch(source);
      } else if (this.#released.size > 0 && this.#released.has(head.number)) source.next += 1;
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
