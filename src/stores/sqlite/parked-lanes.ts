/**
 * Lanes that wait at the gate of a key (docs/decisions/0023): they are in no index that a claim reads, so closed keys
 * cost nothing. A lane is parked when it comes to show a job that its gate lets by no means pass, else by the claim
 * that was refused. When something about a gate has changed, the first lanes of each route that it may let pass are
 * looked at again, no more than there are permits: those behind them are looked at when one of these goes away without
 * a permit.
 */
import { opensAt, permitsLeft } from "../../model/gate.ts";
import type { GateState } from "../../model/gate.ts";
import { isKeyedGate, keyedGate } from "../../model/lane.ts";
import type { KeyUse } from "../../model/lane.ts";
import { limitTo, readValue } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { keyState, setKeyClock } from "./key-gates.ts";
import { isParkedLane } from "./schema.ts";
import type { Step } from "./step.ts";

const parked = `millrace_lane INDEXED BY millrace_lane_parked WHERE ${isParkedLane}`;
/** Input: key of the gate. Answer: up to two lanes that wait there: most gates have one. */
const readTwo = `SELECT number, route FROM ${parked} AND parked_at = ? ORDER BY route, pos, seq LIMIT 2`;
/** Inputs: key of the gate, route. Answer: the next route with lanes there. */
const readRoute = `SELECT min(route) FROM ${parked} AND parked_at = ? AND route > ?`;
/** Inputs: key of the gate, route, limit. Answer: the first lanes of the route that wait there. */
const readFirst = `SELECT number FROM ${parked} AND parked_at = ? AND route = ? ORDER BY pos, seq ${limitTo("?")}`;
/** Input: number of a lane. */
const unpark = "UPDATE millrace_lane SET parked_at = NULL WHERE number = ?";
/** Inputs: first and last key of gates. Answer: those at which lanes wait, from this one on. */
const readGate = `SELECT min(parked_at) FROM ${parked} AND parked_at > ? AND parked_at < ?`;

/** So many lanes of a route are looked at again at most: a gate without bounds of its own lets any number pass. */
const wokenMax = 1000;

export interface WokenLane {
  readonly number: number;
  readonly route: number;
}

export function isAnyParked(statements: Statements): boolean {
  return readValue(statements, `SELECT 1 FROM ${parked} LIMIT 1`) !== null;
}

/**
 * The gate at which a lane with this first job waits: one that lets nobody pass, or that the job's own cap keeps shut.
 */
export function closedGateOf(
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

/**
 * The lanes that wait at the gate of this key and may go on now.
 *
 * @param isMet nothing of the gate came back: jobs that ask for it came or went. Where each of them has a cap of its
 *   own, that opens it for nobody.
 */
export function wakeAtGate(
  { statements, now }: Pick<Step, "statements" | "now">,
  key: string,
  isMet = false,
): WokenLane[] {
  const two = statements(readTwo).all(key) as [number: number, route: number][];
  if (two.length === 0) return [];
  const state = keyState(statements, key);
  const left = permitsLeft(state, now);
  if (isMet && left === Infinity) return [];
  const max = Math.min(left, wokenMax);
  if (max === 0) {
    setKeyClock(statements, key, opensAt(state, 1, now), now);
    return [];
  }
  if (state.opensAt !== null) setKeyClock(statements, key, null, now);
  const woken = two.length === 1 ? two : firstOfRoutes(statements, key, max);
  for (const [number] of woken) statements(unpark).run(number);
  return woken.map(([number, route]) => ({ number, route }));
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

/** After a put of the gate of a key, or of a limit: the routes on which somebody may go on. */
export function wakeLanesOf(step: Pick<Step, "statements" | "now">, gate: string): Set<number> {
  const { statements } = step;
  const routes = new Set<number>();
  const wake = (key: string): void => {
    for (const { route } of wakeAtGate(step, key)) routes.add(route);
  };
  if (isKeyedGate(gate)) {
    wake(gate);
    return routes;
  }
  const [from, to] = [keyedGate(gate, ""), keyedGate(gate, "\u{10ffff}")];
  for (let key = readValue<string>(statements, readGate, from, to); key !== null;) {
    wake(key);
    key = readValue<string>(statements, readGate, key, to);
  }
  return routes;
}
