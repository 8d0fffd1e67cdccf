/**
 * Lanes: jobs in one line. Of a lane only the first ready job by (rank, seq) may be claimed, whatever its name. So no
 * job overtakes inside a lane, and jobs that wait for a closed gate cost a claim nothing.
 *
 * A group of a queue is a lane. Jobs that take from keys of limits but have no group are one lane per route and set of
 * keys: all of them need the same permits, so the first one decides for all.
 *
 *   order   by rank: between lanes the rank of their first jobs decides, as among plain jobs
 *           by turn: lanes take turns. A claim moves the turn of its lane on by the step of the job, so a lane of
 *           weight 2 comes twice as often; a lane that was empty joins at the turn that the queue has reached, so that
 *           it neither waits for a long line nor is paid for the time in which it was empty
 *
 * A job with a lane names the gates of its keys (`laneGates`), which a claim must pass like those of its route. Such a
 * gate has a cap of its own (a group that runs N at once) or is bounded as its limit says of each key.
 */
import type { GateUse } from "../limits/gate.ts";

/** How the lanes of a route share its claims (see above). */
export type LaneOrder = "rank" | "turn";

/** The gate of one key, and how much of it a job takes while it runs. */
export interface KeyUse extends GateUse {
  /** How much of it may be held at once; null for the bounds of its limit. */
  readonly cap: number | null;
}

/** The fields of a job about its lane. */
export interface LaneFields {
  readonly laneKey: string;
  /** Null for a lane by rank. */
  readonly laneStep: number | null;
  /** As `writeKeyUse` has them, by key; null for none. */
  readonly laneGates: readonly string[] | null;
}

/** Ends the name of a limit or a queue before a key. Names have no control characters. */
const keyMark = "\t";
const groupPrefix = "g:";

/** The gate of one key of a limit or a group: `limitGateKey(name)` or `groupGateKey(queue)` before it. */
export const keyedGate = (gate: string, key: string): string => `${gate}${keyMark}${key}`;
export const groupGateKey = (queue: string): string => `${groupPrefix}${queue}`;
export const isGroupGate = (key: string): boolean => key.startsWith(groupPrefix);
export const isKeyedGate = (key: string): boolean => key.includes(keyMark);
/** The limit's own gate, which has the bounds of each of its keys. */
export const gateOfLimit = (key: string): string => key.slice(0, key.indexOf(keyMark));
/** After all gates of the keys of a limit, and before those of the next limit, in byte order. */
export const behindKeysOf = (gate: string): string => `${gate}\n`;
export const keyOfGate = (key: string): string => key.slice(key.indexOf(keyMark) + 1);

/** The prefix of a lane is that of its kind, so that lanes of two kinds are never equal. */
const lanePrefixes: Readonly<Record<LaneOrder | "keys", string>> = { rank: "r:", turn: "t:", keys: "k:" };

/** The lane of a group of a queue. */
export const groupLane = (queue: string, key: string, order: LaneOrder): string =>
  `${lanePrefixes[order]}${queue}${keyMark}${key}`;
/** The lane of the jobs of a route that take from the same keys, which `uses` names. */
export const keysLane = (route: number, uses: string): string =>
  `${lanePrefixes.keys}${route}${keyMark}${uses}`;

/** The key of the group of this lane; null for none. */
export function groupOfLane(laneKey: string | null | undefined): string | null {
  if (laneKey === null || laneKey === undefined || laneKey.startsWith(lanePrefixes.keys)) return null;
  return keyOfGate(laneKey);
}

/** The step of a lane of weight 1: weights up to 1,000 divide it well. */
const turnUnit = 5_040_000;
export const laneWeightMax = 1000;

export const laneStepOf = (weight: number): number => Math.round(turnUnit / weight);

/** Nothing for a job without a lane. */
export function laneOrderOf({
  laneKey = null,
  laneStep = null,
}: Partial<Record<keyof LaneFields, unknown>>): LaneOrder | null {
  if (laneKey === null) return null;
  return laneStep === null ? "rank" : "turn";
}

/** weight:cap:key, with an empty cap for the bounds of the limit. */
export function writeKeyUse({ key, weight, cap }: KeyUse): string {
  return `${weight}:${cap ?? ""}:${key}`;
}

/** Without a regular expression, because every claim and every end of a job with keys reads it. */
export function readKeyUse(text: string): KeyUse {
  const weightEnd = text.indexOf(":");
  const capEnd = text.indexOf(":", weightEnd + 1);
  const cap = capEnd - weightEnd === 1 ? null : Number(text.slice(weightEnd + 1, capEnd));
  return { key: text.slice(capEnd + 1), weight: Number(text.slice(0, weightEnd)), cap };
}
