/** Adds up counts of jobs: of partitions, and of routes that state counts do not distinguish. */
import type { StateCount } from "./records.ts";

/** Routes that differ only in the order of their lanes are counted together. */
export function addStateCounts(stateCounts: readonly (readonly StateCount[])[]): StateCount[] {
  const sums = new Map<string, StateCount>();
  for (const stateCount of stateCounts.flat()) {
    const { queue, name, requires = [], gates = [], state, count } = stateCount;
    const key = JSON.stringify([
      state,
      queue,
      name,
      requires,
      gates.flatMap((gate) => [gate.key, gate.weight]),
    ]);
    sums.set(key, { ...stateCount, count: count + (sums.get(key)?.count ?? 0) });
  }
  return [...sums.values()];
}

/** The same without gates: one count for all jobs of a name that the same workers may run. */
export function withoutGates(stateCounts: readonly StateCount[]): StateCount[] {
  return addStateCounts([stateCounts.map(({ gates: _gates, ...stateCount }) => stateCount)]);
}
