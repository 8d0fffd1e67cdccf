/**
 * Every path of the table leaves the keys that the general path leaves: the same calls go to a store whose library has
 * this path and the general ones, and to one whose library has only those. fast-paths.test.ts, flow-paths.test.ts and
 * wide-flow-paths.test.ts compare all paths together, over more kinds of jobs.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { aFlow, aMember, edgeTo } from "../../../test/contract/cases/flow-jobs.ts";
import { aClaim, aJob, aRoute, aSettle, finish, handBack, schedule } from "../../../test/support/builders.ts";
import { useBothPaths } from "../../../test/support/redis-paths.ts";
import type { Both } from "../../../test/support/redis-paths.ts";
import { writeKeyUse } from "../../model/routing/lane.ts";
import type { Change, LeasedWrite } from "../../store/operations.ts";
import type { LeasedJob, NewJob } from "../../store/records.ts";
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
  "record: set": { at: "local function appendNext(c, h, durable, last, unread) if h then" },
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
const someEntry = fc.record({
  key: fc.constantFrom("a", "b", "c", "d", "hard \x1e\x1f"),
  body: fc.constantFrom("", "x", "hard \x1f"),
  marks: fc.constantFrom(0, 0, 0, 2, 4),
  unread: fc.constantFrom(0, 0, 3),
  reads: fc.constantFrom<readonly number[]>([], [], [1], [2, 3]),
});
/** Of one job: what is recorded twice under its lease, what another appends in between, and how it goes on. */
const someRecord = fc.record({
  entries: fc.array(someEntry, { maxLength: 3 }),
  setsBack: fc.boolean(),
  progress: fc.constantFrom(undefined, undefined, undefined, "half"),
  signal: fc.option(someEntry),
  isNewRound: fc.boolean(),
});
const someRounds = fc.array(
  fc.record({
    max: fc.integer({ min: 4, max: 12 }),
    ended: fc.nat(12),
    records: fc.array(someRecord, { maxLength: 8 }),
  }),
  { minLength: 3, maxLength: 5 },
);
type Records = Rounds[number]["records"];
type Rounds = typeof someRounds extends fc.Arbitrary<infer Value> ? Value : never;

/** A unit that may have happened before takes the general path of a submit. */
async function run(both: Both, isSubmit: boolean, jobs: readonly NewJob[], rounds: Rounds): Promise<void> {
  const { same } = both;
  const units = [...jobs.map((job) => ({ jobs: [job] })), { jobs: flow }];
  await same((store, isGeneral) =>
    store.submit(units.map((unit) => ({ ...unit, isRepeat: isGeneral || !isSubmit }))),
  );
  for (const { max, ended, records } of rounds) {
    const offers = lanes.map((route) => ({ routes: [route], max, starts: 2 }));
    const { jobs: leased } = await same((store) => store.claim(aClaim({ offers })));
    await record(both, leased, records);
    const settles = leased.map((job, at) => {
      const durable = records[at];
      if (durable === undefined) return aSettle(job, at === ended ? handBack : finish(), { attempts: "1 2" });
      const next = durable.isNewRound ? schedule(0, { newRound: true }) : handBack;
      return aSettle(job, next, { attempts: "1 2", journal: { seen: null, entries: [] } });
    });
    await same((store) => store.settleIfLeased(settles));
    await same((store) => store.settleIfLeased(settles.slice(0, 2)));
  }
}

async function record({ same }: Both, leased: readonly LeasedJob[], records: Records): Promise<void> {
  const writes = leased.slice(0, records.length).map(({ id, seq, fence }, at): LeasedWrite => {
    const { entries, setsBack, progress } = records[at]!;
    const write = { id, seq, fence, entries, ...(setsBack ? { setsBack } : {}) } as const;
    return progress === undefined ? write : { ...write, progress };
  });
  const appends = writes.flatMap(({ id }, at): Change[] => {
    const entry = records[at]!.signal;
    const next = { to: "same", event: "signalled" } as const;
    return entry === null
      ? []
      : [{ id, cases: [{ guard: { states: ["running"] }, next, append: { entry } }] }];
  });
  await same((store) => store.recordIfLeased(writes));
  await same((store) => store.changeIf(appends));
  await same((store) => store.recordIfLeased([...writes.toReversed(), ...writes.slice(0, 2)]));
  await same((store) => store.readJournal(writes.map(({ id }) => ({ id, after: 0, max: 10 }))));
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
