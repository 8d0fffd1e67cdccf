/** Counters (rule R9): puts that add, alone, in units, in effects and in heartbeats. */
import { expect } from "vitest";
import { storeLimits } from "../../../../src/store/contract-limits.ts";
import type { Hint, Store } from "../../../../src/store/store.ts";
import { aDoc, aJob, anAdd, aSettle, finish } from "../../../support/builders.ts";
import { startAt } from "../../../support/virtual/held-platform.ts";
import { readAllDueDocs } from "../../../support/walk.ts";
import type { ContractGroup } from "../../subject.ts";
import { anEntry, aRecord } from "../durable/journal-calls.ts";

export const counterHintTitle =
  "a passed mark is a hint that a document is due, by each way in which a counter is added to";

const max = Number.MAX_SAFE_INTEGER;
const work = { kind: "deferred", id: "{c}work" };

async function numberOf(store: Store, id: string): Promise<string | undefined> {
  const { docs } = await store.readDocs({ kind: "kv", ids: [id] });
  return docs[0]?.body;
}

const flush = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

export const counterCases: ContractGroup = {
  about: "counters",
  cases: [
    [
      "a counter begins at 0, each add answers its sum and a version, and it is read as a document",
      async ({ store }) => {
        expect(await store.putDocs([anAdd("a", 5), anAdd("b", -3)])).toEqual([
          { kind: "ok", version: 1, number: 5 },
          { kind: "ok", version: 1, number: -3 },
        ]);
        expect(await store.putDocs([anAdd("a", 4, {}, { expiresInMs: 50 })])).toEqual([
          { kind: "ok", version: 2, number: 9 },
        ]);
        const { docs } = await store.readDocs({ kind: "kv", ids: ["a", "b"] });
        expect(docs).toEqual([
          { kind: "kv", id: "a", version: 2, body: "9", dueAt: null, expiresAt: startAt + 50 },
          { kind: "kv", id: "b", version: 1, body: "-3", dueAt: null, expiresAt: null },
        ]);
      },
    ],
    [
      "an add up to the ceiling is applied, one above it answers the present number, and taking away always is applied",
      async ({ store }) => {
        const ceiling = 10;
        const adds = [6, 4, 1, 0, -2, 3, 2].map((by) => anAdd("a", by, { ceiling }));
        expect(await store.putDocs(adds)).toEqual([
          { kind: "ok", version: 1, number: 6 },
          { kind: "ok", version: 2, number: 10 },
          { kind: "above", number: 10 },
          { kind: "ok", version: 3, number: 10 },
          { kind: "ok", version: 4, number: 8 },
          { kind: "above", number: 8 },
          { kind: "ok", version: 5, number: 10 },
        ]);
        expect(await store.putDocs([anAdd("b", 11, { ceiling })])).toEqual([{ kind: "above", number: 0 }]);
        expect(await numberOf(store, "b")).toBeUndefined();
        await store.putDocs([aDoc("a", "40")]);
        expect(await store.putDocs([anAdd("a", -5, { ceiling }), anAdd("a", 1, { ceiling })])).toEqual([
          { kind: "ok", version: 7, number: 35 },
          { kind: "above", number: 35 },
        ]);
      },
    ],
    [
      "adds and whole puts of one call work one after the other, each with its answer",
      async ({ store }) => {
        const puts = [
          anAdd("a", 2),
          aDoc("a", "7", { guard: { version: 1 } }),
          anAdd("a", 1),
          aDoc("a", "8", { guard: "absent" }),
          aDoc("a", null),
          anAdd("a", 3),
        ];
        expect(await store.putDocs(puts)).toEqual([
          { kind: "ok", version: 1, number: 2 },
          { kind: "ok", version: 2 },
          { kind: "ok", version: 3, number: 8 },
          { kind: "changed", version: 3 },
          { kind: "ok", version: 0 },
          { kind: "ok", version: 4, number: 3 },
        ]);
      },
    ],
    [
      "adds of many calls at once are all counted, and none passes the ceiling",
      async ({ store }) => {
        const ids = ["a", "b", "c"];
        const ceiling = 100;
        const calls = Array.from({ length: 20 }, (_, at) => {
          const turned = [...ids.slice(at % 3), ...ids.slice(0, at % 3)];
          return store.putDocs([...turned.map((id) => anAdd(id, 1)), anAdd("limited", 7, { ceiling })]);
        });
        const answers = await Promise.all(calls);
        for (const id of ids) expect(await numberOf(store, id), id).toBe("20");
        const reserved = answers.map((each) => each[3]);
        expect(reserved.filter((answer) => answer?.kind === "ok")).toHaveLength(14);
        expect(reserved.filter((answer) => answer?.kind === "above")).toHaveLength(6);
        expect(await numberOf(store, "limited")).toBe("98");
      },
    ],
    [
      "a counter that is added to a thousand times in one call has the sum",
      async ({ store }) => {
        const count = storeLimits.callItemsMax;
        const answers = await store.putDocs(Array.from({ length: count }, () => anAdd("a", 2)));
        expect(answers.at(-1)).toEqual({ kind: "ok", version: count, number: 2 * count });
      },
    ],
    [
      "an expired counter counts as 0 and is versioned on, and one that was deleted begins above its last version",
      async ({ store, platform }) => {
        await store.putDocs([anAdd("a", 5, {}, { expiresInMs: 10 }), anAdd("b", 5), aDoc("b", null)]);
        platform.advance(9);
        expect(await store.putDocs([anAdd("a", 1, { ceiling: 5 })])).toEqual([{ kind: "above", number: 5 }]);
        platform.advance(1);
        expect(await store.putDocs([anAdd("a", 1, { ceiling: 5 }), anAdd("b", 1)])).toEqual([
          { kind: "ok", version: 2, number: 1 },
          { kind: "ok", version: 2, number: 1 },
        ]);
        platform.advance(1000);
        expect(await numberOf(store, "a")).toBe("1");
      },
    ],
    [
      "an add takes the due time of a document away",
      async ({ store, platform }) => {
        await store.putDocs([aDoc("a", "5", { due: { inMs: 3 } }), anAdd("a", 1)]);
        platform.advance(5);
        expect(await readAllDueDocs(store)).toEqual([]);
        expect(await store.promoteDue({ max: 9 })).toMatchObject({ nextDueInMs: null });
      },
    ],
    [
      "an add that passes marks upwards leaves one document that is due now, and nothing else does",
      async ({ store }) => {
        const add = (by: number): unknown =>
          store.putDocs([anAdd("{c}a", by, { marks: [10, 20, 30], leaves: work })]);
        const left = async (): Promise<unknown> =>
          (await readAllDueDocs(store)).map(({ kind, id, version, body }) => [kind, id, version, body]);
        await add(9);
        expect(await left()).toEqual([]);
        await add(1);
        expect(await left()).toEqual([["deferred", "{c}work", 1, ""]]);
        await add(9);
        await add(-5);
        expect(await left()).toMatchObject([[work.kind, work.id, 1, ""]]);
        await add(40);
        expect(await left()).toMatchObject([[work.kind, work.id, 2, ""]]);
        await store.putDocs([{ ...aDoc(work.id, null), kind: work.kind }]);
        await add(1);
        await store.putDocs([anAdd("{c}b", 50, { marks: [10] }), anAdd("{c}b", 50, { leaves: work })]);
        expect(await left()).toEqual([]);
        await store.putDocs([anAdd("{c}b", 1, { marks: [101], leaves: work, ceiling: 100 })]);
        expect(await left()).toEqual([]);
      },
    ],
    [
      "what is no whole number of 53 bits is neither counted nor made",
      async ({ store }) => {
        const bodies = [
          "",
          "x",
          " 1",
          "1 ",
          "1\n",
          "1.5",
          "1e3",
          "007",
          "-0",
          "+1",
          "NaN",
          "0x10",
          "9".repeat(400),
        ];
        const wrong = [...bodies, "9007199254740992", "-9007199254740992"];
        const puts = wrong.map((body, at) => aDoc(`w${at}`, body));
        await store.putDocs(puts);
        const no = { kind: "uncountable" };
        expect(await store.putDocs(puts.map(({ id }) => anAdd(id, 1)))).toEqual(wrong.map(() => no));
        expect(await numberOf(store, "w4")).toBe("1\n");
        await store.putDocs([aDoc("max", String(max)), aDoc("min", String(-max))]);
        const adds = [
          anAdd("max", 1),
          anAdd("max", max),
          anAdd("min", -1),
          anAdd("max", 1, { ceiling: max }),
          anAdd("max", max, { ceiling: 5 }),
          anAdd("max", -max),
          anAdd("min", max),
        ];
        expect(await store.putDocs(adds)).toEqual([
          ...[no, no, no, { kind: "above", number: max }, { kind: "above", number: max }],
          ...[2, 2].map((version) => ({ kind: "ok", version, number: 0 })),
        ]);
        const notWhole = [0.5, Number.NaN, Infinity, 2 ** 53].map((by) => anAdd("n", by, { ceiling: 1 }));
        expect(await store.putDocs(notWhole)).toEqual(notWhole.map(() => no));
        expect(await numberOf(store, "n")).toBeUndefined();
      },
    ],
    [
      "a unit whose add is refused leaves nothing, and a unit that has happened is not counted again",
      async ({ store, events }) => {
        await store.putDocs([aDoc("{c}text", "x")]);
        const ceiling = 5;
        const unit = (id: string, ...docs: readonly ReturnType<typeof anAdd>[]) => ({
          jobs: [aJob({ id })],
          docs,
        });
        const first = unit("a", anAdd("{c}n", 3, { ceiling, marks: [3], leaves: work }));
        expect(
          await store.submit([
            first,
            unit("b", anAdd("{c}m", 1), anAdd("{c}n", 3, { ceiling })),
            unit("c", anAdd("{c}m", 1), anAdd("{c}text", 1)),
            { ...first, isRepeat: true },
            { jobs: [], docs: [anAdd("{c}n", 2, { ceiling })] },
          ]),
        ).toEqual([
          { kind: "ok", ids: ["a"], hows: ["created"] },
          { kind: "refused", reason: "above-ceiling", id: "{c}n" },
          { kind: "refused", reason: "uncountable", id: "{c}text" },
          { kind: "ok", ids: ["a"], hows: ["existing"] },
          { kind: "ok", ids: [], hows: [] },
        ]);
        expect(await numberOf(store, "{c}n")).toBe("5");
        expect(await numberOf(store, "{c}m")).toBeUndefined();
        expect((await events()).map(({ id }) => id)).toEqual(["a"]);
        expect(await readAllDueDocs(store)).toMatchObject([{ ...work, version: 1 }]);
      },
    ],
    [
      "an add among effects is counted with the settle, and one that is refused undoes the whole settle",
      async ({ store, lease, read, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.putDocs([aDoc("text", "x"), anAdd("n", 4)]);
        const before = [await read("a"), await events()];
        const settle = (...docs: readonly ReturnType<typeof anAdd>[]) =>
          aSettle(leased, finish("completed", { keepMs: 0 }), {
            effects: { jobs: [aJob({ id: "b" })], docs },
          });
        const refused = settle(anAdd("n", 1), anAdd("n", 9, { ceiling: 10 }));
        expect(await store.settleIfLeased([refused])).toEqual([{ kind: "above-ceiling", id: "n" }]);
        expect(await store.settleIfLeased([settle(anAdd("text", 1))])).toEqual([
          { kind: "uncountable", id: "text" },
        ]);
        expect([await read("a"), await events()]).toEqual(before);
        expect(await numberOf(store, "n")).toBe("4");
        const ending = aSettle(leased, finish(), { effects: { docs: [anAdd("n", 6, { ceiling: 10 })] } });
        expect(await store.settleIfLeased([ending, ending])).toEqual([{ kind: "ok" }, { kind: "already" }]);
        expect(await numberOf(store, "n")).toBe("10");
      },
    ],
    [
      "an add with an entry of a journal is counted once however often the write is repeated, and refused with it",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const write = (key: string, by: number) => ({
          ...aRecord(leased, anEntry(key)),
          effects: { docs: [anAdd("n", by, { ceiling: 10 })] },
        });
        const appended = { kind: "appended", last: 1, at: startAt };
        expect(await store.recordIfLeased([write("one", 6)])).toEqual([appended]);
        expect(await store.recordIfLeased([write("one", 6)])).toEqual([appended]);
        expect(await store.recordIfLeased([write("two", 6), write("three", 4)])).toEqual([
          { kind: "above-ceiling", id: "n" },
          { ...appended, last: 2 },
        ]);
        expect(await numberOf(store, "n")).toBe("10");
      },
    ],
    [
      "a heartbeat adds before it reads",
      async ({ store }) => {
        const id = "{registry}n";
        const puts = [anAdd(id, 4, { ceiling: 5 }), anAdd(id, 4, { ceiling: 5 }), aDoc("{registry}d", "x")];
        const answer = await store.heartbeat({ puts, read: { kind: "kv", ids: [id] } });
        expect(answer.puts).toEqual([
          { kind: "ok", version: 1, number: 4 },
          { kind: "above", number: 4 },
          { kind: "ok", version: 1 },
        ]);
        expect(answer.read.docs).toMatchObject([{ id, body: "4" }]);
      },
    ],
    [
      counterHintTitle,
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const hints: Hint[] = [];
        const unwatch = store.watch((hint) => hints.push(hint));
        const docs = [anAdd("{c}n", 1, { marks: [1, 2, 3, 4, 6], leaves: work })];
        const isDue = (): boolean => hints.some((hint) => hint.kind === "due" && hint.inMs <= 1);
        const ways: readonly (() => Promise<unknown>)[] = [
          () => store.putDocs(docs),
          () => store.submit([{ jobs: [], docs }]),
          () => store.recordIfLeased([{ ...aRecord(leased, anEntry("one")), effects: { docs } }]),
          () => store.settleIfLeased([aSettle(leased, finish(), { effects: { docs } })]),
        ];
        for (const [at, way] of ways.entries()) {
          hints.length = 0;
          await way();
          await flush();
          expect(isDue(), `way ${at}`).toBe(true);
        }
        hints.length = 0;
        await store.putDocs(docs);
        await flush();
        expect(isDue()).toBe(false);
        await store.heartbeat({ puts: docs, read: { kind: "kv", ids: ["{c}n"] } });
        await flush();
        expect(isDue()).toBe(true);
        unwatch();
      },
    ],
  ],
};
