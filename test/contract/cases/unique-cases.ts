/** submit with a unique key (R8): who holds it, until when, and what a second submit does. */
import { expect } from "vitest";
import type { Unique } from "../../../src/model/job/unique-key.ts";
import type { NewJob } from "../../../src/store/records.ts";
import {
  aChange,
  aClaim,
  aDoc,
  aJob,
  aSettle,
  finish,
  handBack,
  remove,
  replay,
  schedule,
} from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../subject.ts";

const keyed = (id: string, unique: Partial<Unique> = {}, given: Partial<NewJob> = {}): NewJob =>
  aJob({ ...given, id, unique: { key: "q4:mail:k", hold: "end", onHeld: "keep", ...unique } });
const existing = (id: string): object => ({ kind: "ok", ids: [id], hows: ["existing"] });
const created = (id: string): object => ({ kind: "ok", ids: [id], hows: ["created"] });

export const uniqueCases: ContractGroup = {
  about: "submit with a unique key",
  cases: [
    [
      "the second caller gets the first id, and no second job is made",
      async ({ submit, store, read }) => {
        expect(await submit(keyed("a"), keyed("b"))).toEqual([created("a"), existing("a")]);
        expect(await store.readJobs(["b"])).toEqual([null]);
        expect((await read("a")).uniqueKey).toBe("q4:mail:k");
      },
    ],
    [
      "two jobs of one unit that share a key are one job",
      async ({ store }) => {
        expect(await store.submit([{ jobs: [keyed("a"), keyed("b"), aJob({ id: "c" })] }])).toEqual([
          { kind: "ok", ids: ["a", "a", "c"], hows: ["created", "existing", "created"] },
        ]);
      },
    ],
    [
      "a key of a unit that is refused is not taken",
      async ({ store, submit }) => {
        const docs = [aDoc("d", "x", { guard: { version: 3 } })];
        expect(await store.submit([{ jobs: [keyed("a")], docs }])).toMatchObject([{ kind: "refused" }]);
        expect(await submit(keyed("b"))).toEqual([created("b")]);
      },
    ],
    [
      "held until the end: through claim, retry and hand-back, free with every way to end",
      async ({ submit, claim, store, platform }) => {
        await submit(keyed("a"));
        const [first] = await claim();
        expect(await submit(keyed("x"))).toEqual([existing("a")]);
        await store.settleIfLeased([aSettle(first!, schedule(10))]);
        expect(await submit(keyed("x"))).toEqual([existing("a")]);
        platform.advance(10);
        await store.promoteDue({ max: 10 });
        const [second] = await claim();
        await store.settleIfLeased([aSettle(second!, finish())]);
        expect(await submit(keyed("b"))).toEqual([created("b")]);
        await store.changeIf([aChange("b", ["ready"], finish("cancelled"))]);
        expect(await submit(keyed("c"))).toEqual([created("c")]);
      },
    ],
    [
      "held until the end: free although the finished job is not kept",
      async ({ submit, lease, store }) => {
        await store.settleIfLeased([aSettle(await lease(keyed("a")), finish("completed", { keepMs: 0 }))]);
        expect(await submit(keyed("b"))).toEqual([created("b")]);
      },
    ],
    [
      "held until the start: free with the first claim and not taken again by a hand-back or retry",
      async ({ submit, lease, store }) => {
        const job = keyed("a", { hold: "started" });
        const leased = await lease(job);
        await store.settleIfLeased([aSettle(leased, handBack)]);
        expect(await submit(keyed("b", { hold: "started" }))).toEqual([created("b")]);
        expect(await submit(keyed("c", { hold: "started" }))).toEqual([existing("b")]);
      },
    ],
    [
      "held until the start: free when the job ends before any claim",
      async ({ submit, store }) => {
        await submit(keyed("a", { hold: "started" }));
        await store.changeIf([aChange("a", ["ready"], finish("cancelled"))]);
        expect(await submit(keyed("b", { hold: "started" }))).toEqual([created("b")]);
      },
    ],
    [
      "held for a time: outlives the job, ends on the millisecond, and a new job takes it anew",
      async ({ submit, lease, store, platform }) => {
        await store.settleIfLeased([
          aSettle(await lease(keyed("a", { hold: 100 })), finish("completed", { keepMs: 0 })),
        ]);
        platform.advance(99);
        expect(await submit(keyed("b", { hold: 100 }))).toEqual([existing("a")]);
        platform.advance(1);
        expect(await submit(keyed("c", { hold: 100 }))).toEqual([created("c")]);
        platform.advance(99);
        expect(await submit(keyed("d", { hold: 100 }))).toEqual([existing("c")]);
      },
    ],
    [
      "held for a time: ends while the job is still waiting",
      async ({ submit, platform }) => {
        await submit(keyed("a", { hold: 10 }));
        platform.advance(10);
        expect(await submit(keyed("b", { hold: 10 }))).toEqual([created("b")]);
      },
    ],
    [
      "replace: the holder keeps its id and seq and takes the new job's content, place and queue",
      async ({ submit, read, store, events }) => {
        await submit(keyed("a", {}, { tags: ["old"], deadline: { inMs: 5 }, digest: "d" }));
        const next = keyed(
          "b",
          { onHeld: "replace" },
          { queue: "post", name: "pack", input: "2", policy: "{}", meta: "m" },
        );
        const answer = await submit({ ...next, tags: ["new"], due: { inMs: 40 }, rankBase: 3, ttlMs: 9 });
        expect(answer).toEqual([{ kind: "ok", ids: ["a"], hows: ["replaced"] }]);
        expect(await read("a")).toMatchObject({
          ...{
            id: "a",
            seq: 1,
            rev: 2,
            state: "scheduled",
            queue: "post",
            name: "pack",
            input: "2",
            policy: "{}",
          },
          ...{
            meta: "m",
            tags: ["new"],
            dueAt: startAt + 40,
            rank: startAt + 43,
            ttlAt: startAt + 49,
            deadlineAt: null,
          },
        });
        expect(await store.readJobs(["b"])).toEqual([null]);
        const found = await store.findJobs({ filter: { tag: "old" }, max: 10, scanMax: 100, cursor: null });
        expect(found.jobs).toEqual([]);
        expect((await events("a")).map(({ kind }) => kind)).toEqual(["submitted", "replaced"]);
        expect(await submit(keyed("a", {}, { digest: "d" }))).toEqual([existing("a")]);
      },
    ],
    [
      "replace takes the new hold: a time counts from the latest submit",
      async ({ submit, platform }) => {
        await submit(keyed("a", { hold: 100 }));
        platform.advance(60);
        await submit(keyed("b", { hold: 100, onHeld: "replace" }));
        platform.advance(60);
        expect(await submit(keyed("c", { hold: 100 }))).toEqual([existing("a")]);
        platform.advance(40);
        expect(await submit(keyed("d", { hold: 100 }))).toEqual([created("d")]);
      },
    ],
    [
      "replace keeps a holder that has started, waits for its retry or has ended",
      async ({ submit, claim, store }) => {
        const unique = { hold: 10_000, onHeld: "replace" } as const;
        await submit(keyed("a", { hold: unique.hold }));
        const [leased] = await claim();
        expect(await submit(keyed("b", unique))).toEqual([existing("a")]);
        await store.settleIfLeased([aSettle(leased!, schedule(50))]);
        expect(await submit(keyed("b", unique))).toEqual([existing("a")]);
        await store.changeIf([aChange("a", ["scheduled"], finish("cancelled"))]);
        expect(await submit(keyed("b", unique))).toEqual([existing("a")]);
      },
    ],
    [
      "a replay takes a key held until the end again and frees it with the new end",
      async ({ submit, store }) => {
        await submit(keyed("a"));
        await store.changeIf([aChange("a", ["ready"], finish("failed"))]);
        expect(await store.changeIf([aChange("a", ["failed"], replay())])).toMatchObject([{ kind: "ok" }]);
        expect(await submit(keyed("b"))).toEqual([existing("a")]);
        await store.changeIf([aChange("a", ["ready"], finish("cancelled"))]);
        expect(await submit(keyed("c"))).toEqual([created("c")]);
      },
    ],
    [
      "a replay answers key-held while another live job holds the key, and changes nothing",
      async ({ submit, store, read }) => {
        await submit(keyed("a"));
        await store.changeIf([aChange("a", ["ready"], finish("failed"))]);
        await submit(keyed("b"));
        const before = await read("a");
        expect(await store.changeIf([aChange("a", ["failed"], replay())])).toEqual([
          { kind: "key-held", by: "b" },
        ]);
        expect(await read("a")).toEqual(before);
        await store.changeIf([aChange("b", ["ready"], finish("cancelled"))]);
        expect(await store.changeIf([aChange("a", ["failed"], replay())])).toMatchObject([{ kind: "ok" }]);
      },
    ],
    [
      "a replay does not take a key held until the start or for a time",
      async ({ submit, store }) => {
        await submit(keyed("a", { hold: "started" }));
        await store.changeIf([aChange("a", ["ready"], finish("failed"))]);
        await submit(keyed("b", { hold: "started" }));
        expect(await store.changeIf([aChange("a", ["failed"], replay())])).toMatchObject([{ kind: "ok" }]);
      },
    ],
    [
      "removing the holder frees the key, however it is held",
      async ({ submit, store }) => {
        await submit(keyed("a", { hold: 10_000 }));
        await store.changeIf([aChange("a", ["ready"], remove)]);
        expect(await submit(keyed("b"))).toEqual([created("b")]);
        await store.changeIf([aChange("b", ["ready"], remove)]);
        expect(await submit(keyed("c"))).toEqual([created("c")]);
      },
    ],
    [
      "whoever no longer holds the key frees it for nobody, however it ends",
      async ({ submit, store, platform }) => {
        await submit(keyed("a", { hold: 10 }), keyed("x", { key: "other", hold: 10 }));
        platform.advance(10);
        await submit(keyed("b"), keyed("y", { key: "other" }));
        await store.changeIf([aChange("a", ["ready"], remove), aChange("x", ["ready"], finish("cancelled"))]);
        expect(await submit(keyed("c"), keyed("z", { key: "other" }))).toEqual([
          existing("b"),
          existing("y"),
        ]);
      },
    ],
    [
      "a caller-given id is looked up before the key",
      async ({ submit }) => {
        await submit(keyed("a", {}, { digest: "d" }), aJob({ id: "b", digest: "e" }));
        expect(await submit(keyed("b", {}, { digest: "e" }), keyed("b", {}, { digest: "f" }))).toEqual([
          existing("b"),
          { kind: "refused", reason: "id-differs", id: "b" },
        ]);
      },
    ],
    [
      "a follow-up may take the key that its finishing job frees",
      async ({ store, lease }) => {
        const leased = await lease(keyed("a"));
        const settle = aSettle(leased, finish(), { effects: { jobs: [keyed("b")] } });
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "ok" }]);
        expect((await store.claim(aClaim())).jobs.map(({ id }) => id)).toEqual(["b"]);
      },
    ],
  ],
};
