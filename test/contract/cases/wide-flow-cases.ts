/**
 * Rule R4 where one end leads to many: a store may free targets that are alike together, and must see those that are
 * not.
 */
import { expect } from "vitest";
import { storeLimits } from "../../../src/store/contract-limits.ts";
import type { Change } from "../../../src/store/operations.ts";
import type { JobRecord, NewJob } from "../../../src/store/records.ts";
import { aChange, aSettle, finish, schedule } from "../../support/builders.ts";
import { findAll, recount, sortStateCounts } from "../../support/walk.ts";
import type { ContractGroup, Subject } from "../subject.ts";
import { aFlow, aMember, edgeTo, deferred } from "./flow-jobs.ts";

const { edgesAtOnceMax, edgesPerStepMax } = storeLimits;
const letters = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `m${at}`);
const odd = "m23";

interface OddOne {
  readonly given?: Parameters<typeof aMember>[1];
  /** Edges that lead to it. */
  readonly times?: number;
  readonly isCancelled?: boolean;
}

/**
 * A node leads to forty, of which all but one are alike. @returns how that one stands, behind a look at all the others.
 */
async function endWide(
  { store, claim, read, events }: Subject,
  { given = {}, times = 1, isCancelled = false }: OddOne,
): Promise<JobRecord> {
  const names = letters(40);
  const targets = [...names, ...Array.from({ length: times - 1 }, () => odd)];
  const jobs: readonly NewJob[] = [
    aFlow(names.length + 1),
    aMember("a", { to: targets.map((name) => edgeTo(name)) }),
    ...names.map((name) => aMember(name, { need: 1, ...(name === odd ? given : {}) })),
  ];
  expect(await store.submit([{ jobs }])).toMatchObject([{ kind: "ok" }]);
  const [a] = await claim({ max: 1 });
  if (isCancelled) await store.changeIf([aChange(`F.${odd}`, ["blocked"], finish("cancelled"))]);
  expect(await store.settleIfLeased([aSettle(a!, finish())])).toEqual([{ kind: "ok" }]);
  for (const name of names.filter((each) => each !== odd)) {
    expect(await read(`F.${name}`)).toMatchObject({ state: "ready", rev: 2, waits: "0,0,0,0" });
    expect((await events(`F.${name}`)).map(({ kind }) => kind)).toEqual(["submitted", "freed"]);
  }
  expect(sortStateCounts(await store.countJobs())).toEqual(recount(await findAll(store, {})));
  return read(`F.${odd}`);
}

export const wideFlowCases: ContractGroup = {
  about: "flows that fan out",
  cases: [
    [
      "many targets that are alike are freed by the end that they wait for",
      async (subject) => {
        expect(await endWide(subject, {})).toMatchObject({ state: "ready", rev: 2, waits: "0,0,0,0" });
        expect(await subject.read("F")).toMatchObject({ waits: "40,0,0,1,41,1,0,0,0,0" });
        expect(await deferred(subject.store)).toEqual([]);
      },
    ],
    [
      "one of many targets that waits for more is counted and stays",
      async (subject) => {
        expect(await endWide(subject, { given: { need: 2 } })).toMatchObject({
          ...{ state: "blocked", rev: 1, waits: "1,0,0,0" },
        });
      },
    ],
    [
      "one of many targets to which two edges lead is met twice",
      async (subject) => {
        const twice = await endWide(subject, { given: { need: 2 }, times: 2 });
        expect(twice).toMatchObject({ state: "ready", rev: 2, waits: "0,0,0,0" });
      },
    ],
    [
      "one of many targets that goes elsewhere when freed is placed there",
      async (subject) => {
        const later = await endWide(subject, { given: { due: { inMs: 5000 } } });
        expect(later).toMatchObject({ state: "scheduled", rev: 2 });
      },
    ],
    [
      "one of many targets that leaves deferred work when freed leaves it",
      async (subject) => {
        expect(await endWide(subject, { given: { defers: 1 } })).toMatchObject({ state: "ready" });
        expect(await deferred(subject.store)).toEqual([`F.${odd}`]);
      },
    ],
    [
      "one of many targets that has ended before is passed over",
      async (subject) => {
        expect(await endWide(subject, { isCancelled: true })).toMatchObject({ state: "cancelled", rev: 2 });
        expect(await subject.read("F")).toMatchObject({ waits: "39,0,0,1,41,1,0,1,0,0" });
      },
    ],
    [
      "an end goes along a bounded number of edges at once, the rest is deferred, and goes on in steps",
      async ({ store, claim, read, events }) => {
        const children = letters(edgesAtOnceMax + edgesPerStepMax + 10);
        const jobs = [
          aFlow(children.length + 1),
          aMember("a", { to: children.map((name) => edgeTo(name)) }),
          ...children.map((name) => aMember(name, { need: 1 })),
        ];
        await store.submit([{ jobs }]);
        const [a] = await claim({ max: 1 });
        await store.settleIfLeased([aSettle(a!, finish())]);
        const freed = async (): Promise<number> => (await findAll(store, { states: ["ready"] })).length;
        expect(await freed()).toBe(edgesAtOnceMax - 1);
        expect(await deferred(store)).toEqual(["F.a"]);
        // It has not gone along all its edges, so it cannot come back.
        const replay = aChange("F.a", ["completed"], schedule(0, { event: "replayed" }));
        expect(await store.changeIf([replay])).toMatchObject([{ kind: "changed", state: "completed" }]);
        const stepOf = (passesOn: number): Change =>
          aChange("F.a", ["completed"], { to: "same", event: "passed-on", passesOn });
        expect(await store.changeIf([stepOf(5)])).toMatchObject([{ kind: "ok", state: "completed" }]);
        expect(await freed()).toBe(edgesAtOnceMax - 1 + 5);
        // No more than one step may take.
        const step = stepOf(edgesPerStepMax + 1);
        await store.changeIf([step]);
        expect(await freed()).toBe(edgesAtOnceMax - 1 + 5 + edgesPerStepMax);
        const { docs } = await store.readDocs({ kind: "deferred", ids: ["F.a"] });
        expect(docs).toMatchObject([{ version: 3 }]);
        await store.changeIf([step]);
        expect(await freed()).toBe(children.length);
        expect(await read("F.a")).toMatchObject({ waits: `0,0,${children.length + 1},0` });
        expect((await events("F.a")).map(({ kind }) => kind).slice(-3)).toEqual([
          ...["passed-on", "passed-on", "passed-on"],
        ]);
        await store.changeIf([step]);
        expect((await store.readDocs({ kind: "deferred", ids: ["F.a"] })).docs).toMatchObject([
          { version: 3 },
        ]);
      },
    ],
  ],
};
