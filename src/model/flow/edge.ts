/**
 * Edges of a flow: what the end of one member means to another. A store keeps the text with the first member and reads
 * it by rule R4.
 *
 *   <meets><misses><target>    for example "1ufetch": a success meets the need of the node fetch, every other end
 *                              misses it
 *
 * meets, misses   which ends count the target's need or its slack down: one letter each, five bits, one for each
 *                 terminal state in the order of their codes. An end may do both: it is waited for, and it is one too
 *                 many.
 * target          the node's name, or "" for the flow itself
 *
 * The id of a member is the id of its flow, a dot and its name, so that an edge needs no other address. The first edge
 * of every member leads to its flow.
 */
import { stateCodes, terminalStates } from "../job/job-state.ts";
import type { TerminalState } from "../job/job-state.ts";

export interface Edge {
  readonly meets: number;
  readonly misses: number;
  readonly target: string;
}

const radix = 32;

/** The bit of an end, by the code of its state. */
export function bitOfEnd(state: number): number {
  return 2 ** (state - stateCodes.completed);
}

export function bitsOf(...ends: readonly TerminalState[]): number {
  return ends.reduce((bits, end) => bits + bitOfEnd(stateCodes[end]), 0);
}

export const everyEnd = bitsOf(...terminalStates);

export function writeEdge({ meets, misses, target }: Edge): string {
  return meets.toString(radix) + misses.toString(radix) + target;
}

export function readEdge(text: string): Edge {
  return { meets: meetsOf(text), misses: digitAt(text, 1), target: targetOf(text) };
}

/** Reads only which ends meet the target's need. */
export function meetsOf(text: string): number {
  return digitAt(text, 0);
}

function digitAt(text: string, at: number): number {
  return Number.parseInt(text.charAt(at), radix);
}

/** Reads only the target of an edge, or in the meta of a member the path of its source. */
export function targetOf(text: string): string {
  return text.slice(2);
}

/** The same edge to (or in a meta from) another node. */
export function withTarget(text: string, target: string): string {
  return text.slice(0, 2) + target;
}

/** The id of what a member's edge leads to; `flow` is the member's flow. */
export function idOfNode(flow: string, target: string): string {
  return target === "" ? flow : `${flow}.${target}`;
}

export const hasBit = (bits: number, state: number): boolean => (bits & bitOfEnd(state)) !== 0;

/**
 * How many edges the next step of an end goes along, by how many it has passed. Short steps come first: the jobs that
 * they free run while the longer steps go on.
 */
export function edgesOfStep(
  passed: number,
  { edgesAtOnceMax, edgesPerStepMax }: { readonly edgesAtOnceMax: number; readonly edgesPerStepMax: number },
): number {
  return Math.min(edgesPerStepMax, Math.max(edgesAtOnceMax, passed * 2));
}
