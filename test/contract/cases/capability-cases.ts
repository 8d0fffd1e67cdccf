/** Capabilities: part of a job's route, kept with it, and never handed to whoever did not offer that route. */
import { expect } from "vitest";
import { routeOf } from "../../../src/model/routing/route.ts";
import type { ClaimOffer, JobFilter } from "../../../src/store/operations.ts";
import { aChange, aJob, aRoute, aSettle, finish, replay, schedule } from "../../support/builders.ts";
import { findAll, sortStateCounts } from "../../support/walk.ts";
import type { ContractGroup } from "../subject.ts";

const gpu = ["gpu"];
const both = ["eu", "gpu"];
const ids = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);
/** Whoever offers these combinations. */
const offers = (...combinations: (readonly string[])[]): ClaimOffer[] => [
  { routes: combinations.map((requires) => aRoute({ requires })), max: 20 },
];

export const capabilityCases: ContractGroup = {
  about: "capabilities",
  cases: [
    [
      "a job is claimed by its own combination of capabilities and by no other",
      async ({ submit, claim }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b", requires: gpu }), aJob({ id: "c", requires: both }));
        expect(ids(await claim({ offers: offers(["eu"]) }))).toEqual([]);
        expect(ids(await claim({ offers: offers([]) }))).toEqual(["a"]);
        expect(ids(await claim({ offers: offers([], gpu) }))).toEqual(["b"]);
        expect(ids(await claim({ offers: offers([], gpu, both) }))).toEqual(["c"]);
      },
    ],
    [
      "routes with and without capabilities in one offer are claimed in the order of their ranks",
      async ({ submit, claim }) => {
        const shapes = [{ requires: gpu }, {}, { requires: both }];
        const jobs = Array.from({ length: 12 }, (_, at) =>
          aJob({ id: `j${at}`, rankBase: 12 - at, ...shapes[at % 3] }),
        );
        await submit(...jobs);
        expect(ids(await claim({ offers: offers([], gpu, both) }))).toEqual(ids(jobs.toReversed()));
      },
    ],
    [
      "records, state counts and routes show the capabilities of a job, live and finished",
      async ({ submit, claim, store, read }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b", requires: both }));
        const [b] = await claim({ offers: offers(both) });
        await store.settleIfLeased([aSettle(b!, finish("completed", { keepMs: 1000 }))]);
        await submit(aJob({ id: "c", requires: both }));
        expect("requires" in (await read("a"))).toBe(false);
        expect([(await read("b")).requires, (await read("c")).requires]).toEqual([both, both]);
        const kind = { queue: "mail", name: "send" };
        expect(sortStateCounts(await store.countJobs())).toEqual(
          sortStateCounts([
            { ...kind, state: "ready", count: 1 },
            { ...kind, requires: both, state: "ready", count: 1 },
            { ...kind, requires: both, state: "completed", count: 1 },
          ]),
        );
        const routes = [routeOf(kind), routeOf({ ...kind, requires: both })];
        expect(await store.readRoutes()).toEqual(routes.sort((one, other) => one.number - other.number));
      },
    ],
    [
      "a list can be narrowed to exactly the capabilities that a route has",
      async ({ submit, store }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b", requires: gpu }), aJob({ id: "c", requires: both }));
        await submit(aJob({ id: "d", name: "other", requires: gpu }));
        const found = async (filter: JobFilter): Promise<string[]> =>
          ids(await findAll(store, filter)).sort();
        expect(await found({ requires: gpu })).toEqual(["b", "d"]);
        expect(await found({ requires: gpu, name: "send" })).toEqual(["b"]);
        expect(await found({ requires: both, states: ["ready"] })).toEqual(["c"]);
        expect(await found({ requires: [] })).toEqual(["a"]);
        expect(await found({ requires: ["eu"] })).toEqual([]);
        expect(await found({ queue: "mail", name: "send" })).toEqual(["a", "b", "c"]);
      },
    ],
    [
      "jobs of one unit may ask for different capabilities",
      async ({ store, claim }) => {
        const jobs = [
          aJob({ id: "{u}a", requires: gpu }),
          aJob({ id: "{u}b" }),
          aJob({ id: "{u}c", requires: both }),
        ];
        await store.submit([{ jobs }]);
        expect(ids(await claim({ offers: offers(gpu, both) }))).toEqual(["{u}a", "{u}c"]);
      },
    ],
    [
      "a follow-up keeps its capabilities",
      async ({ lease, claim, store, read }) => {
        const a = await lease(aJob({ id: "{f}a" }));
        const jobs = [aJob({ id: "{f}b", requires: gpu }), aJob({ id: "{f}c" })];
        await store.settleIfLeased([aSettle(a, finish(), { effects: { jobs } })]);
        expect(ids(await claim({ offers: offers([]) }))).toEqual(["{f}c"]);
        expect(ids(await claim({ offers: offers(gpu) }))).toEqual(["{f}b"]);
        expect((await read("{f}b")).requires).toEqual(gpu);
      },
    ],
    [
      "a job keeps its capabilities over a delay, a retry and a replay",
      async ({ submit, claim, store, platform }) => {
        const pass = async (ms: number): Promise<void> => {
          platform.advance(ms);
          await store.promoteDue({ max: 10 });
          expect(ids(await claim({ offers: offers([]) }))).toEqual([]);
        };
        const take = async () => (await claim({ offers: offers(gpu) }))[0]!;
        await submit(aJob({ id: "a", requires: gpu, due: { inMs: 10 } }));
        await pass(10);
        await store.settleIfLeased([aSettle(await take(), schedule(5))]);
        await pass(5);
        await store.settleIfLeased([aSettle(await take(), finish("failed", { keepMs: 1000 }))]);
        await store.changeIf([aChange("a", ["failed"], replay())]);
        await pass(0);
        expect((await take()).id).toBe("a");
      },
    ],
    [
      "a job that replaces the holder of a unique key brings its own capabilities",
      async ({ submit, claim, read }) => {
        const unique = { key: "{k}", hold: "end", onHeld: "replace" } as const;
        await submit(aJob({ id: "{k}a", unique, requires: gpu }));
        await submit(aJob({ id: "{k}b", unique, requires: both }));
        expect((await read("{k}a")).requires).toEqual(both);
        expect(ids(await claim({ offers: offers([], gpu) }))).toEqual([]);
        expect(ids(await claim({ offers: offers(both) }))).toEqual(["{k}a"]);
      },
    ],
    [
      "any name can be a capability, and lists that only look alike are different",
      async ({ submit, read, claim, store }) => {
        const lists = [["a,b"], ["a", "b"], ['a","b'], ["a b"], ["[]"], ["{}", "__proto__", "é🙂", "\\x1f"]];
        await submit(...lists.map((requires, at) => aJob({ id: `j${at}`, requires })));
        for (const [at, requires] of lists.entries()) {
          expect((await read(`j${at}`)).requires).toEqual(requires);
          expect(ids(await findAll(store, { requires }))).toEqual([`j${at}`]);
          expect(ids(await claim({ offers: offers(requires) }))).toEqual([`j${at}`]);
        }
      },
    ],
  ],
};
