/** Counts of jobs from several places, added up: of partitions, and of routes that tallies do not tell apart. */
import type { Tally } from "./records.ts";

export function addTallies(tallies: readonly (readonly Tally[])[]): Tally[] {
  const sums = new Map<string, Tally>();
  for (const tally of tallies.flat()) {
    const { queue, name, caps = [], state, count } = tally;
    const key = JSON.stringify([state, queue, name, ...caps]);
    sums.set(key, { ...tally, count: count + (sums.get(key)?.count ?? 0) });
  }
  return [...sums.values()];
}
