/**
 * Rule R7 over one claim: which jobs pass their gates, in claim order. A job takes its weight of all its gates together
 * or of none. A gate that refuses a job lets nobody behind it pass in this call, or light jobs would overtake a heavy
 * one for ever.
 */
import { opensAt, tatAfter, permitsLeft } from "../../model/gate.ts";
import type { GateState, GateUse } from "../../model/gate.ts";

/** What gates say in one call. */
interface OpenGate {
  readonly state: GateState;
  left: number;
  /** Permits that were let pass, and of them those whose job was leased indeed. */
  passed: number;
  leased: number;
  isShut: boolean;
}

interface Passage {
  readonly gate: OpenGate;
  readonly weight: number;
}

export interface GateReaders {
  /** The gates of a route, that of its queue among them. */
  readonly usesOf: (route: number) => readonly GateUse[];
  /** Null where nobody has put it: it lets everything pass. */
  readonly stateOf: (key: string) => GateState | null;
}

export class Admission {
  readonly #readers: GateReaders;
  readonly #now: number;
  readonly #gates = new Map<string, OpenGate | null>();
  readonly #passages = new Map<number, readonly Passage[]>();
  /** When the first gate that has refused somebody opens by its own clock; null for never. */
  opensAt: number | null = null;

  constructor(readers: GateReaders, now: number) {
    this.#readers = readers;
    this.#now = now;
  }

  /** How many jobs of this route pass, if nobody else does. */
  room(route: number): number {
    return Math.min(
      ...this.#passagesOf(route).map(({ gate, weight }) =>
        gate.isShut ? 0 : Math.floor(gate.left / weight),
      ),
    );
  }

  /** Whether one job of this route passes; what it takes is gone for those behind it. */
  admit(route: number): boolean {
    const passages = this.#passagesOf(route);
    if (passages.some(({ gate }) => gate.isShut)) return false;
    const refusing = passages.filter(({ gate, weight }) => gate.left < weight);
    for (const { gate, weight } of refusing) this.#shut(gate, weight);
    if (refusing.length > 0) return false;
    for (const { gate, weight } of passages) {
      gate.left -= weight;
      gate.passed += weight;
    }
    return true;
  }

  leased(route: number): void {
    for (const { gate, weight } of this.#passagesOf(route)) gate.leased += weight;
  }

  /** The token times that have moved, by the keys of their gates. */
  get moved(): readonly { readonly key: string; readonly tatUs: number }[] {
    return [...this.#gates].flatMap(([key, gate]) =>
      gate === null || gate.leased === 0 || gate.state.rate === null
        ? []
        : [{ key, tatUs: tatAfter(gate.state, gate.leased, this.#now) }],
    );
  }

  #shut(gate: OpenGate, weight: number): void {
    gate.isShut = true;
    const tatUs = tatAfter(gate.state, gate.passed, this.#now);
    const at = opensAt({ ...gate.state, tatUs }, weight, this.#now);
    if (at !== null && (this.opensAt === null || at < this.opensAt)) this.opensAt = at;
  }

  #passagesOf(route: number): readonly Passage[] {
    let passages = this.#passages.get(route);
    if (passages === undefined) {
      passages = this.#readers.usesOf(route).flatMap(({ key, weight }) => {
        const gate = this.#gateOf(key);
        return gate === null ? [] : [{ gate, weight }];
      });
      this.#passages.set(route, passages);
    }
    return passages;
  }

  #gateOf(key: string): OpenGate | null {
    const known = this.#gates.get(key);
    if (known !== undefined) return known;
    const state = this.#readers.stateOf(key);
    const gate =
      state === null
        ? null
        : { state, left: permitsLeft(state, this.#now), passed: 0, leased: 0, isShut: false };
    this.#gates.set(key, gate);
    return gate;
  }
}
