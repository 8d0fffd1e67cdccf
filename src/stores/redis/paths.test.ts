/**
 * Every path of the table leaves the keys that the general path leaves: the same calls go to a store whose library has
 * this path and the general ones, and to one whose library has only those. fast-paths.test.ts, flow-paths.test.ts and
 * wide-flow-paths.test.ts compare all paths together, over more kinds of jobs.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { aFlow, aMember, edgeTo } from "../../../test/contract/cases/flow-jobs.ts";
import { aClaim, aJob, aRoute, aSettle, finish, handBack } from "../../../test/support/builders.ts";
import { useBothPaths } from "../../../test/support/redis-paths.ts";
import type { Both } from "../../../test/support/redis-paths.ts";
import { writeKeyUse } from "../../model/routing/lane.ts";
import type { NewJob } from "../../store/records.ts";
import { buildLibrary, libraryOf } from "./library/library.ts";
import { serverPaths } from "./library/path-branches.ts";
import { redisPaths } from "./paths.ts";

const { plain, openBoth } = useBothPaths();
const numRuns = 5;

/** Of each path: where it begins in the library, and which other paths of the library it cannot do without. */
const begins: Readonly<Record<string, { readonly at: string; readonly needs?: readonly string[] }>> = {
  "submit: set": { at: "local function submitPlain(c, total, hasLead) if not hasLead then" },
  "submit: flow members": { at: "local function submitPlain(c, total, hasLead) if hasLead then" },
  "claim: lanes": { at: "local function leaseLaneSet(c, p, s, starts) if s then" },
  "lease: set": { at: "local function readFirst(spec, state, route) if spec and not state then" },
  "lease: flow members": { at: "local function readMember(spec, route) if spec then" },
  "settle: flow members": {
    at: "local function endMembers(c, seriesByKey, series, s, at, stop) if s then",
    needs: ["arrive: flow members"],
  },
  "settle: set": { at: "local function endAlike(c, series, s, at, stop, passing) if at < stop then" },
  "arrive: flow members": { at: "local function arriveAtTarget(c, target, edge, ended) if c then" },
};

const use = (key: string): string => writeKeyUse({ key, weight: 1, cap: 1 });
const someKind = fc.constantFrom<(at: number) => Partial<NewJob>>(
  ...[() => ({}), () => ({}), () => ({ tags: ["a"] }), () => ({ meta: "m" }), () => ({ rankBase: 5 })],
  (at) => ({ unique: { key: `k${at}`, hold: "end", onHeld: "keep" } as unknown as NewJob["unique"] }),
  (at) => ({ laneKey: `fair ${at % 3}`, laneStep: 5 + (at % 3) }),
  (at) => ({ laneKey: `fifo ${at % 3}`, laneGates: [use(`g:mail\tk${at % 3}`)] }),
);
const someJobs = fc
  .array(someKind, { minLength: 12, maxLength: 24 })
  .map((kinds) => kinds.map((kindOf, at) => aJob({ id: `j${at}`, ...kindOf(at) })));
const members = ["a", "b", "c", "d"].map((name) => aMember(name, { to: [edgeTo("last")] }));
const flow = [aFlow(5), ...members, aMember("last", { need: 4 })];
const lanes = [{ laneKey: "any" }, { laneKey: "any", laneStep: 1 }, {}].map(aRoute);
const someRounds = fc.array(fc.record({ max: fc.integer({ min: 4, max: 12 }), ended: fc.nat(12) }), {
  minLength: 3,
  maxLength: 5,
});
type Rounds = typeof someRounds extends fc.Arbitrary<infer Value> ? Value : never;

/** A unit that may have happened before takes the general path of a submit. */
async function run(
  { same }: Both,
  isSubmit: boolean,
  jobs: readonly NewJob[],
  rounds: Rounds,
): Promise<void> {
  const units = [...jobs.map((job) => ({ jobs: [job] })), { jobs: flow }];
  await same((store, isGeneral) =>
    store.submit(units.map((unit) => ({ ...unit, isRepeat: isGeneral || !isSubmit }))),
  );
  for (const { max, ended } of rounds) {
    const offers = lanes.map((route) => ({ routes: [route], max, starts: 2 }));
    const { jobs: leased } = await same((store) => store.claim(aClaim({ offers })));
    const settles = leased.map((job, at) =>
      aSettle(job, at === ended ? handBack : finish(), { attempts: "1 2" }),
    );
    await same((store) => store.settleIfLeased(settles));
    await same((store) => store.settleIfLeased(settles.slice(0, 2)));
  }
}

const load = (text: string): Promise<unknown> =>
  plain.admin.call("FUNCTION", "LOAD", "REPLACE", libraryOf(text));

describe("a path leaves what the general path leaves", () => {
  test.each(Object.keys(begins))("%s", async (name) => {
    const { at, needs = [] } = begins[name]!;
    const isSubmit = name.startsWith("submit");
    const library = buildLibrary({ paths: isSubmit ? serverPaths : [name, ...needs] });
    await load(library);
    const property = fc.asyncProperty(someJobs, someRounds, async (jobs, rounds) =>
      run(await openBoth(), isSubmit, jobs, rounds),
    );
    await fc.assert(property, { numRuns });
    // And it is taken: the same fails if the path does.
    const [head = "", condition = ""] = at.split(/(?<=\)) (?=if )/);
    expect(library).toContain(head);
    await load(library.replace(head, `${head} ${condition} error("taken") end`));
    const { errorInstance } = await fc.check(property, { numRuns, endOnFailure: true });
    expect(String(errorInstance)).toMatch(/: taken/);
  });
});

test("every path of the table is compared", () => {
  const named = Object.entries(redisPaths).flatMap(([choice, fast]) =>
    fast.map(({ path }) => `${choice}: ${path}`),
  );
  expect(Object.keys(begins).toSorted()).toEqual(named.toSorted());
});
