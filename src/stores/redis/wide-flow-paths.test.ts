/**
 * Wide flows by either path leave the same keys: one end that goes along many edges, and many members that end together
 * and have the same edges, whose targets are freed or lost on the way (flow-paths.test.ts has graphs of any kind).
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { aFlow, aMember, always, edgeTo, onFailure } from "../../../test/contract/cases/flow-jobs.ts";
import { onSuccess, tolerated } from "../../../test/contract/cases/flow-jobs.ts";
import { aChange, aClaim, aJob, aRoute, aSettle, finish, schedule } from "../../../test/support/builders.ts";
import { useBothPaths } from "../../../test/support/redis-paths.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import type { Effects, LeasedJob, NewJob } from "../../store/records.ts";

const { openBoth } = useBothPaths();
const cases = 20;
const widthMin = 14;
const widthMax = 40;

const someMasks = fc.constantFrom(onSuccess, onSuccess, onSuccess, always, tolerated, onFailure);
/** Most leaves are alike. */
const someLeaf = fc.record({
  need: fc.constantFrom(1, 1, 1, 1, 1, 2),
  slack: fc.constantFrom(0, 0, 0, 0, 1, -1),
  defers: fc.constantFrom(0, 0, 0, 0, 1),
  freed: fc.constantFrom("+0,0,1,", "+0,0,1,", "+0,0,1,", "+20,0,1,", "+0,3,1,", "+0,0,1,30"),
  options: fc.constantFrom<Partial<NewJob>>(
    ...[{}, {}, {}, {}, {}, { tags: ["t"] }, { name: "print" }, { deadline: { inMs: 500 } }, { meta: "m" }],
    ...[{ due: { inMs: 10 } }, { laneKey: "one" }],
  ),
  fromRoot: someMasks,
  toJoin: someMasks,
});
const someFan = fc.record({
  leaves: fc.array(someLeaf, { minLength: widthMin, maxLength: widthMax }),
  /** Edges of the root that come a second time, by the numbers of their leaves; one beyond them leads nowhere. */
  again: fc.array(fc.record({ leaf: fc.nat(widthMax), masks: someMasks }), { maxLength: 3 }),
  /** The edges of the root lead to the leaves in the order in which these were made, or from the last one on. */
  isBackward: fc.boolean(),
  /** All leaves have the edge of the first one to the join, or each its own. */
  isUniform: fc.boolean(),
  joinNeed: fc.integer({ min: 1, max: widthMax }),
  joinSlack: fc.integer({ min: -1, max: widthMax }),
  defers: fc.constantFrom(0, 1),
});
type Fan = typeof someFan extends fc.Arbitrary<infer Value> ? Value : never;

function jobsOf(flow: string, fan: Fan): NewJob[] {
  const { leaves, again, isBackward, isUniform, joinNeed, joinSlack, defers } = fan;
  const own = (given: NewJob): NewJob => ({ ...given, id: given.id.replace(/^F\./, `${flow}.`) });
  const deferring = (each: number): { readonly defers?: 1 } => (each === 1 ? { defers: 1 } : {});
  const inOrder = leaves.map(({ fromRoot }, at) => edgeTo(`n${at}`, fromRoot));
  const toLeaves = isBackward ? inOrder.toReversed() : inOrder;
  const twice = again.map(({ leaf, masks }) => edgeTo(`n${leaf}`, masks));
  return [
    aFlow(leaves.length + 2, { id: flow }),
    aMember("root", { flow, to: [...twice.slice(1), ...toLeaves, ...twice.slice(0, 1)] }),
    ...leaves.map(({ need, slack, defers: each, freed, options, toJoin }, at) => {
      const edge = edgeTo("join", isUniform ? leaves[0]!.toJoin : toJoin);
      return aMember(`n${at}`, { flow, need, slack, ...deferring(each), freed, ...options, to: [edge] });
    }),
    aMember("join", { flow, need: joinNeed, slack: joinSlack, ...deferring(defers) }),
  ].map(own);
}

const someEnd = fc.constantFrom(
  ...[finish(), finish(), finish(), finish("completed", { result: "r" })],
  ...[finish("failed"), finish("cancelled"), schedule(0)],
);
const someEffects = fc.constantFrom<Effects>(
  { grows: [{ id: "F.join", need: 1, slack: 0, members: 0 }] },
  { links: [{ from: "G.n3", edge: edgeTo("join") }] },
  { jobs: [aJob({ id: "new", digest: "n" })] },
);
const someRound = fc.record({
  max: fc.integer({ min: 1, max: 60 }),
  /** Of each settle in turn. */
  ends: fc.array(someEnd, { minLength: 1, maxLength: 5 }),
  effects: fc.option(someEffects, { freq: 4, nil: null }),
});
const routes = ["send", "print"].flatMap((name) => [aRoute({ name }), aRoute({ name, laneKey: "any" })]);

test("wide flows by either path leave the same keys, whatever is freed, lost or counted on the way", async () => {
  await fc.assert(
    fc.asyncProperty(
      someFan,
      someFan,
      fc.array(someRound, { minLength: 4, maxLength: 8 }),
      async (f, g, rounds) => {
        const { same } = await openBoth();
        const units = [{ jobs: jobsOf("F", f) }, { jobs: jobsOf("G", g) }];
        const answers = await same((store) => store.submit(units));
        expect(answers.map(({ kind }) => kind)).toEqual(["ok", "ok"]);
        for (const { max, ends, effects } of rounds) {
          const leased: LeasedJob[] = [];
          for (const route of routes) {
            const offers = [{ routes: [route], max, starts: 3 }];
            leased.push(...(await same((store) => store.claim(aClaim({ offers })))).jobs);
          }
          const settles = leased.map((job, at) => {
            const end = ends[at % ends.length]!;
            return aSettle(job, end, at === 5 && effects !== null ? { effects } : {});
          });
          await same((store) => store.settleIfLeased(settles));
          const passOn = { to: "same", event: "passed-on", passesOn: 500 } as const;
          await same((store) =>
            store.changeIf(["F.root", "G.root"].map((id) => aChange(id, terminalStates, passOn))),
          );
          await same((store) => store.promoteDue({ max: 100 }));
        }
      },
    ),
    { numRuns: cases },
  );
});
