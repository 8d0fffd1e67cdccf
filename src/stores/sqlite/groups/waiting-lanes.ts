/**
 * Lanes that wait at the gate of a key (docs/decisions/0023): they are in no index that a claim reads, so closed keys
 * cost nothing. A lane begins to wait when it comes to show a job that its gate cannot let pass, else when a claim was
 * refused. When something about a gate has changed, the first lanes of each route are released
 * (store/rules/gates/lanes.ts). The lanes after them are released when one of these goes away without a permit.
 */
import { opensAt } from "../../../model/limits/gate.ts";
import { isKeyedGate, keyedGate } from "../../../model/routing/lane.ts";
import { lanesToRelease } from "../../../store/rules/gates/lanes.ts";
import { limitTo, readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { openKeyStates, setKeyClock } from "../limits/key-gates.ts";
import type { KeyStates } from "../limits/key-gates.ts";
import { isWaitingLane } from "../connection/schema.ts";
import { runOnSeqs } from "../connection/seq-list.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

const waiting = `millrace_lane INDEXED BY millrace_lane_waiting WHERE ${isWaitingLane}`;
/** Input: key of the gate. Answer: up to two lanes that wait there: most gates have one. */
const readTwo = sql`SELECT number, route FROM ${waiting} AND waits_at = ? ORDER BY route, pos, seq LIMIT 2`;
/** Inputs: key of the gate, route. Answer: the next route with lanes there. */
const readRoute = sql`SELECT min(route) FROM ${waiting} AND waits_at = ? AND route > ?`;
/** Inputs: key of the gate, route, limit. Answer: the first lanes of the route that wait there. */
const readFirst = sql`SELECT number FROM ${waiting} AND waits_at = ? AND route = ? ORDER BY pos, seq ${limitTo("?")}`;
/** Inputs: the numbers of lanes. */
const release = "UPDATE millrace_lane SET waits_at = NULL";
/** Inputs: first and last key of gates. Answer: those at which lanes wait, from this one on. */
const readGate = sql`SELECT min(waits_at) FROM ${waiting} AND waits_at > ? AND waits_at < ?`;

export interface ReleasedLane {
  readonly number: number;
  readonly route: number;
}

type At = Pick<Step, "statements" | "now">;

export function isAnyWaiting(statements: Statements): boolean {
  return readValue(statements, `SELECT 1 FROM ${waiting} LIMIT 1`) !== null;
}

/**
 * Releases the lanes that wait at these gates and may go on now.
 *
 * @param gates by key whether no permit of it came back (`isMet` of `lanesToRelease`).
 */
export function releaseLanes(
  step: At,
  gates: Iterable<readonly [key: string, isMet: boolean]>,
  stateOf: KeyStates = openKeyStates(step.statements, true),
): ReleasedLane[] {
  const released: ReleasedLane[] = [];
  for (const [key, isMet] of gates)
    for (const [number, route] of lanesAt(step, key, isMet, stateOf)) released.push({ number, route });
  const numbers = new Set(released.map(({ number }) => number));
  runOnSeqs(step.statements, release, [...numbers], undefined, "number");
  return released;
}

function lanesAt(
  { statements, now }: At,
  key: string,
  isMet: boolean,
  stateOf: KeyStates,
): [number: number, route: number][] {
  const two = statements(readTwo).all(key) as [number: number, route: number][];
  if (two.length === 0) return [];
  const state = stateOf(key);
  const max = lanesToRelease(state, now, isMet);
  if (max === 0) {
    const opens = opensAt(state, 1, now);
    if (opens !== state.opensAt) setKeyClock(statements, key, opens, now);
    return [];
  }
  if (state.opensAt !== null) setKeyClock(statements, key, null, now);
  return two.length === 1 ? two : firstOfRoutes(statements, key, max);
}

function firstOfRoutes(statements: Statements, key: string, max: number): [number: number, route: number][] {
  const lanes: [number: number, route: number][] = [];
  let route = readValue<number>(statements, readRoute, key, -1);
  for (; route !== null; route = readValue<number>(statements, readRoute, key, route)) {
    const of = route;
    for (const [number] of statements(readFirst).all(key, of, max) as [number: number][])
      lanes.push([number, of]);
  }
  return lanes;
}

/** After a put of the gate of a key, or of a limit: the routes of the lanes that it releases. */
export function releaseAfterPut(step: At, gate: string): Set<number> {
  const { statements } = step;
  const keys = new Set<string>();
  if (isKeyedGate(gate)) keys.add(gate);
  else {
    const [from, to] = [keyedGate(gate, ""), keyedGate(gate, "\u{10ffff}")];
    let key = readValue<string>(statements, readGate, from, to);
    for (; key !== null; key = readValue<string>(statements, readGate, key, to)) keys.add(key);
  }
  const gates = [...keys].map((key) => [key, false] as const);
  return new Set(releaseLanes(step, gates).map(({ route }) => route));
}
