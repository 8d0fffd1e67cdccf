/**
 * The simulation on a store of three partitions, each with faults of its own on the way to it. All invariants but those
 * of order (31 and 32) hold: ranks order jobs inside a partition. MILLRACE_SEED and MILLRACE_SEEDS as in run-seed.ts.
 */
import { expect, test } from "vitest";
import { checkHistory } from "../history/checks/check-history.ts";
import type { Judge } from "../history/judge-by.ts";
import { hangMs } from "../support/hang-ms.ts";
import { areSeedsChosen, runSeed, seedsToRun } from "./run-seed.ts";
import { pastPartitionSeeds } from "./seeds.ts";

const { from, to } = seedsToRun(20);
const partitions = 3;
const judge: Judge = (evidence) =>
  checkHistory(evidence).filter(({ invariant }) => invariant !== 31 && invariant !== 32);

test.each(areSeedsChosen ? [] : pastPartitionSeeds)(
  "seed %i, which once failed on three partitions, keeps every invariant: %s",
  async (seed) => {
    expect((await runSeed(seed, { partitions }, judge)).failure).toBeNull();
  },
);

const timeout = (to - from + 1) * hangMs;

test(`seeds ${from} to ${to} keep every invariant on three partitions`, { timeout }, async () => {
  const failures: string[] = [];
  for (let seed = from; seed <= to; seed++) {
    const { failure } = await runSeed(seed, { partitions }, judge);
    if (failure !== null) failures.push(failure);
  }
  expect(failures).toEqual([]);
});
