/** Counts of jobs from several places, added up: of partitions, and of routes that tallies do not tell apart. */
import type { Tally } from "./records.ts";

/** Routes that differ in the order of their lanes alone are counted together. */
export function addTallies(tallies: readonly (readonly Tally[])[]): Tally[] {
  const sums = new Map<string, Tally>();
  for (const tally of tallies.flat()) {
    const { queue, name, caps = [], gates = [], state, count } = tally;
    const key = JSON.stringify([state, queue, name, caps, gates.flatMap((gate) => [gate.key, gate.weight])]);
    sums.set(key, { ...tally, count: count + (sums.get(key)?.count ?? 0) });
  }
  return [...sums.values()];
}

/** The same without gates: one count for all jobs of a name that the same workers may run. */
export function withoutGates(tallies: readonly Tally[]): Tally[] {
  return addTallies([tallies.map(({ gates: _gates, ...tally }) => tally)]);
}
