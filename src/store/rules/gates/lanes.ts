/**
 * The decisions about lanes (rules R6 and R7), as functions that read no store: which job of a lane is its first one,
 * which lane comes first, how turns move, at which gate a lane waits, and how many waiting lanes are released. SQL and
 * Lua have the same functions by the same names. What a change of a single job means for its lane is in lane.ts.
 *
 *                 closed gate, by waitsAt or refusedAt
 *      open ────────────────────────────────────────────► waiting at the gate of a key
 *       │ ▲                                                  │
 *       │ └──── lanesToRelease: something about the gate changed
 *       ▼
 *     empty    by rank it is deleted at once; by turn when its turn is forgotten
 */
import { permitsLeft } from "../../../model/limits/gate.ts";
import type { GateState } from "../../../model/limits/gate.ts";
import { isKeyedGate } from "../../../model/routing/lane.ts";
import type { KeyUse } from "../../../model/routing/lane.ts";

/** The place of a job in its lane. */
interface Place {
  readonly rank: number;
  readonly seq: number;
}

/** The place of a lane among the open lanes of its route. */
interface Position {
  readonly pos: number;
  /** Its first job. */
  readonly first: Pick<Place, "seq">;
}

/** Whether a job is claimed before another one of its lane. */
export function isAhead(one: Place, other: Place): boolean {
  return one.rank < other.rank || (one.rank === other.rank && one.seq < other.seq);
}

/** Whether the first job of a lane is claimed before that of another lane. */
export function isLaneAhead(one: Position, other: Position): boolean {
  return one.pos < other.pos || (one.pos === other.pos && one.first.seq < other.first.seq);
}

/** The position of a lane with this first job; `turn` is null for a lane by rank. */
export function positionOf(turn: number | null, first: Pick<Place, "rank">): number {
  return turn ?? first.rank;
}

/** The turn of a lane that has none; `top` is the highest turn claimed in its queue so far. */
export function joinTurn(top: number): number {
  return top;
}

/** A job of a lane is claimed. @returns the new top of the queue, and the new turn of the lane. */
export function takeTurn(
  turn: number,
  top: number,
  step: number,
): { readonly top: number; readonly turn: number } {
  const taken = Math.max(turn, top);
  return { top: taken, turn: taken + step };
}

/**
 * Empty lanes forget turns up to this one: the queue has reached them, so a lane that joins again gets no lower turn.
 */
export function forgottenTurn(top: number): number {
  return top;
}

/**
 * The gate at which a lane with this first job waits: one that lets no weight pass, or that the job's own cap keeps
 * closed; null for an open lane. If lighter jobs may still pass the gate, the claim has to decide.
 */
export function waitsAt(
  uses: readonly KeyUse[],
  stateOf: (key: string) => GateState,
  now: number,
): string | null {
  const closed = uses.find(({ key, weight, cap }) => {
    const state = stateOf(key);
    return permitsLeft(state, now) < 1 || (cap !== null && cap - state.held < weight);
  });
  return closed?.key ?? null;
}

/** The gate at which a lane waits whose first job these gates refuse; null if only gates of its route do. */
export function refusedAt(refusing: readonly string[]): string | null {
  return refusing.find(isKeyedGate) ?? null;
}

/**
 * A lane was refused and takes no permits. Other lanes may have waited for these permits: they wait at these gates, and
 * are looked at instead.
 */
export function leftAt(uses: readonly KeyUse[], refusing: readonly string[]): readonly string[] {
  return uses.filter(({ key }) => !refusing.includes(key)).map(({ key }) => key);
}

/** At most this many lanes of a route are released at once: a gate without bounds of its own lets any number pass. */
const releasedMax = 1000;

/**
 * How many of the lanes that wait at the gate of a key are released per route: no more than may pass.
 *
 * @param isMet no permit came back: jobs that ask for the gate came or went. A gate without bounds, where each job has
 *   a cap of its own, is opened by that for no lane.
 */
export function lanesToRelease(state: GateState, now: number, isMet: boolean): number {
  const left = permitsLeft(state, now);
  return isMet && left === Infinity ? 0 : Math.min(left, releasedMax);
}
