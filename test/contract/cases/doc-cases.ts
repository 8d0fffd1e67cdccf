/** putDocs and readDocs: versions, guards, expiry, and the order of ids. */
import { expect } from "vitest";
import { aDoc } from "../../support/builders.ts";
import { startAt } from "../../support/held-platform.ts";
import { readAllDocs } from "../../support/walk.ts";
import type { ContractGroup } from "../subject.ts";

/** In byte order of UTF-8; UTF-16 order would put the emoji before the private-use character. */
const hostileIds = [
  " ",
  "%",
  "*",
  "A",
  "[a]",
  "\\",
  "_",
  "__proto__",
  "a",
  "a%",
  "a'b",
  'a"b',
  "a_",
  "ab",
  "é",
  "\u{e000}",
  "\uffff",
  "🙂",
];

export const docCases: ContractGroup = {
  about: "putDocs and readDocs",
  cases: [
    [
      "versions begin at 1 in a fresh store and grow by 1, and a put replaces the document whole",
      async ({ store }) => {
        expect(await store.putDocs([aDoc("a", "1", { dueInMs: 5, expiresInMs: 50 })])).toEqual([
          { kind: "ok", version: 1 },
        ]);
        const read = async (): Promise<unknown> => (await store.readDocs({ kind: "kv", ids: ["a"] })).docs;
        expect(await read()).toEqual([
          { kind: "kv", id: "a", version: 1, body: "1", dueAt: startAt + 5, expiresAt: startAt + 50 },
        ]);
        expect(await store.putDocs([aDoc("a", "2")])).toEqual([{ kind: "ok", version: 2 }]);
        expect(await read()).toEqual([
          { kind: "kv", id: "a", version: 2, body: "2", dueAt: null, expiresAt: null },
        ]);
      },
    ],
    [
      "every put of a call has its own answer, and a refused one carries the present version and harms no other",
      async ({ store }) => {
        const puts = [
          aDoc("a", "1", { guard: "absent" }),
          aDoc("a", "2", { guard: "absent" }),
          aDoc("a", "3", { guard: { version: 1 } }),
          aDoc("a", "4", { guard: { version: 1 } }),
          aDoc("b", "5", { guard: { version: 1 } }),
          aDoc("b", "6", { guard: { version: 0 } }),
        ];
        expect(await store.putDocs(puts)).toEqual([
          { kind: "ok", version: 1 },
          { kind: "changed", version: 1 },
          { kind: "ok", version: 2 },
          { kind: "changed", version: 2 },
          { kind: "changed", version: 0 },
          { kind: "ok", version: 1 },
        ]);
        expect((await store.readDocs({ kind: "kv", ids: ["a", "b"] })).docs.map(({ body }) => body)).toEqual([
          "3",
          "6",
        ]);
      },
    ],
    [
      "a deleted document is absent, under the same guards",
      async ({ store }) => {
        await store.putDocs([aDoc("a", "1"), aDoc("a", "2")]);
        expect(await store.putDocs([aDoc("a", null, { guard: { version: 1 } })])).toEqual([
          { kind: "changed", version: 2 },
        ]);
        expect(await store.putDocs([aDoc("a", null, { guard: { version: 2 } })])).toEqual([
          { kind: "ok", version: 0 },
        ]);
        expect((await store.readDocs({ kind: "kv", ids: ["a"] })).docs).toEqual([]);
        expect(await store.putDocs([aDoc("a", null), aDoc("a", "3", { guard: "absent" })])).toEqual([
          { kind: "ok", version: 0 },
          { kind: "ok", version: 3 },
        ]);
      },
    ],
    [
      "no version is given twice: a document that was deleted or pruned and comes back goes on above what it had",
      async ({ store, platform }) => {
        await store.putDocs([aDoc("a", "1"), aDoc("a", "2"), aDoc("a", "3"), aDoc("a", null)]);
        expect(await store.putDocs([aDoc("a", "late", { guard: { version: 3 } })])).toEqual([
          { kind: "changed", version: 0 },
        ]);
        expect(await store.putDocs([aDoc("a", "4")])).toEqual([{ kind: "ok", version: 4 }]);
        expect(await store.putDocs([aDoc("term", "w1", { expiresInMs: 10 })])).toEqual([
          { kind: "ok", version: 4 },
        ]);
        platform.advance(10);
        expect(await store.prune({ what: "expired", max: 9 })).toMatchObject({ removed: 1 });
        expect(await store.putDocs([aDoc("term", "w2", { guard: "absent" })])).toEqual([
          { kind: "ok", version: 5 },
        ]);
        expect(await store.putDocs([aDoc("term", "w1", { guard: { version: 4 } })])).toEqual([
          { kind: "changed", version: 5 },
        ]);
      },
    ],
    [
      "an expired document is absent for reads and guards from the very millisecond on, and its versions go on growing",
      async ({ store, platform }) => {
        await store.putDocs([aDoc("term", "w1", { expiresInMs: 10 })]);
        const take = aDoc("term", "w2", { guard: "absent", expiresInMs: 10 });
        platform.advance(9);
        expect(await store.putDocs([take])).toEqual([{ kind: "changed", version: 1 }]);
        platform.advance(1);
        expect((await store.readDocs({ kind: "kv", ids: ["term"] })).docs).toEqual([]);
        expect(await readAllDocs(store, "kv", "t")).toEqual([]);
        expect(await store.putDocs([aDoc("term", "w1", { guard: { version: 1 } })])).toEqual([
          { kind: "changed", version: 0 },
        ]);
        expect(await store.putDocs([take])).toEqual([{ kind: "ok", version: 2 }]);
      },
    ],
    [
      "one id in two kinds is two documents",
      async ({ store }) => {
        await store.putDocs([aDoc("a", "1"), aDoc("a", "2", { kind: "settings" })]);
        expect((await store.readDocs({ kind: "settings", ids: ["a"] })).docs).toMatchObject([
          { kind: "settings", body: "2" },
        ]);
        expect(await readAllDocs(store, "kv", "")).toMatchObject([{ kind: "kv", body: "1" }]);
        expect(await readAllDocs(store, "k", "")).toEqual([]);
      },
    ],
    [
      "documents read by id come in byte order, each once, without what is absent",
      async ({ store }) => {
        await store.putDocs(["b", "é", "a", "🙂"].map((id) => aDoc(id, id)));
        const { docs, cursor } = await store.readDocs({
          kind: "kv",
          ids: ["🙂", "b", "ghost", "é", "b", "a"],
        });
        expect([docs.map(({ id }) => id), cursor]).toEqual([["a", "b", "é", "🙂"], null]);
      },
    ],
    [
      "a walk over a prefix gives ids in byte order, hostile ones too, on pages of any size",
      async ({ store }) => {
        await store.putDocs([...hostileIds].reverse().map((id) => aDoc(`p/${id}`, id)));
        await store.putDocs([aDoc("p", "x"), aDoc("p.", "x"), aDoc("p0", "x"), aDoc("P/a", "x")]);
        const all = hostileIds
          .map((id) => `p/${id}`)
          .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
        for (const max of [1, 2, 5, 100]) {
          expect((await readAllDocs(store, "kv", "p/", max)).map(({ id }) => id)).toEqual(all);
        }
      },
    ],
    [
      "a prefix is plain text: no letter of it is a pattern, and case counts",
      async ({ store }) => {
        await store.putDocs(hostileIds.map((id) => aDoc(id, id)));
        for (const prefix of hostileIds) {
          const expected = hostileIds.filter((id) => id.startsWith(prefix));
          const found = (await readAllDocs(store, "kv", prefix)).map(({ id }) => id);
          expect(found.sort(), JSON.stringify(prefix)).toEqual(expected.sort());
        }
      },
    ],
    [
      "documents are no jobs: they tell no event",
      async ({ store, events }) => {
        await store.putDocs([aDoc("a", "1")]);
        expect(await events()).toEqual([]);
      },
    ],
  ],
};
