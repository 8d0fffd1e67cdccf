/**
 * Every commit of a set of durable runs is the last of its process; another one has to bring the run to its end. Bugs
 * that are planted in the store show what the crashes are worth.
 */
import { expect, test } from "vitest";
import type { Change } from "../../src/store/operations.ts";
import type { NewJob } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { liveThrough } from "./crash-world.ts";
import type { CrashPoint } from "./crash-world.ts";
import { bothSidesOf } from "./flow-crash-suite.ts";
import { describeRunCrashes, faultsOf } from "./run-crash-suite.ts";
import { runId, runScenarios } from "./run-scenarios.ts";
import type { EndedRun } from "./run-scenarios.ts";

describeRunCrashes({ title: "SQLite" });

type Bend = (store: Store) => Store;

const acceptsRepeatedSignals: Bend = (store) => {
  let count = 0;
  const bent = (change: Change): Change => ({
    ...change,
    cases: change.cases.map(({ append, ...each }) =>
      append === undefined
        ? each
        : { ...each, append: { ...append, entry: { ...append.entry, key: `signal ${++count}` } } },
    ),
  });
  return { ...store, changeIf: (changes) => store.changeIf(changes.map(bent)) };
};

const knowsNoIds: Bend = (store) => {
  let count = 0;
  const bent = (each: NewJob): NewJob =>
    each.id === runId && count++ > 0 ? { ...each, id: `${runId} again` } : each;
  return {
    ...store,
    submit: (units) => store.submit(units.map((unit) => ({ ...unit, jobs: unit.jobs.map(bent) }))),
  };
};

/** What the end of a child owes its run is struck off before it is done. */
const forgetsBeforeTheDeed: Bend = (store) => ({
  ...store,
  readDueDocs: async (request) => {
    const page = await store.readDueDocs(request);
    const deferred = page.docs.filter(({ kind }) => kind === "deferred");
    await store.putDocs(deferred.map(({ kind, id }) => ({ kind, id, body: null, guard: "any" as const })));
    return page;
  },
});

const mutants: readonly (readonly [bug: string, scenario: string, bend: Bend])[] = [
  [
    "a signal is accepted again with its key",
    "signals that come early, late and twice",
    acceptsRepeatedSignals,
  ],
  [
    "the end of a child is deleted before it is appended",
    "a job and a flow that are invoked, and a job that is enqueued",
    forgetsBeforeTheDeed,
  ],
  ["a known id is another job", "a sleep between two steps", knowsNoIds],
];

test.each(mutants)("a planted bug is found: %s", async (_, name, bend) => {
  const scenario = runScenarios.find((each) => each.name === name) as EndedRun;
  const undisturbed = await liveThrough(scenario, null);
  const points: readonly (CrashPoint | null)[] = [null, ...bothSidesOf(undisturbed.commits)];
  let found: readonly string[] = [];
  for (let at = 0; at < points.length && found.length === 0; at++)
    found = await liveThrough(scenario, points[at] ?? null, { bend }).then(
      (life) => faultsOf(scenario, life, undisturbed),
      (error: Error) => [error.message],
    );
  expect(found).not.toEqual([]);
});
