/**
 * When how many jobs were finished, and the rate that follows. The clock of a drain runs between two marks: from the
 * one that ends the warm-up to the last. So start-up, the first claim and cold code are outside it, for every system
 * alike and over any number of processes.
 */
import { nowMs } from "./clock.ts";

/** At this time, N more. */
export type Mark = readonly [atMs: number, count: number];

const jobsPerMark = 100;

export class MarkBook {
  readonly marks: Mark[] = [];
  total = 0;
  #unmarked = 0;

  add(count: number): void {
    this.total += count;
    this.#unmarked += count;
    if (this.#unmarked < jobsPerMark) return;
    this.marks.push([nowMs(), this.#unmarked]);
    this.#unmarked = 0;
  }
}

/** A batch that is acknowledged at once ends the warm-up late by up to its size. */
const batchMax = 1000;

/** Fewer leave the code cold, and a short run would measure the compiler. */
const warmUpMin = 2000;

export function warmUpJobs(jobs: number): number {
  return Math.max(warmUpMin, Math.ceil(jobs / 20));
}

/** One behind the other, before samples that are far apart. In a hurry, with few samples, it is short too. */
export function latencyWarmUp(samples: number): number {
  return Math.min(warmUpMin, 2 * samples);
}

/** How many jobs must be there for `jobs` of them to lie inside the clock. */
export function jobsToDrain(jobs: number): number {
  return jobs + warmUpJobs(jobs) + batchMax;
}

export function rateOf(marks: readonly Mark[], warmUp: number): number {
  const inOrder = [...marks].sort((one, other) => one[0] - other[0]);
  let startMs: number | null = null;
  let endMs = 0;
  let warm = 0;
  let counted = 0;
  for (const [atMs, count] of inOrder) {
    if (startMs === null) {
      warm += count;
      if (warm >= warmUp) startMs = atMs;
      continue;
    }
    counted += count;
    endMs = atMs;
  }
  if (startMs === null || counted === 0) throw new Error("Too few jobs were drained to tell a rate.");
  return (counted * 1000) / (endMs - startMs);
}
