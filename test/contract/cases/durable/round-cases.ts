/** A durable run begins a new round (R2): its journal keeps what nobody has read, and refuses what it has heard. */
import { expect } from "vitest";
import { storeLimits } from "../../../../src/store/contract-limits.ts";
import type { Schedule } from "../../../../src/model/job/change.ts";
import type { EntryPut, LeasedJob, LeaseRef } from "../../../../src/store/records.ts";
import type { Store } from "../../../../src/store/store.ts";
import { aChange, aClaim, aJob, aSettle, finish, replay, schedule } from "../../../support/builders.ts";
import { startAt } from "../../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../../subject.ts";
import {
  anAppend,
  anEntry,
  aRecord,
  aSignal,
  hasJournal,
  hasUndo,
  inRound,
  isEnding,
  journalOf,
  keysOf,
  resume,
  suspend,
} from "./journal-calls.ts";

const anew = (inMs = 0, given: Partial<Schedule> = {}): Schedule =>
  schedule(inMs, { event: "retry-scheduled", newRound: true, ...given });

const signals = async (store: Store, id: string, ...entries: readonly EntryPut[]): Promise<string[]> =>
  (await store.changeIf(entries.map((entry) => anAppend(id, entry)))).map(({ kind }) => kind);

const record = async (store: Store, lease: LeaseRef, ...entries: readonly EntryPut[]): Promise<unknown> =>
  store.recordIfLeased([aRecord(lease, ...entries)]);

/** Ends the attempt with a new round, and claims the next one. */
async function nextRound(store: Store, lease: LeaseRef): Promise<LeasedJob> {
  const journal = { seen: null, entries: [] };
  expect(await store.settleIfLeased([aSettle(lease, anew(), { journal })])).toEqual([{ kind: "ok" }]);
  const [leased] = (await store.claim(aClaim({ max: 1 }))).jobs;
  return leased!;
}

export const roundCases: ContractGroup = {
  about: "rounds of a journal",
  cases: [
    [
      "a new round keeps the unread entries in order, with new numbers and their old times, and no other",
      async ({ store, lease, platform, read, claim }) => {
        const leased = await lease(aJob({ id: "a" }));
        await record(store, leased, anEntry("one", { marks: hasUndo }));
        await signals(store, "a", aSignal("s1"), aSignal("s2"), anEntry("end of a child"), aSignal("s3"));
        platform.advance(5);
        await record(store, leased, anEntry("takes s2", { reads: [3] }));
        await signals(store, "a", aSignal("s4"));
        const entries = [anEntry("continued", { marks: isEnding })];
        const next = anew(0, { edit: { input: "2" }, attempt: 0 });
        const settle = aSettle(leased, next, { journal: { seen: 7, entries } });
        expect(await store.settleIfLeased([settle, settle])).toEqual([{ kind: "ok" }, { kind: "already" }]);
        expect(await journalOf(store, "a")).toEqual([
          { number: 1, at: startAt, key: "s1", body: "body of s1" },
          { number: 2, at: startAt, key: "s3", body: "body of s3" },
          { number: 3, at: startAt + 5, key: "s4", body: "body of s4" },
        ]);
        expect(await read("a")).toMatchObject({
          ...{ state: "ready", durable: inRound(1, hasJournal), input: "2", attempt: 0, rev: 3 },
        });
        expect(await claim()).toMatchObject([{ durable: inRound(1, hasJournal), attempt: 1 }]);
      },
    ],
    [
      "a round that comes too late is not begun, and its journal stays whole",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await record(store, leased, anEntry("one"));
        await signals(store, "a", aSignal("s"));
        const settle = aSettle(leased, anew(), { journal: { seen: 1, entries: [anEntry("x")] } });
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "arrived", last: 2 }]);
        expect(await keysOf(store, "a")).toEqual(["one", "s"]);
        expect((await read("a")).durable).toBe(hasJournal);
      },
    ],
    [
      "own keys are accepted again in each round, and entries get the numbers after those that were kept",
      async ({ store, lease, read }) => {
        let leased = await lease(aJob({ id: "a" }));
        for (const round of [0, 1, 2]) {
          expect(leased.durable).toBe(round === 0 ? 0 : inRound(round, hasJournal));
          const kept = await keysOf(store, "a");
          expect(
            await record(store, leased, anEntry("one", { marks: hasUndo }), anEntry("two")),
          ).toMatchObject([{ kind: "appended", last: kept.length + 2 }]);
          await signals(store, "a", aSignal(`s${round}`));
          expect((await read("a")).durable).toBe(inRound(round, hasJournal + hasUndo));
          leased = await nextRound(store, leased);
        }
        expect(await keysOf(store, "a")).toEqual(["s0", "s1", "s2"]);
      },
    ],
    [
      "what a journal has heard in an earlier round it goes on refusing, read or not",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        await signals(store, "a", aSignal("read"), aSignal("unread"), anEntry("end of a child"));
        await record(store, leased, anEntry("own", { reads: [1] }));
        const second = await nextRound(store, leased);
        const all = [aSignal("read"), aSignal("unread"), anEntry("end of a child"), anEntry("own")];
        const heard = ["repeated", "repeated", "repeated"];
        expect(await signals(store, "a", ...all)).toEqual([...heard, "ok"]);
        await record(store, second, anEntry("takes", { reads: [1] }));
        await nextRound(store, second);
        expect(await signals(store, "a", ...all)).toEqual([...heard, "repeated"]);
        expect(await keysOf(store, "a")).toEqual([]);
      },
    ],
    [
      "an own entry may have a key that was heard in an earlier round",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        await signals(store, "a", anEntry("k"));
        const second = await nextRound(store, leased);
        expect(await record(store, second, anEntry("k"))).toMatchObject([{ last: 1 }]);
        expect(await keysOf(store, "a")).toEqual(["k"]);
      },
    ],
    [
      "of more keys than are remembered the newest are refused, over rounds as in one",
      async ({ store, lease }) => {
        const max = storeLimits.journalKeysKeptMax;
        const keys = (from: number, to: number): EntryPut[] =>
          Array.from({ length: to - from }, (_, at) => anEntry(`${from + at}`));
        const kinds = async (from: number, to: number): Promise<readonly string[]> => [
          ...new Set(await signals(store, "a", ...keys(from, to))),
        ];
        let leased = await lease(aJob({ id: "a" }));
        expect(await kinds(0, max + 5)).toEqual(["ok"]);
        leased = await nextRound(store, leased);
        expect(await kinds(5, max + 5)).toEqual(["repeated"]);
        expect(await kinds(4, 5)).toEqual(["ok"]);
        // Now 4 is the newest, so 5 goes with the next round.
        leased = await nextRound(store, leased);
        expect(await kinds(6, max + 5)).toEqual(["repeated"]);
        expect(await kinds(4, 6)).toEqual(["repeated", "ok"]);
        await nextRound(store, leased);
        expect(await keysOf(store, "a")).toEqual([]);
      },
    ],
    [
      "unread entries that a new round keeps are known by their keys, however many are remembered beside them",
      async ({ store, lease }) => {
        const max = storeLimits.journalKeysKeptMax;
        const leased = await lease(aJob({ id: "a" }));
        await signals(
          store,
          "a",
          aSignal("first"),
          ...Array.from({ length: max }, (_, at) => anEntry(`${at}`)),
        );
        const second = await nextRound(store, leased);
        expect(await keysOf(store, "a")).toEqual(["first"]);
        expect(await signals(store, "a", aSignal("first"), anEntry("0"))).toEqual(["repeated", "repeated"]);
        await record(store, second, anEntry("takes", { reads: [1] }));
        await nextRound(store, second);
        expect(await signals(store, "a", anEntry("1"))).toEqual(["repeated"]);
      },
    ],
    [
      "what was kept counts as unread, by its new number",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        await record(store, leased, anEntry("one"));
        await signals(store, "a", aSignal("s1", { unread: 4 }), aSignal("s2", { unread: 3 }));
        const second = await nextRound(store, leased);
        const put = async (key: string): Promise<string | undefined> => {
          const append = anAppend("a", aSignal(key, { unread: 3 }), { count: 3, size: 9 });
          return (await store.changeIf([append]))[0]?.kind;
        };
        expect(await put("s3")).toBe("full");
        await record(store, second, anEntry("takes s2", { reads: [2] }));
        expect(await put("s3")).toBe("ok");
        await record(store, second, anEntry("takes s1", { reads: [1] }));
        await nextRound(store, second);
        expect(await keysOf(store, "a")).toEqual(["s3"]);
      },
    ],
    [
      "a round with an empty journal is counted, and a run without one may begin it too",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const second = await nextRound(store, leased);
        expect(second.durable).toBe(inRound(1, 0));
        await record(store, second, anEntry("one"));
        const third = await nextRound(store, second);
        expect(third.durable).toBe(inRound(2, hasJournal));
        expect(await journalOf(store, "a")).toEqual([]);
        await store.settleIfLeased([aSettle(third, schedule(9))]);
        expect((await read("a")).durable).toBe(inRound(2, hasJournal));
      },
    ],
    [
      "a replay from the start begins a new round, and one that goes on does not",
      async ({ store, lease, claim, read }) => {
        const first = await lease(aJob({ id: "a" }));
        await record(store, first, anEntry("one", { marks: hasUndo | isEnding }));
        await signals(store, "a", aSignal("s"));
        await store.settleIfLeased([aSettle(first, finish("failed"))]);
        await store.changeIf([aChange("a", ["failed"], replay(0, { newRound: true }))]);
        expect(await read("a")).toMatchObject({ state: "ready", durable: inRound(1, hasJournal) });
        expect(await journalOf(store, "a")).toMatchObject([{ number: 1, key: "s" }]);
        expect(await signals(store, "a", aSignal("s"))).toEqual(["repeated"]);
        const [second] = await claim();
        await record(store, second!, anEntry("one", { marks: hasUndo }));
        await store.settleIfLeased([aSettle(second!, finish("failed"))]);
        await store.changeIf([aChange("a", ["failed"], replay(0))]);
        expect((await read("a")).durable).toBe(inRound(1, hasJournal + hasUndo));
        expect(await keysOf(store, "a")).toEqual(["s", "one"]);
      },
    ],
    [
      "a new round may begin from a waiting or a suspended job, with an entry that is appended before",
      async ({ store, lease, submit, read }) => {
        const leased = await lease(aJob({ id: "s" }));
        await record(store, leased, anEntry("one"));
        const wake = { inMs: 9 };
        await store.settleIfLeased([
          aSettle(leased, suspend({ wake }), { journal: { seen: 1, entries: [] } }),
        ]);
        await submit(aJob({ id: "r" }));
        await signals(store, "r", anEntry("heard"));
        const begin = (id: string, entry: EntryPut) => ({
          id,
          cases: [{ guard: { states: ["suspended", "ready"] as const }, next: anew(5), append: { entry } }],
        });
        expect(
          await store.changeIf([begin("s", aSignal("kept")), begin("r", anEntry("gone"))]),
        ).toMatchObject([
          { kind: "ok", from: "suspended", state: "scheduled" },
          { kind: "ok", from: "ready", state: "scheduled" },
        ]);
        expect(await read("s")).toMatchObject({ ttlAt: null, durable: inRound(1, hasJournal) });
        expect([await keysOf(store, "s"), await keysOf(store, "r")]).toEqual([["kept"], []]);
        expect(await signals(store, "r", anEntry("gone"), anEntry("heard"))).toEqual([
          "repeated",
          "repeated",
        ]);
      },
    ],
    [
      "the journal of a new round is seen anew: a suspend names its own last number",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await record(store, leased, anEntry("one"), anEntry("two"));
        await signals(store, "a", aSignal("s"));
        const second = await nextRound(store, leased);
        const suspends = [3, 0, 1].map((seen) =>
          aSettle(second, suspend(), { journal: { seen, entries: [anEntry("opened")] } }),
        );
        expect(await store.settleIfLeased(suspends)).toEqual([
          { kind: "stale" },
          { kind: "arrived", last: 1 },
          { kind: "ok" },
        ]);
        expect(await keysOf(store, "a")).toEqual(["s", "opened"]);
        await store.changeIf([aChange("a", ["suspended"], resume)]);
        expect((await read("a")).state).toBe("ready");
      },
    ],
  ],
};
