/** putDocs and readDocs: versions, guards, expiry, and the order of ids. */
import { expect } from "vitest";
import { aDoc, aJob } from "../../../support/builders.ts";
import { startAt } from "../../../support/virtual/held-platform.ts";
import { readAllDocs, readAllDueDocs } from "../../../support/walk.ts";
import type { SubmitUnit } from "../../../../src/store/operations.ts";
import type { DocCheck } from "../../../../src/store/records.ts";
import type { ContractGroup } from "../../subject.ts";

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
        expect(await store.putDocs([aDoc("a", "1", { expiresInMs: 50 })])).toEqual([
          { kind: "ok", version: 1 },
        ]);
        const read = async (): Promise<unknown> => (await store.readDocs({ kind: "kv", ids: ["a"] })).docs;
        expect(await read()).toEqual([
          { kind: "kv", id: "a", version: 1, body: "1", dueAt: null, expiresAt: startAt + 50 },
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
        expect(await store.putDocs([aDoc("lease", "w1", { expiresInMs: 10 })])).toEqual([
          { kind: "ok", version: 4 },
        ]);
        platform.advance(10);
        expect(await store.prune({ what: "expired", max: 9 })).toMatchObject({ pruned: 1 });
        expect(await store.putDocs([aDoc("lease", "w2", { guard: "absent" })])).toEqual([
          { kind: "ok", version: 5 },
        ]);
        expect(await store.putDocs([aDoc("lease", "w1", { guard: { version: 4 } })])).toEqual([
          { kind: "changed", version: 5 },
        ]);
      },
    ],
    [
      "an expired document is absent for reads and guards from the very millisecond on, and its versions go on growing",
      async ({ store, platform }) => {
        await store.putDocs([aDoc("lease", "w1", { expiresInMs: 10 })]);
        const take = aDoc("lease", "w2", { guard: "absent", expiresInMs: 10 });
        platform.advance(9);
        expect(await store.putDocs([take])).toEqual([{ kind: "changed", version: 1 }]);
        platform.advance(1);
        expect((await store.readDocs({ kind: "kv", ids: ["lease"] })).docs).toEqual([]);
        expect(await readAllDocs(store, "kv", "t")).toEqual([]);
        expect(await store.putDocs([aDoc("lease", "w1", { guard: { version: 1 } })])).toEqual([
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
      "a document is due from the very millisecond on, after a while or at an instant, until it is put again",
      async ({ store, platform }) => {
        await store.putDocs([
          aDoc("a", "1", { due: { inMs: 10 } }),
          aDoc("b", "1", { due: { at: startAt + 5 } }),
          aDoc("c", "1"),
        ]);
        const due = async (): Promise<unknown> => (await readAllDueDocs(store)).map(({ id }) => id);
        platform.advance(4);
        expect(await due()).toEqual([]);
        platform.advance(1);
        expect(await store.readDueDocs({ max: 9, cursor: null })).toEqual({
          docs: [{ kind: "kv", id: "b", version: 1, body: "1", dueAt: startAt + 5, expiresAt: null }],
          cursor: null,
          now: startAt + 5,
          nextInMs: 0,
        });
        platform.advance(5);
        expect(await due()).toEqual(["b", "a"]);
        await store.putDocs([aDoc("b", "2", { due: { inMs: 1 } }), aDoc("a", "2")]);
        expect(await due()).toEqual([]);
        platform.advance(1);
        await store.putDocs([aDoc("a", "3", { due: { at: startAt } })]);
        expect(await due()).toEqual(["a", "b"]);
        await store.putDocs([aDoc("a", null)]);
        expect(await due()).toEqual(["b"]);
      },
    ],
    [
      "due documents of all kinds come by due time, kind and id in byte order, on pages of any size",
      async ({ store, platform }) => {
        const puts = hostileIds.flatMap((id, index) => [
          aDoc(id, "k", { due: { inMs: index % 3 } }),
          aDoc(id, "s", { kind: "schedule", due: { inMs: index % 3 } }),
        ]);
        await store.putDocs(puts);
        platform.advance(2);
        const bytes = (text: string): Buffer => Buffer.from(text);
        const expected = hostileIds
          .flatMap((id, index) =>
            ["kv", "schedule"].map((kind) => ({ dueAt: startAt + (index % 3), kind, id })),
          )
          .sort(
            (a, b) =>
              a.dueAt - b.dueAt ||
              Buffer.compare(bytes(a.kind), bytes(b.kind)) ||
              Buffer.compare(bytes(a.id), bytes(b.id)),
          );
        for (const max of [1, 7, 100]) expect(await readAllDueDocs(store, max)).toMatchObject(expected);
      },
    ],
    [
      "the earliest due document is a clock like those of jobs, and gone with its due time",
      async ({ store, platform, submit }) => {
        await submit(aJob({ id: "j", due: { inMs: 30 } }));
        await store.putDocs([aDoc("a", "1", { due: { inMs: 10 } }), aDoc("b", "1", { due: { inMs: 20 } })]);
        expect(await store.promoteDue({ max: 9 })).toEqual({ count: 0, more: false, nextDueInMs: 10 });
        expect(await store.readDue({ clock: "lease", max: 9, cursor: null })).toMatchObject({ nextInMs: 10 });
        platform.advance(15);
        expect(await store.promoteDue({ max: 9 })).toEqual({ count: 0, more: false, nextDueInMs: 0 });
        await store.putDocs([aDoc("a", "2")]);
        expect(await store.promoteDue({ max: 9 })).toMatchObject({ nextDueInMs: 5 });
        await store.putDocs([aDoc("b", null)]);
        expect(await store.promoteDue({ max: 9 })).toMatchObject({ nextDueInMs: 15 });
      },
    ],
    [
      "a unit with a document under its version happens once, whoever repeats it",
      async ({ store, platform }) => {
        await store.putDocs([aDoc("s", "0", { due: { inMs: 5 } })]);
        platform.advance(5);
        const unit = {
          jobs: [aJob({ id: "tick", digest: "firing" })],
          docs: [aDoc("s", "1", { guard: { version: 1 }, due: { inMs: 5 } })],
        };
        expect(await store.submit([unit, { ...unit, isRepeat: true }])).toEqual([
          { kind: "ok", ids: ["tick"], hows: ["created"] },
          { kind: "refused", reason: "doc-changed", id: "s" },
        ]);
        expect(await readAllDueDocs(store)).toEqual([]);
        expect((await store.readDocs({ kind: "kv", ids: ["s"] })).docs).toMatchObject([
          { version: 2, body: "1", dueAt: startAt + 10 },
        ]);
      },
    ],
    [
      "a unit is written only while the documents that it checks have their versions, and changes none of them",
      async ({ store, submit, platform, events }) => {
        await store.putDocs([aDoc("t", "1"), aDoc("u", "1", { expiresInMs: 5 })]);
        const check = (id: string, version = 1): DocCheck => ({ kind: "kv", id, version });
        const refused = (id: string): unknown => ({ kind: "refused", reason: "doc-changed", id });
        const unit = (id: string, ...checks: DocCheck[]): SubmitUnit => ({
          jobs: [aJob({ id: `${id}1` }), aJob({ id: `${id}2`, name: "other", digest: "d" })],
          checks,
        });
        await submit(aJob({ id: "plain" }));
        expect(
          await store.submit([
            unit("a", check("t"), check("u")),
            unit("b", check("t"), check("u", 2)),
            { jobs: [aJob({ id: "alone" })], checks: [check("t", 3)] },
            { jobs: [aJob({ id: "absent" })], checks: [check("x", 1)] },
            { jobs: [aJob({ id: "kind" })], checks: [{ ...check("t"), kind: "settings" }] },
            { jobs: [], checks: [check("t")] },
          ]),
        ).toEqual([
          { kind: "ok", ids: ["a1", "a2"], hows: ["created", "created"] },
          ...[refused("u"), refused("t"), refused("x"), refused("t")],
          { kind: "ok", ids: [], hows: [] },
        ]);
        platform.advance(5);
        expect(await store.submit([unit("c", check("u"))])).toEqual([refused("u")]);
        expect((await events()).map(({ id }) => id).sort()).toEqual(["a1", "a2", "plain"]);
        expect((await store.readDocs({ kind: "kv", ids: ["t"] })).docs).toMatchObject([{ version: 1 }]);
      },
    ],
    [
      "of checked units in one call those that are refused leave nothing, and the others have their tags and inputs",
      async ({ store, submit, read, events }) => {
        await store.putDocs([aDoc("t", "1")]);
        const large = JSON.stringify("x".repeat(20_000));
        const unit = (id: string, version: number): SubmitUnit => ({
          jobs: [
            aJob({ id: `${id}1`, tags: [`tag-${id}`], input: large }),
            aJob({ id: `${id}2`, name: "other", tags: [`tag-${id}`] }),
          ],
          checks: [{ kind: "kv", id: "t", version }],
        });
        const answers = await store.submit([
          unit("a", 2),
          { jobs: [aJob({ id: "plain", tags: ["tag-plain"] })] },
          unit("b", 1),
          unit("c", 9),
          unit("d", 1),
        ]);
        expect(answers.map(({ kind }) => kind)).toEqual(["refused", "ok", "ok", "refused", "ok"]);
        await submit(aJob({ id: "last" }));
        expect((await events()).map(({ id }) => id).sort()).toEqual([
          "b1",
          "b2",
          "d1",
          "d2",
          "last",
          "plain",
        ]);
        const tagged = async (tag: string): Promise<string[]> => {
          const page = await store.findJobs({ filter: { tag }, max: 9, scanMax: 100, cursor: null });
          return page.jobs.map(({ id }) => id).sort();
        };
        expect(await Promise.all(["tag-a", "tag-b", "tag-c", "tag-d", "tag-plain"].map(tagged))).toEqual([
          ...[[], ["b1", "b2"], [], ["d1", "d2"]],
          ["plain"],
        ]);
        expect([(await read("b1")).input, (await read("d1")).input]).toEqual([large, large]);
      },
    ],
    [
      "the repeat of a unit that has happened is answered whatever its check says, and that of another is checked",
      async ({ store, events }) => {
        await store.putDocs([aDoc("t", "1")]);
        const checks = [{ kind: "kv", id: "t", version: 1 }];
        const unit = { jobs: [aJob({ id: "a" }), aJob({ id: "b" })], checks };
        await store.submit([unit]);
        await store.putDocs([aDoc("t", "2")]);
        expect(
          await store.submit([
            { ...unit, isRepeat: true },
            { jobs: [aJob({ id: "c" })], checks, isRepeat: true },
            { jobs: [aJob({ id: "d", digest: "d" }), aJob({ id: "e" })], checks, isRepeat: true },
          ]),
        ).toEqual([
          { kind: "ok", ids: ["a", "b"], hows: ["existing", "existing"] },
          { kind: "refused", reason: "doc-changed", id: "t" },
          { kind: "refused", reason: "doc-changed", id: "t" },
        ]);
        expect((await events()).map(({ id }) => id)).toEqual(["a", "b"]);
      },
    ],
    [
      "documents are no jobs: they emit no event",
      async ({ store, events }) => {
        await store.putDocs([aDoc("a", "1")]);
        expect(await events()).toEqual([]);
      },
    ],
  ],
};
