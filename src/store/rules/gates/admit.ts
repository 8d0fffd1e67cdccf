/**
 * Rule R7 over one claim: which jobs pass their gates, in claim order. A job takes its weight of all its gates together
 * or of none. A gate that refuses a job lets no later job pass in this call, or light jobs would overtake a heavy one
 * for ever. But a cap of the job's own refuses only that job.
 */
import { opensAt, tatAfter, permitsLeft } from "../../../model/limits/gate.ts";
import type { GateState, GateUse } from "../../../model/limits/gate.ts";
import type { KeyUse } from "../../../model/routing/lane.ts";

/** The state of a gate during one call. */
interface OpenGate {
  readonly state: GateState;
  left: number;
  /** Permits that passed, and those of them whose job was really leased. */
  passed: number;
  leased: number;
  isShut: boolean;
  /** When it opens by its own clock for the job that it refused; null if it does not. */
  opensAt: number | null;
}

interface Passage {
  readonly key: string;
  readonly gate: OpenGate;
  readonly weight: number;
  /** The job's own cap; null for the bounds of the gate. */
  readonly cap: number | null;
}

const none: readonly KeyUse[] = [];

export interface GateReaders {
  /** The gates of a route, with that of its queue. */
  readonly usesOf: (route: number) => readonly GateUse[];
  /** Null if it was never put: it lets every job pass. */
  readonly stateOf: (key: string) => GateState | null;
}

export class Admission {
  readonly #readers: GateReaders;
  readonly #now: number;
  readonly #gates = new Map<string, OpenGate | null>();
  readonly #ofRoutes = new Map<number, readonly Passage[]>();
  /** When the first gate that has refused a job opens by its own clock; null for never. */
  opensAt: number | null = null;

  constructor(readers: GateReaders, now: number) {
    this.#readers = readers;
    this.#now = now;
  }

  /** How many jobs of this route pass, if no other jobs do. */
  room(route: number): number {
    return Math.min(
      ...this.#passagesOf(route).map(({ gate, weight }) =>
        gate.isShut ? 0 : Math.floor(gate.left / weight),
      ),
    );
  }

  /** Whether one job of this route passes; later jobs do not get what it takes. */
  admit(route: number): boolean {
    return this.refusedBy(route).length === 0;
  }

  /** The keys of the gates that do not let this job pass. If there are none, it passes as in `admit`. */
  refusedBy(route: number, uses: readonly KeyUse[] = none): readonly string[] {
    const passages = this.#passages(route, uses);
    const refusing: string[] = [];
    for (const { key, gate } of passages) if (gate.isShut) refusing.push(key);
    if (refusing.length > 0) return refusing;
    for (const { key, gate, weight, cap } of passages) {
      const own = cap === null ? Infinity : cap - gate.state.held - gate.passed;
      if (Math.min(gate.left, own) >= weight) continue;
      refusing.push(key);
      // A cap of the job's own refuses no other job.
      if (gate.left < weight) this.#shut(gate, weight);
    }
    if (refusing.length > 0) return refusing;
    for (const { gate, weight } of passages) {
      gate.left -= weight;
      gate.passed += weight;
    }
    return refusing;
  }

  leased(route: number, uses: readonly KeyUse[] = none): void {
    for (const { gate, weight } of this.#passagesOf(route)) gate.leased += weight;
    for (const { key, weight } of uses) {
      const gate = this.#gateOf(key);
      if (gate !== null) gate.leased += weight;
    }
  }

  /** The token times that have changed, by the keys of their gates. */
  get moved(): readonly { readonly key: string; readonly tatUs: number }[] {
    const moved: { readonly key: string; readonly tatUs: number }[] = [];
    for (const [key, gate] of this.#gates)
      if (gate !== null && gate.leased > 0 && gate.state.rate !== null)
        moved.push({ key, tatUs: tatAfter(gate.state, gate.leased, this.#now) });
    return moved;
  }

  #shut(gate: OpenGate, weight: number): void {
    gate.isShut = true;
    const tatUs = tatAfter(gate.state, gate.passed, this.#now);
    const at = opensAt({ ...gate.state, tatUs }, weight, this.#now);
    gate.opensAt = at;
    if (at !== null && (this.opensAt === null || at < this.opensAt)) this.opensAt = at;
  }

  /** When a gate that has refused a job opens by its own clock; null if it does not. */
  opensAtOf(key: string): number | null {
    return this.#gates.get(key)?.opensAt ?? null;
  }

  #passages(route: number, uses: readonly KeyUse[]): readonly Passage[] {
    const ofRoute = this.#passagesOf(route);
    if (uses.length === 0) return ofRoute;
    const passages = [...ofRoute];
    for (const { key, weight, cap } of uses) {
      const gate = this.#gateOf(key);
      if (gate !== null) passages.push({ key, gate, weight, cap });
    }
    return passages;
  }

  #passagesOf(route: number): readonly Passage[] {
    let passages = this.#ofRoutes.get(route);
    if (passages === undefined) {
      passages = this.#readers.usesOf(route).flatMap(({ key, weight }) => {
        const gate = this.#gateOf(key);
        return gate === null ? [] : [{ key, gate, weight, cap: null }];
      });
      this.#ofRoutes.set(route, passages);
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
        : { state, left: permitsLeft(state, this.#now), passed: 0, leased: 0, isShut: false, opensAt: null };
    this.#gates.set(key, gate);
    return gate;
  }
}
