/**
 * The whole engine, many nodes, a virtual clock and seeded faults on a store in memory, judged by the history checker.
 * A fixed number of seeds, so that every run is the same; run-seed.ts says how to run others. A chosen seed runs alone
 * and tells the story of the first job that broke a rule.
 */
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { checkHistory } from "../history/checks/check-history.ts";
import { hangMs } from "../support/hang-ms.ts";
import { knownBugs } from "./known-bugs.ts";
import { areSeedsChosen, runSeed, seedsToRun } from "./run-seed.ts";
import { pastSeeds } from "./seeds.ts";
import { countSometimes, sometimes } from "./sometimes.ts";
import type { Sometimes } from "./sometimes.ts";

const { from: firstSeed, to: lastSeed } = seedsToRun(60);
const testMs = 600_000;

const unlessChosen = <Item>(items: readonly Item[]): Item[] => (areSeedsChosen ? [] : [...items]);
/** The others of them run with all below. */
const pastSeedsBeyond = pastSeeds.filter(([seed]) => seed < firstSeed || seed > lastSeed);

test.each(unlessChosen(pastSeedsBeyond))(
  "seed %i, which once failed, keeps every invariant: %s",
  { timeout: testMs },
  async (seed) => {
    expect((await runSeed(seed)).failure).toBeNull();
  },
);

test.each(unlessChosen(knownBugs))(
  "seed $seed still shows a known bug: $what",
  { timeout: testMs },
  async ({ seed, causes }) => {
    const { evidence } = (await runSeed(seed)).run;
    expect(checkHistory(evidence).some((violation) => causes(violation, evidence))).toBe(true);
  },
);

test.each(unlessChosen([3, 5, 8]))(
  "the same seed gives the same history, event by event (seed %i)",
  { timeout: testMs },
  async (seed) => {
    const [first, second] = [await runSeed(seed), await runSeed(seed)];
    expect(second.run.hash).toBe(first.run.hash);
    expect(second.run.events).toBe(first.run.events);
  },
);

/** One test, because what must happen sometimes is counted over all of them. */
test(
  `seeds ${firstSeed} to ${lastSeed} keep every invariant, and what must happen sometimes has happened`,
  { timeout: (lastSeed - firstSeed + 1) * hangMs },
  async () => {
    const counts = new Map<Sometimes, number>();
    const failures: string[] = [];
    for (let seed = firstSeed; seed <= lastSeed; seed++) {
      try {
        const { run, failure } = await runSeed(seed);
        countSometimes(run.evidence, run.clockSteps, counts);
        if (failure !== null) failures.push(failure);
      } catch (error) {
        // The seeds after it still say what they have to say.
        failures.push(inspect(error));
      }
    }
    expect(failures).toEqual([]);
    expect(unlessChosen(sometimes).filter((what) => !counts.has(what))).toEqual([]);
  },
);
