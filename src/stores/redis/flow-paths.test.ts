/**
 * Flows by either path leave the same keys (fast-paths.test.ts has the other jobs): graphs of any kind, whose members
 * end one by one and together, grow, are cancelled, come back, and pass their ends on in steps.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { aFlow, aMember, always, block, edgeTo } from "../../../test/contract/cases/flow-jobs.ts";
import { aChange, aClaim, aDoc, aJob, aRoute, aSettle } from "../../../test/support/builders.ts";
import { finish, handBack, remove, replay, schedule } from "../../../test/support/builders.ts";
import { startAt } from "../../../test/support/virtual/held-platform.ts";
import { useBothPaths } from "../../../test/support/redis-paths.ts";
import { everyEnd, writeEdge } from "../../model/flow/edge.ts";
import { writeFreed } from "../../model/flow/freed.ts";
import { newWaits } from "../../model/flow/flow-waits.ts";
import { writeKeyUse } from "../../model/routing/lane.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import type { JobState } from "../../model/job/job-state.ts";
import type { ChangeNext, Update } from "../../model/job/change.ts";
import type { Settle } from "../../store/operations.ts";
import type { LeasedJob, NewJob } from "../../store/records.ts";
import { storeLimits } from "../../store/contract-limits.ts";

const { openBoth } = useBothPaths();
const cases = 25;
const names = ["a", "b", "c", "d", "e", "p", "p.x", "p.y"];
const passOn: Update = { to: "same", event: "passed-on", passesOn: storeLimits.edgesPerStepMax };
const groupGate = writeKeyUse({ key: "g:mail\tone", weight: 1, cap: 1 });

const masks = fc.record({ meets: fc.nat(everyEnd), misses: fc.nat(everyEnd) });
const someEdge = fc.record({
  target: fc.constantFrom(...names.filter((name) => !name.includes("."))),
  masks,
});
const due = fc.constantFrom(
  { inMs: 0 },
  { inMs: 0 },
  { inMs: 20 },
  { at: startAt + 14 },
  { at: startAt + 60 },
);
const someFreed = fc
  .record({
    due,
    rankBase: fc.constantFrom(0, 0, 3),
    rankSlope: fc.constantFrom(1, 1, 0),
    ttlMs: fc.constantFrom(null, null, 30),
  })
  .map(writeFreed);
/** What a member may have beside its place in the flow; most have nothing. */
const someOptions = fc.constantFrom<Partial<NewJob>>(
  ...[{}, {}, {}, {}, { tags: ["t"] }, { tags: ["t"] }, { name: "print" }, { deadline: { inMs: 500 } }],
  ...[{ due: { inMs: 10 } }, { ttlMs: 40 }, { laneKey: "one", laneGates: [groupGate] }, { digest: "d" }],
);
const someMember = fc.record({
  edges: fc.array(someEdge, { maxLength: 3 }),
  toFlow: fc.oneof(fc.constant(always), fc.constant(always), masks),
  need: fc.constantFrom(0, 0, 1, 1, 1, 2, 3),
  slack: fc.constantFrom(0, 0, 1, 2, -1),
  defers: fc.constantFrom(0 as const, 0 as const, 1 as const),
  freed: fc.oneof(fc.constant("+0,0,1,"), fc.constant("+0,0,1,"), someFreed),
  options: someOptions,
  hasKey: fc.integer({ max: 5, min: 0 }).map((n) => n === 0),
});
const someGraph = fc.record({
  /** No job of it has a key, a digest or a lane, so that it is submitted as a set. */
  isUsual: fc.boolean(),
  need: fc.integer({ min: 1, max: 8 }),
  members: fc.array(someMember, { minLength: names.length, maxLength: names.length }),
});

type Graph = typeof someGraph extends fc.Arbitrary<infer Value> ? Value : never;

/** Its node p is a flow itself, of which x and y make part. */
function jobsOf(flow: string, { isUsual, need, members }: Graph): NewJob[] {
  const nodes = members.map((given, at) => {
    const name = names[at]!;
    const { slack, defers } = given;
    const { laneKey: _lane, laneGates: _gates, digest: _digest, ...usual } = given.options;
    const isPart = name === "p";
    const within = name.startsWith("p.") ? `${flow}.p` : flow;
    // Those inside of the part free each other, by their names there.
    const edges = given.edges.map(({ target, masks: each }) =>
      edgeTo(within === flow ? target : target < "c" ? "x" : "y", each),
    );
    const unique = { key: `${flow}${name}`, hold: "end", onHeld: "keep" } as unknown as NewJob["unique"];
    return aJob({
      ...{ id: `${flow}.${name}`, ...(isPart ? { queue: "flows" } : isUsual ? usual : given.options) },
      ...{ flow: within, edges: [edgeTo("", given.toFlow), ...edges], freed: isPart ? null : given.freed },
      waits: newWaits({ need: given.need, slack, defers, ...(isPart ? { total: 2 } : {}) }),
      ...(given.hasKey && !isPart && !isUsual ? { unique } : {}),
    });
  });
  return [aFlow(6, { id: flow, need }), ...nodes];
}

const someNext = fc.oneof(
  { weight: 6, arbitrary: fc.constant(finish()) },
  {
    weight: 4,
    arbitrary: fc
      .record({
        to: fc.constantFrom(...terminalStates),
        result: fc.constantFrom(null, "r"),
        keepMs: fc.constantFrom(null, 0, 50),
      })
      .map(({ to, ...given }) => finish(to, given)),
  },
  { weight: 2, arbitrary: fc.constantFrom<Settle["next"]>(handBack, schedule(5), schedule(0)) },
);
const someTarget = fc.constantFrom(...names.flatMap((name) => [`F.${name}`, `G.${name}`]));
/** With a new job that takes a key, with growth, with a document. */
const someEffects = fc.record({
  jobs: fc.constantFrom<readonly NewJob[]>(
    [],
    [aJob({ id: "new", digest: "n" })],
    [aJob({ id: "met", unique: { key: "Fa", hold: "end", onHeld: "replace" } as never, due: { inMs: 90 } })],
  ),
  grows: fc.array(
    someTarget.map((id) => ({ id, need: 1, slack: 0, members: 0 })),
    { maxLength: 1 },
  ),
  links: fc.array(
    fc.record({ from: someTarget, edge: someEdge.map(({ target, masks: each }) => edgeTo(target, each)) }),
    { maxLength: 1 },
  ),
  docs: fc.constantFrom([], [], [aDoc("x", "x")]),
});
const someSettle = fc.record({
  next: someNext,
  attempts: fc.constantFrom(null, "1 2 3"),
  effects: fc.option(someEffects, { freq: 6, nil: null }),
});
const someChange = fc.record({
  id: fc.oneof(someTarget, fc.constantFrom("F", "G")),
  next: fc.oneof(
    fc.constantFrom<ChangeNext>(passOn, passOn, finish("cancelled"), finish("skipped"), replay(), remove),
    fc
      .record({ parents: fc.array(fc.tuple(someTarget, masks), { maxLength: 2 }), need: fc.nat(2) })
      .map(({ parents, need }) =>
        block({
          parents: parents.map(([target, each]) => writeEdge({ ...each, target })),
          waits: { need, slack: 0 },
        }),
      ),
  ),
});
const someRound = fc.record({
  max: fc.integer({ min: 1, max: 12 }),
  settles: fc.array(someSettle, { minLength: 6, maxLength: 6 }),
  changes: fc.array(someChange, { maxLength: 4 }),
});
const offers = ["send", "print"].flatMap((name) => [aRoute({ name }), aRoute({ name, laneKey: "any" })]);

/** A change that an arrow of the states refuses is a mistake of the caller, so it is not asked for. */
function statesFor(next: ChangeNext, id: string): readonly JobState[] {
  if (next === passOn || next.to === "scheduled") return terminalStates;
  if (next.to === "deleted") return id.includes(".") ? [] : terminalStates;
  if (next.to === "blocked") return id.includes(".") ? [...terminalStates, "blocked"] : [];
  return next.to === "skipped" ? ["blocked"] : ["blocked", "ready", "scheduled"];
}

describe("flows by either path leave the same keys", () => {
  test("whatever their graphs are, and however their members end, grow and come back", async () => {
    await fc.assert(
      fc.asyncProperty(
        someGraph,
        someGraph,
        fc.array(someRound, { minLength: 3, maxLength: 7 }),
        async (f, g, rounds) => {
          const { same } = await openBoth();
          const units = [jobsOf("F", f), jobsOf("G", g)].map((jobs) => ({ jobs }));
          await same((store, isRepeat) =>
            store.submit([
              ...units.map((unit) => ({ ...unit, isRepeat })),
              { jobs: [aJob({ id: "x" }), aJob({ id: "y" })], isRepeat },
            ]),
          );
          for (const { max, settles, changes } of rounds) {
            const leased: LeasedJob[] = [];
            for (const route of offers)
              leased.push(
                ...(
                  await same((store) =>
                    store.claim(aClaim({ offers: [{ routes: [route], max, starts: 2 }] })),
                  )
                ).jobs,
              );
            const asked = leased.map((job, at) => {
              const { next, attempts, effects } = settles[at % settles.length]!;
              return aSettle(job, next, {
                attempts,
                ...(effects === null ? {} : { effects }),
              });
            });
            await same((store) => store.settleIfLeased(asked));
            await same((store) =>
              store.changeIf(changes.map(({ id, next }) => aChange(id, statesFor(next, id), next))),
            );
            await same((store) => store.promoteDue({ max: 100 }));
          }
        },
      ),
      { numRuns: cases },
    );
  });

  test("chains side by side, fans that end in steps, and their joins", async () => {
    const { same } = await openBoth();
    const width = storeLimits.edgesAtOnceMax + 20;
    const leaves = Array.from({ length: width }, (_, at) => `n${at}`);
    const fan = (flow: string): NewJob[] =>
      [
        aFlow(width + 2, { id: flow }),
        aMember("root", { flow, to: leaves.map((name) => edgeTo(name)) }),
        ...leaves.map((name) => aMember(name, { flow, need: 1, to: [edgeTo("join")], tags: ["t"] })),
        aMember("join", { flow, need: width }),
      ].map((job) => ({ ...job, id: job.id.replace(/^F\./, `${flow}.`) }));
    await same((store, isRepeat) =>
      store.submit([
        { jobs: fan("F"), isRepeat },
        { jobs: fan("G"), isRepeat },
        { jobs: [aJob({ id: "x" })] },
      ]),
    );
    let ended = 0;
    for (let round = 0; round < 12; round++) {
      const { jobs } = await same((store) =>
        store.claim(aClaim({ offers: [{ routes: [aRoute()], max: 50, starts: 10 }] })),
      );
      await same((store) => store.settleIfLeased(jobs.map((job) => aSettle(job, finish()))));
      await same((store) =>
        store.changeIf(["F.root", "G.root"].map((id) => aChange(id, ["completed"], passOn))),
      );
      ended += jobs.length;
    }
    expect(ended).toBe(2 * (width + 2) + 1);
  });
});
