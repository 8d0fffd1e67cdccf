/**
 * The simulation on a bucket: writers are killed, paused, closed and taken over, and their objects fail in every way.
 * MILLRACE_SEED and MILLRACE_SEEDS as in run-seed.ts.
 */
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { areSeedsChosen, runSeed, seedsToRun } from "./run-seed.ts";
import { pastBucketSeeds } from "./seeds.ts";

const { from, to } = seedsToRun(16);
const range = Array.from({ length: to - from + 1 }, (_, at) => from + at);
const past = areSeedsChosen
  ? []
  : pastBucketSeeds.map(([seed]) => seed).filter((seed) => !range.includes(seed));

test(
  `seeds ${from} to ${to} keep every invariant on a bucket, and those that once did not`,
  {
    timeout: 3_600_000,
  },
  async () => {
    const failures: string[] = [];
    for (const seed of [...past, ...range]) {
      try {
        const { failure } = await runSeed(seed, { isBucket: true });
        if (failure !== null) failures.push(failure);
      } catch (error) {
        // The seeds after it still say what they have to say.
        failures.push(inspect(error));
      }
    }
    expect(failures).toEqual([]);
  },
);
