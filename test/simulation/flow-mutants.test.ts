/** What the crash scenarios are worth: each bug that is planted in the store's way of living a flow is found. */
import { expect, test } from "vitest";
import { readWaits, writeWaits } from "../../src/model/flow/flow-waits.ts";
import { deleteChange } from "../../src/model/job/operate.ts";
import type { NewJob } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { judgeFlows } from "../history/checks/check-flows.ts";
import { liveStates, terminalStates } from "../../src/model/job/job-state.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { chain } from "../contract/cases/flow-jobs.ts";
import { aChange, aClaim, aSettle, finish, schedule } from "../support/builders.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { liveThrough } from "./crash-world.ts";
import { scenarios } from "./flow-scenarios.ts";
import type { EmittedEvent } from "./flow-scenarios.ts";
import { recounted } from "./recounted.ts";

type Mutant = readonly [bug: string, scenario: string, bend: (store: Store) => Store];

const bendJobs =
  (bend: (job: NewJob) => NewJob) =>
  (store: Store): Store => ({
    ...store,
    submit: (units) => store.submit(units.map((unit) => ({ ...unit, jobs: unit.jobs.map(bend) }))),
  });

const mutants: readonly Mutant[] = [
  [
    "the failure of a member is not counted",
    "a cascade of skips, three deep",
    // The bit of `failed` in what the first edge, to the flow, is met by.
    bendJobs((job) =>
      (job.edges ?? null) === null ? job : { ...job, edges: ["t0", ...(job.edges ?? []).slice(1)] },
    ),
  ],
  [
    "an end frees nobody",
    "a map that is made of a result",
    bendJobs((job) =>
      (job.edges ?? null) === null ? job : { ...job, edges: (job.edges ?? []).slice(0, 1) },
    ),
  ],
  [
    "an deferred document is dropped before its deed",
    "a flow that fails fast",
    (store) => ({
      ...store,
      readDueDocs: async (request) => {
        const page = await store.readDueDocs(request);
        const deferred = page.docs.filter(({ kind }) => kind === "deferred");
        await store.putDocs(
          deferred.map(({ kind, id }) => ({ kind, id, body: null, guard: "any" as const })),
        );
        return { ...page, docs: page.docs.filter(({ kind }) => kind !== "deferred") };
      },
    }),
  ],
  [
    "a join wants one less than it should",
    "a cascade of skips, three deep",
    bendJobs((job) => {
      const { freed = null, waits: text = null } = job;
      if (freed === null || text === null) return job;
      const waits = readWaits(text);
      return waits.need < 2 ? job : { ...job, waits: writeWaits({ ...waits, need: waits.need - 1 }) };
    }),
  ],
  [
    "a join fires twice",
    "a join of any that cancels its other parents",
    (store) => ({
      ...store,
      settleIfLeased: async (settles) => {
        const answers = await store.settleIfLeased(settles);
        for (const { id } of settles) {
          const use = `${id.split(".")[0]}.use`;
          const next = schedule(0, { event: "freed" });
          await store.changeIf([{ id: use, cases: [{ guard: { states: ["ready", "running"] }, next }] }]);
        }
        return answers;
      },
    }),
  ],
  [
    "a member is pruned inside of a live flow",
    "a cascade of skips, three deep",
    (store) => ({
      ...store,
      settleIfLeased: async (settles) => {
        const answers = await store.settleIfLeased(settles);
        const gone = settles.map(({ id }) => ({
          id,
          cases: [{ guard: { states: ["completed" as const] }, next: deleteChange.next }],
        }));
        await store.changeIf(gone);
        return answers;
      },
    }),
  ],
];

test.each(mutants)("it is found that %s", async (_, name, bend) => {
  const scenario = scenarios.find((each) => each.name === name) as EmittedEvent;
  const found = await liveThrough(scenario, null, { bend }).then(
    ({ jobs, feed }) => [...judgeFlows(jobs, feed)].map(({ message }) => message),
    (error: unknown) => [String(error)],
  );
  expect(found).not.toEqual([]);
});

test("it is found that a flow counts an end only with the next one, although all counts are right in the end", async () => {
  const platform = createHeldPlatform();
  const store = await openSqliteStore({ path: ":memory:", platform });
  let late: string | null = null;
  const isLate = async (ids: readonly string[]) => {
    const [flow, ...others] = await store.readJobs(ids);
    const shown = late ?? flow?.waits ?? null;
    late = flow?.waits ?? null;
    return [flow === null || flow === undefined ? null : { ...flow, waits: shown }, ...others];
  };
  const wrongs: (readonly string[])[] = [];
  for (const bent of [store, { ...store, readJobs: isLate }]) {
    const { store: watched, miscounts, looks } = recounted(bent);
    await watched.submit([{ jobs: chain }]);
    for (const _ of ["a", "b", "c"]) {
      const { jobs } = await watched.claim(aClaim());
      await watched.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
    }
    expect(looks()).toBe(4);
    wrongs.push(await miscounts());
    await store.changeIf(
      chain.map(({ id }) => aChange(id, [...liveStates, ...terminalStates], deleteChange.next)),
    );
  }
  expect(wrongs).toEqual([[], [expect.stringMatching(/^F counts 3 members/)]]);
  await store.close();
});
