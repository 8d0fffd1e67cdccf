/** Suspended jobs: a settle that applies only if the whole journal was seen (R2), the wake time (R1), who resumes. */
import { expect } from "vitest";
import { limitGateKey } from "../../../../src/model/limits/gate.ts";
import type { Change, Clock, Settle } from "../../../../src/store/operations.ts";
import type { EntryPut, LeaseRef } from "../../../../src/store/records.ts";
import type { Suspend } from "../../../../src/model/job/change.ts";
import {
  aChange,
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  askCancel,
  finish,
  remove,
  schedule,
} from "../../../support/builders.ts";
import { startAt } from "../../../support/virtual/held-platform.ts";
import { auditAll, findAll, readAllDue } from "../../../support/walk.ts";
import type { ContractGroup, Subject } from "../../subject.ts";
import { aFlow, aMember, runReady } from "../flow-jobs.ts";
import {
  anAppend,
  anEntry,
  aRecord,
  aSignal,
  hasJournal,
  isEnding,
  keysOf,
  resume,
  suspend,
} from "./journal-calls.ts";
import { byRank, claimOne, grouped, groupGate, idsFrom } from "../laned-jobs.ts";

const aSuspend = (
  lease: LeaseRef,
  seen: number | null,
  given: Partial<Suspend> = {},
  entries: readonly EntryPut[] = [],
): Settle => aSettle(lease, suspend(given), { journal: { seen, entries } });

const wakes = (id: string): Change => aChange(id, ["suspended"], resume, { rang: "wake" });

/** A job that was claimed and suspended, alone in the store. */
async function suspended({ store, lease }: Subject, id: string, given: Partial<Suspend> = {}): Promise<void> {
  const leased = await lease(aJob({ id }));
  expect(await store.settleIfLeased([aSuspend(leased, 0, given)])).toEqual([{ kind: "ok" }]);
}

export const suspendCases: ContractGroup = {
  about: "suspended jobs",
  cases: [
    [
      "a job that has seen its whole journal is suspended: out of its lease, at its place, until it wakes",
      async ({ store, lease, read, events, platform }) => {
        const leased = await lease(aJob({ id: "a", rankBase: 7, ttlMs: 900 }));
        await store.recordIfLeased([aRecord(leased, anEntry("one"))]);
        platform.advance(5);
        const settle = aSuspend(leased, 1, { wake: { inMs: 40 } });
        expect(await store.settleIfLeased([{ ...settle, attempts: "log" }])).toEqual([{ kind: "ok" }]);
        expect(await read("a")).toMatchObject({
          ...{ state: "suspended", rev: 3, attempt: 1, countsAttempt: 1, attempts: "log", keepsLane: 0 },
          ...{ rank: startAt + 7, dueAt: startAt, ttlAt: startAt + 45, deadlineAt: null, endedAt: null },
          ...{ owner: "w1", leaseEndsAt: null, attemptEndsAt: null, durable: hasJournal },
        });
        expect((await events("a")).at(-1)).toMatchObject({
          ...{ kind: "suspended", state: "suspended", rev: 3, attempt: 1, extra: null },
        });
        expect(await store.countJobs()).toMatchObject([{ state: "suspended", count: 1 }]);
        expect((await findAll(store, { states: ["suspended"] })).map(({ id }) => id)).toEqual(["a"]);
        expect(await store.recordIfLeased([aRecord(leased, anEntry("late"))])).toEqual(["stale"]);
      },
    ],
    [
      "a suspend may set the attempt and say whether the next claim counts",
      async ({ store, lease, claim, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.settleIfLeased([aSuspend(leased, 0, { attempt: 0, countsAttempt: 1 })]);
        expect(await read("a")).toMatchObject({ attempt: 0, countsAttempt: 1 });
        await store.changeIf([anAppend("a", aSignal("s"))]);
        const [second] = await claim();
        expect(second).toMatchObject({ attempt: 1 });
        await store.settleIfLeased([aSuspend(second!, 1, { countsAttempt: 0 })]);
        expect(await read("a")).toMatchObject({ attempt: 1, countsAttempt: 0 });
      },
    ],
    [
      "a job whose journal holds more than was seen is not suspended, and learns the last number",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aRecord(leased, anEntry("one"))]);
        await store.changeIf([anAppend("a", aSignal("s")), anAppend("a", aSignal("t"))]);
        const before = await read("a");
        const late = aSuspend(leased, 1, { wake: { inMs: 5 } }, [anEntry("opened", { marks: isEnding })]);
        expect(await store.settleIfLeased([late])).toEqual([{ kind: "arrived", last: 3 }]);
        expect(await read("a")).toEqual(before);
        expect(await keysOf(store, "a")).toEqual(["one", "s", "t"]);
        expect(await store.settleIfLeased([aSuspend(leased, 3)])).toEqual([{ kind: "ok" }]);
      },
    ],
    [
      "a job whose journal holds less than was seen is not suspended: its worker's answer is stale",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aRecord(leased, anEntry("one"))]);
        expect(await store.settleIfLeased([aSuspend(leased, 2), aSuspend(leased, 9)])).toEqual([
          { kind: "stale" },
          { kind: "stale" },
        ]);
        expect((await read("a")).state).toBe("running");
      },
    ],
    [
      "entries of a suspend are appended in its step, after the number that was seen",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aRecord(leased, anEntry("one"))]);
        const settle = aSuspend(leased, 1, { wake: { inMs: 9 } }, [anEntry("opened"), anEntry("one")]);
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "ok" }]);
        expect((await read("a")).state).toBe("suspended");
        expect(await keysOf(store, "a")).toEqual(["one", "opened"]);
      },
    ],
    [
      "a repeated suspend answers already, whatever became of the job since, and appends nothing",
      async ({ store, lease, claim }) => {
        const leased = await lease(aJob({ id: "a" }));
        const settle = aSuspend(leased, 0, {}, [anEntry("opened")]);
        expect(await store.settleIfLeased([settle, settle])).toEqual([{ kind: "ok" }, { kind: "already" }]);
        await store.changeIf([anAppend("a", aSignal("s"))]);
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "already" }]);
        const [second] = await claim();
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "already" }]);
        expect(await keysOf(store, "a")).toEqual(["opened", "s"]);
        expect(await store.settleIfLeased([aSuspend(second!, 2)])).toEqual([{ kind: "ok" }]);
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "stale" }]);
      },
    ],
    [
      "a suspend under an old fence, another seq or no lease is stale or gone",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const strays = [
          { ...leased, fence: leased.fence - 1 },
          { ...leased, seq: leased.seq + 1 },
          { id: "ghost", seq: 9, fence: 1 },
        ];
        const answers = await store.settleIfLeased(
          strays.map((stray) => aSuspend(stray, 0, {}, [anEntry("x")])),
        );
        expect(answers).toEqual([{ kind: "stale" }, { kind: "stale" }, { kind: "gone" }]);
        expect((await read("a")).state).toBe("running");
        expect(await keysOf(store, "a")).toEqual([]);
      },
    ],
    [
      "a job whose cancel was asked for is not suspended: only its end, or its ending, is applied",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.changeIf([aChange("a", ["running"], askCancel)]);
        for (const seen of [0, 7, null])
          expect(await store.settleIfLeased([aSuspend(leased, seen)])).toEqual([{ kind: "cancel-asked" }]);
        await store.recordIfLeased([aRecord(leased, anEntry("ending", { marks: isEnding }))]);
        expect(await store.settleIfLeased([aSuspend(leased, 1)])).toEqual([{ kind: "ok" }]);
        expect((await read("a")).state).toBe("suspended");
      },
    ],
    [
      "any other settle may ask for the whole journal too: a snooze that comes too late is not applied",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.changeIf([anAppend("a", aSignal("s"))]);
        const snooze = (seen: number | null): Settle =>
          aSettle(leased, schedule(40, { event: "snoozed" }), { journal: { seen, entries: [anEntry("o")] } });
        const end = aSettle(leased, finish(), { journal: { seen: 0, entries: [] } });
        expect(await store.settleIfLeased([snooze(0), end, snooze(2)])).toEqual([
          { kind: "arrived", last: 1 },
          { kind: "arrived", last: 1 },
          { kind: "stale" },
        ]);
        expect((await read("a")).state).toBe("running");
        expect(await store.settleIfLeased([snooze(1)])).toEqual([{ kind: "ok" }]);
        expect(await read("a")).toMatchObject({ state: "scheduled", dueAt: startAt + 40 });
        expect(await keysOf(store, "a")).toEqual(["s", "o"]);
      },
    ],
    [
      "a settle that looks at no number is applied whatever the journal holds",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.changeIf([anAppend("a", aSignal("s"))]);
        expect(await store.settleIfLeased([aSuspend(leased, null)])).toEqual([{ kind: "ok" }]);
        expect((await read("a")).state).toBe("suspended");
      },
    ],
    [
      "a suspended job is claimed by nobody, and promoted by nobody, also after it should wake",
      async (subject) => {
        const { store, claim, platform } = subject;
        await suspended(subject, "a", { wake: { inMs: 5 } });
        expect(await claim()).toEqual([]);
        platform.advance(10);
        expect(await claim()).toEqual([]);
        expect(await store.promoteDue({ max: 9 })).toMatchObject({ count: 0 });
        const { ready } = await store.heartbeat({ puts: [], read: { kind: "kv", ids: [] } });
        // Over partitions the answer also has routes whose jobs are merely not known.
        if (store.partitions === undefined) expect(ready).toEqual([]);
      },
    ],
    [
      "a suspended job rings at its wake time on the very millisecond, and not as one whose time to live is over",
      async (subject) => {
        const { store, platform, read } = subject;
        await suspended(subject, "a", { wake: { inMs: 40 } });
        const next = async (): Promise<number | null> =>
          (await store.readDue({ clock: "wake", max: 9, cursor: null })).nextInMs;
        platform.setNow(startAt + 39);
        expect([await next(), (await store.claim(aClaim({ offers: [] }))).nextDueInMs]).toEqual([1, 1]);
        expect(await readAllDue(store, "wake")).toEqual([]);
        expect(await store.changeIf([wakes("a")])).toMatchObject([{ kind: "changed" }]);
        platform.setNow(startAt + 40);
        expect(await next()).toBe(0);
        expect(await readAllDue(store, "wake")).toMatchObject([
          { id: "a", state: "suspended", lateMs: 0, owner: "w1", durable: 0 },
        ]);
        const others: readonly Clock[] = ["ttl", "lease", "attempt", "deadline"];
        for (const clock of others) {
          expect(await readAllDue(store, clock)).toEqual([]);
          const expire = aChange("a", ["suspended"], finish("expired"), { rang: clock });
          expect(await store.changeIf([expire])).toMatchObject([{ kind: "changed", state: "suspended" }]);
        }
        expect(await store.changeIf([wakes("a")])).toMatchObject([
          { kind: "ok", from: "suspended", state: "ready", rev: 4 },
        ]);
        expect(await read("a")).toMatchObject({ state: "ready", ttlAt: null });
        expect(await next()).toBeNull();
      },
    ],
    [
      "a wake time may be an instant, one that has passed is due at once, and without one nothing ever rings",
      async ({ store, submit, claim, platform }) => {
        await submit(...["at", "past", "never"].map((id) => aJob({ id })));
        const [at, past, never] = await claim();
        await store.settleIfLeased([
          aSuspend(at!, 0, { wake: { at: startAt + 30 } }),
          aSuspend(past!, 0, { wake: { at: startAt - 5 } }),
          aSuspend(never!, 0),
        ]);
        expect((await readAllDue(store, "wake")).map(({ id }) => id)).toEqual(["past"]);
        await store.changeIf([wakes("past")]);
        platform.advance(1_000_000);
        expect((await readAllDue(store, "wake")).map(({ id }) => id)).toEqual(["at"]);
        await store.changeIf([wakes("at")]);
        expect((await store.claim(aClaim({ offers: [] }))).nextDueInMs).toBeNull();
      },
    ],
    [
      "who wakes and who expires do not see each other's jobs",
      async ({ store, submit, claim, platform }) => {
        const ids = Array.from({ length: 30 }, (_, at) => `${at}`);
        await submit(...ids.map((id) => aJob({ id })));
        const jobs = await claim({ max: 30 });
        await store.settleIfLeased(jobs.map((job) => aSuspend(job, 0, { wake: { inMs: 5 } })));
        await submit(aJob({ id: "old", ttlMs: 6 }), aJob({ id: "later", ttlMs: 6, due: { inMs: 1 } }));
        platform.advance(10);
        expect((await readAllDue(store, "ttl", 7)).map(({ id }) => id)).toEqual(["later", "old"]);
        expect((await readAllDue(store, "wake", 7)).map(({ id }) => id)).toEqual(ids);
        expect(await store.changeIf([wakes("old")])).toMatchObject([{ kind: "changed", state: "ready" }]);
      },
    ],
    [
      "a suspended job still has its deadline, which rings before or after it wakes",
      async ({ store, submit, claim, platform, read }) => {
        await submit(
          aJob({ id: "early", deadline: { inMs: 20 } }),
          aJob({ id: "late", deadline: { inMs: 60 } }),
          aJob({ id: "only", deadline: { inMs: 70 } }),
        );
        const jobs = await claim();
        await store.settleIfLeased(
          jobs.map((job) => aSuspend(job, 0, { wake: job.id === "only" ? null : { inMs: 40 } })),
        );
        expect((await store.claim(aClaim({ offers: [] }))).nextDueInMs).toBe(20);
        platform.advance(20);
        expect(await readAllDue(store, "deadline")).toMatchObject([{ id: "early", state: "suspended" }]);
        expect(await readAllDue(store, "wake")).toEqual([]);
        const expire = aChange("early", ["suspended"], finish("expired", { reason: "deadline" }), {
          rang: "deadline",
        });
        expect(await store.changeIf([expire])).toMatchObject([{ kind: "ok", state: "expired" }]);
        platform.advance(20);
        expect((await readAllDue(store, "wake")).map(({ id }) => id)).toEqual(["late"]);
        await store.changeIf([wakes("late")]);
        expect(await read("late")).toMatchObject({ state: "ready", deadlineAt: startAt + 60, ttlAt: null });
        platform.advance(30);
        expect((await readAllDue(store, "deadline")).map(({ id }) => id)).toEqual(["late", "only"]);
      },
    ],
    [
      "an append makes a suspended job ready at its old place, and its wake time is over",
      async (subject) => {
        const { store, submit, claim, platform, read, events } = subject;
        await suspended(subject, "a", { wake: { inMs: 40 } });
        platform.advance(5);
        await submit(aJob({ id: "b" }));
        expect(await store.changeIf([anAppend("a", aSignal("s"))])).toEqual([
          { kind: "ok", applied: 0, from: "suspended", state: "ready", rev: 4 },
        ]);
        expect(await read("a")).toMatchObject({
          ...{ state: "ready", rank: startAt, dueAt: startAt, ttlAt: null, countsAttempt: 1, rev: 4 },
        });
        expect((await events("a")).at(-1)).toMatchObject({
          ...{ kind: "resumed", state: "ready", rev: 4, extra: null },
        });
        platform.advance(1000);
        for (const clock of ["ttl", "wake"] as const) expect(await readAllDue(store, clock)).toEqual([]);
        expect((await claim()).map(({ id, attempt }) => [id, attempt])).toEqual([
          ["a", 2],
          ["b", 1],
        ]);
        expect(await keysOf(store, "a")).toEqual(["s"]);
      },
    ],
    [
      "a repeated append finds a resumed job unchanged, and one without room leaves it suspended",
      async (subject) => {
        const { store, read } = subject;
        await suspended(subject, "a");
        const none = { count: 0, size: 0 };
        expect(await store.changeIf([anAppend("a", aSignal("s"), none)])).toEqual([
          { kind: "full", state: "suspended", rev: 3 },
        ]);
        const append = anAppend("a", aSignal("s"));
        expect(await store.changeIf([append, append])).toMatchObject([
          { kind: "ok", state: "ready" },
          { kind: "repeated", state: "ready", rev: 4 },
        ]);
        expect(await read("a")).toMatchObject({ state: "ready", rev: 4 });
      },
    ],
    [
      "a suspended job may be cancelled, failed, expired, rescheduled or deleted by its guard",
      async (subject) => {
        const { store, read, submit, claim } = subject;
        const ends = ["cancelled", "failed", "expired"] as const;
        const ids = [...ends, "moved", "removed"];
        await submit(...ids.map((id) => aJob({ id })));
        const jobs = await claim();
        await store.settleIfLeased(jobs.map((job) => aSuspend(job, 0, { wake: { inMs: 9 } })));
        const nexts = [...ends.map((to) => finish(to)), schedule(50, { ttlMs: 7 }), remove];
        const answers = await store.changeIf(ids.map((id, at) => aChange(id, ["suspended"], nexts[at]!)));
        expect(answers).toMatchObject(ids.map(() => ({ kind: "ok", from: "suspended" })));
        for (const to of ends) expect(await read(to)).toMatchObject({ state: to, endedAt: startAt });
        expect(await read("moved")).toMatchObject({
          ...{ state: "scheduled", dueAt: startAt + 50, rank: startAt + 50, ttlAt: startAt + 57 },
        });
        expect(await store.readJobs(["removed"])).toEqual([null]);
        expect(await readAllDue(store, "wake")).toEqual([]);
        expect(await auditAll(store)).toEqual({});
      },
    ],
    [
      "a suspended job gives its permits back, and asks for them again",
      async ({ store, submit }) => {
        const key = limitGateKey("slack");
        const gates = [{ key, weight: 1 }];
        const routes = [aRoute({ gates })];
        await store.putGates([aGate(key, { cap: 1 })]);
        await submit(aJob({ id: "a", gates }), aJob({ id: "b", gates }));
        const a = await claimOne(store, routes);
        expect(await idsFrom(store, routes)).toEqual([]);
        await store.settleIfLeased([aSuspend(a, 0)]);
        expect((await store.readGates({ keys: [key] })).gates).toMatchObject([{ held: 0 }]);
        const b = await claimOne(store, routes);
        await store.changeIf([anAppend("a", aSignal("s"))]);
        expect(await idsFrom(store, routes)).toEqual([]);
        await store.settleIfLeased([aSettle(b, finish())]);
        expect(await idsFrom(store, routes)).toEqual(["a"]);
      },
    ],
    [
      "a suspended job of a group lets the next of its group pass, and is the first again once it is resumed",
      async ({ store, submit }) => {
        await submit(grouped("a", "k"), grouped("b", "k"), grouped("c", "k"));
        await store.settleIfLeased([aSuspend(await claimOne(store, [byRank]), 0)]);
        const b = await claimOne(store, [byRank]);
        expect(b.id).toBe("b");
        await store.changeIf([anAppend("a", aSignal("s"))]);
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.settleIfLeased([aSettle(b, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["a"]);
        expect(await auditAll(store)).toEqual({});
      },
    ],
    [
      "a suspended job that keeps its lane holds its group, and nobody of it is claimed before the job itself",
      async ({ store, submit, read }) => {
        await submit(grouped("a", "k"), grouped("b", "k"), aJob({ id: "plain" }));
        const { rank } = await read("a");
        await store.settleIfLeased([aSuspend(await claimOne(store, [byRank]), 0, { keepsLane: true })]);
        expect(await read("a")).toMatchObject({ state: "suspended", keepsLane: 1, rank });
        expect((await store.readGates({ keys: [groupGate("k")] })).gates).toMatchObject([{ held: 1 }]);
        expect((await findAll(store, { keepsLane: true })).map(({ id }) => id)).toEqual(["a"]);
        expect(await auditAll(store)).toEqual({});
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.changeIf([anAppend("a", aSignal("s"))]);
        expect(await read("a")).toMatchObject({ state: "ready", keepsLane: 0, rank });
        const again = await claimOne(store, [byRank]);
        expect(again.id).toBe("a");
        await store.settleIfLeased([aSuspend(again, 1, { keepsLane: true })]);
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.changeIf([aChange("a", ["suspended"], finish("cancelled"))]);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
        const [plain] = (await store.claim(aClaim())).jobs;
        await store.settleIfLeased([aSuspend(plain!, 0, { keepsLane: true })]);
        expect(await read("plain")).toMatchObject({ state: "suspended", keepsLane: 0 });
      },
    ],
    [
      "a suspended job keeps its unique key: a submit finds it, and replaces nothing",
      async ({ store, lease, submit, read }) => {
        const unique = { key: "k", hold: "end", onHeld: "replace" } as const;
        const leased = await lease(aJob({ id: "a", unique }));
        await store.settleIfLeased([aSuspend(leased, 0, { attempt: 0 })]);
        expect(await submit(aJob({ id: "b", unique }))).toEqual([
          { kind: "ok", ids: ["a"], hows: ["existing"] },
        ]);
        expect((await read("a")).state).toBe("suspended");
        await store.changeIf([aChange("a", ["suspended"], finish("cancelled"))]);
        expect(await submit(aJob({ id: "b", unique }))).toMatchObject([{ hows: ["created"] }]);
      },
    ],
    [
      "a member of a flow that is suspended holds its followers up until it has ended",
      async ({ store, submit, claim, read }) => {
        await submit(aFlow(1), aMember("a"));
        const [member] = await claim();
        await store.settleIfLeased([aSuspend(member!, 0)]);
        expect(await runReady(store)).toEqual([]);
        await store.changeIf([anAppend(member!.id, aSignal("s"))]);
        expect(await runReady(store)).toEqual(["a"]);
        expect(await read(member!.id)).toMatchObject({ state: "completed" });
        expect(await auditAll(store)).toEqual({});
      },
    ],
    [
      "many jobs are suspended and resumed in one call, each by what it has seen",
      async ({ store, submit, claim }) => {
        const ids = Array.from({ length: 300 }, (_, at) => `j${at}`);
        await submit(...ids.map((id) => aJob({ id })));
        const jobs = await claim({ max: 300 });
        await store.changeIf(ids.filter((_, at) => at % 3 === 0).map((id) => anAppend(id, aSignal("s"))));
        const settles = jobs.map((job, at) => aSuspend(job, at % 3 === 2 ? 1 : 0, { wake: { inMs: 5 } }));
        const kinds = ["arrived", "ok", "stale"];
        expect((await store.settleIfLeased(settles)).map(({ kind }) => kind)).toEqual(
          ids.map((_, at) => kinds[at % 3]),
        );
        expect(await store.changeIf(ids.map((id) => anAppend(id, aSignal("t"))))).toMatchObject(
          ids.map((_, at) => ({ kind: "ok", from: at % 3 === 1 ? "suspended" : "running" })),
        );
        expect((await claim({ max: 300 })).map(({ id }) => id)).toEqual(ids.filter((_, at) => at % 3 === 1));
      },
    ],
  ],
};
