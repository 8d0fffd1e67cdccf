/** changeIf: what operators and duties may do to a job, under a guard (R2). */
import { expect } from "vitest";
import type { JobState } from "../../../src/model/job/job-state.ts";
import {
  aChange,
  aJob,
  aRoute,
  aSettle,
  askCancel,
  finish,
  handBack,
  remove,
  replay,
  schedule,
} from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../subject.ts";

export const changeCases: ContractGroup = {
  about: "changeIf",
  cases: [
    [
      "waiting jobs end in the call, and the answer says from where to where",
      async ({ store, submit, read, claim }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b", due: { inMs: 50 } }));
        const cancel = (id: string): ReturnType<typeof aChange> =>
          aChange(id, ["scheduled", "ready"], finish("cancelled"));
        expect(await store.changeIf([cancel("a"), cancel("b"), cancel("ghost")])).toEqual([
          { kind: "ok", applied: 0, from: "ready", state: "cancelled", rev: 2 },
          { kind: "ok", applied: 0, from: "scheduled", state: "cancelled", rev: 2 },
          { kind: "gone" },
        ]);
        expect(await read("a")).toMatchObject({ state: "cancelled", endedAt: startAt, reason: "because" });
        expect(await claim()).toEqual([]);
      },
    ],
    [
      "the first case whose guard holds is applied, and none is the answer changed with what is there",
      async ({ store, lease, submit }) => {
        await lease(aJob({ id: "a" }));
        await submit(aJob({ id: "b" }));
        const cases = [
          { guard: { states: ["ready", "scheduled"] as JobState[] }, next: finish("cancelled") },
          { guard: { states: ["running"] as JobState[] }, next: askCancel },
        ];
        expect(
          await store.changeIf([
            { id: "a", cases },
            { id: "b", cases },
            { id: "b", cases },
          ]),
        ).toEqual([
          { kind: "ok", applied: 1, from: "running", state: "running", rev: 3 },
          { kind: "ok", applied: 0, from: "ready", state: "cancelled", rev: 2 },
          { kind: "changed", state: "cancelled", rev: 2 },
        ]);
      },
    ],
    [
      "a guard by rev or fence holds only for exactly that one",
      async ({ store, lease }) => {
        const { rev, fence } = await lease(aJob({ id: "a" }));
        const mark = (guard: object): ReturnType<typeof aChange> =>
          aChange("a", ["running"], askCancel, guard);
        const changed = { kind: "changed", state: "running", rev };
        expect(
          await store.changeIf([mark({ rev: rev - 1 }), mark({ rev: rev + 1 }), mark({ fence: fence + 1 })]),
        ).toEqual([changed, changed, changed]);
        expect(await store.changeIf([mark({ rev, fence })])).toMatchObject([{ kind: "ok", rev: rev + 1 }]);
        expect(await store.changeIf([mark({ rev })])).toEqual([
          { kind: "changed", state: "running", rev: rev + 1 },
        ]);
      },
    ],
    [
      "a guard by clock holds from the very millisecond on, by the store's time",
      async ({ store, lease, submit, platform }) => {
        const leased = await lease(aJob({ id: "a", deadline: { inMs: 30 } }), { leaseMs: 10 });
        const ends = { ...leased, attemptEndsInMs: 20 };
        await store.extendIfLeased({ owner: "w1", leaseMs: 10, leases: [ends], wantsOthers: false });
        await submit(aJob({ id: "b", ttlMs: 40 }));
        const clocks = [
          ["lease", "a", 10],
          ["attempt", "a", 20],
          ["deadline", "a", 30],
          ["ttl", "b", 40],
        ] as const;
        for (const [clock, id, at] of clocks) {
          const mark = aChange(id, ["running", "ready"], { to: "same", event: "edited" }, { rang: clock });
          platform.setNow(startAt + at - 1);
          expect(await store.changeIf([mark])).toMatchObject([{ kind: "changed" }]);
          platform.setNow(startAt + at);
          expect(await store.changeIf([mark])).toMatchObject([{ kind: "ok" }]);
        }
      },
    ],
    [
      "a clock that the job does not have never rings",
      async ({ store, submit, platform }) => {
        await submit(aJob({ id: "a" }));
        platform.advance(1_000_000);
        for (const rang of ["lease", "attempt", "deadline", "ttl"] as const) {
          expect(await store.changeIf([aChange("a", ["ready"], askCancel, { rang })])).toMatchObject([
            { kind: "changed" },
          ]);
        }
      },
    ],
    [
      "asking a running job to cancel marks it and names its owner in the event",
      async ({ store, lease, read, events }) => {
        await lease(aJob({ id: "a" }), { owner: "w9" });
        await store.changeIf([aChange("a", ["running"], askCancel)]);
        expect(await read("a")).toMatchObject({
          state: "running",
          cancelAsked: true,
          leaseEndsAt: startAt + 1000,
        });
        expect((await events("a")).at(-1)).toMatchObject({
          kind: "cancel-asked",
          state: "running",
          extra: "w9",
        });
      },
    ],
    [
      "rescheduling moves due time, rank and state both ways and keeps the attempt",
      async ({ store, submit, read }) => {
        await submit(aJob({ id: "a" }));
        const later = schedule(70, { event: "rescheduled", rankBase: 4, ttlMs: 6 });
        expect(await store.changeIf([aChange("a", ["ready"], later)])).toMatchObject([
          { from: "ready", state: "scheduled" },
        ]);
        expect(await read("a")).toMatchObject({
          dueAt: startAt + 70,
          rank: startAt + 74,
          ttlAt: startAt + 76,
          attempt: 0,
        });
        const moved = schedule(0, { event: "rescheduled", due: { at: startAt + 99 } });
        expect(await store.changeIf([aChange("a", ["scheduled"], moved)])).toMatchObject([
          { from: "scheduled", state: "scheduled" },
        ]);
        expect(await read("a")).toMatchObject({ dueAt: startAt + 99, ttlAt: null });
        const now = schedule(0, { event: "rescheduled" });
        expect(await store.changeIf([aChange("a", ["scheduled"], now)])).toMatchObject([
          { from: "scheduled", state: "ready" },
        ]);
        expect(
          await store.claim({ owner: "w", leaseMs: 5, offers: [{ routes: [aRoute()], max: 1 }] }),
        ).toMatchObject({
          jobs: [{ id: "a", attempt: 1 }],
        });
      },
    ],
    [
      "an edit changes what it names and leaves the rest, small inputs and large ones",
      async ({ store, submit, read, claim }) => {
        const large = "x".repeat(10_000);
        await submit(aJob({ id: "a", policy: "p", meta: "m" }));
        const edited = (edit: object): ReturnType<typeof aChange> =>
          aChange("a", ["ready"], { to: "same", event: "edited", edit });
        await store.changeIf([edited({ input: large })]);
        expect(await read("a")).toMatchObject({ input: large, policy: "p", meta: "m", rev: 2 });
        await store.changeIf([edited({ input: "small", policy: null })]);
        expect(await read("a")).toMatchObject({ input: "small", policy: null, meta: "m" });
        expect(await claim()).toMatchObject([{ input: "small", policy: null, meta: "m" }]);
      },
    ],
    [
      "an edit of tags moves the job from the old ones to the new, and another edit leaves them",
      async ({ store, submit, read, claim }) => {
        await submit(
          aJob({ id: "a", tags: ["x", "y"] }),
          aJob({ id: "b" }),
          aJob({ id: "c", tags: ["x"], due: { inMs: 1000 } }),
        );
        const edited = (id: string, edit: object): ReturnType<typeof aChange> =>
          aChange(id, ["ready", "scheduled"], { to: "same", event: "edited", edit });
        const tagged = async (tag: string): Promise<string[]> => {
          const found = await store.findJobs({ filter: { tag }, max: 9, scanMax: 99, cursor: null });
          return found.jobs.map(({ id }) => id).toSorted();
        };
        await store.changeIf([
          edited("a", { tags: ["y", "z ü'"], meta: "m" }),
          edited("b", { tags: ["x"] }),
          edited("c", { tags: null }),
        ]);
        expect([await tagged("x"), await tagged("y"), await tagged("z ü'")]).toEqual([["b"], ["a"], ["a"]]);
        expect(await read("a")).toMatchObject({ tags: ["y", "z ü'"], meta: "m", rev: 2 });
        expect([(await read("b"))?.tags, (await read("c"))?.tags]).toEqual([["x"], null]);
        await store.changeIf([edited("a", { input: "2" })]);
        expect((await read("a"))?.tags).toEqual(["y", "z ü'"]);
        for (const job of await claim({ max: 2 }))
          await store.settleIfLeased([aSettle(job, finish("completed"))]);
        expect([await tagged("x"), await tagged("y")]).toEqual([["b"], ["a"]]);
        await store.changeIf([
          aChange("a", ["completed"], { to: "deleted", event: "deleted" }),
          aChange("b", ["completed"], { to: "deleted", event: "deleted" }),
        ]);
        expect([await tagged("x"), await tagged("y"), await tagged("z ü'")]).toEqual([[], [], []]);
      },
    ],
    [
      "a new priority moves the job in the order and leaves its due time",
      async ({ store, submit, read, claim, platform }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b" }));
        platform.advance(5);
        await store.changeIf([
          aChange("b", ["ready"], { to: "same", event: "edited", rankBase: -500, rankSlope: 1 }),
        ]);
        expect(await read("b")).toMatchObject({ rank: startAt - 500, dueAt: startAt });
        expect((await claim()).map(({ id }) => id)).toEqual(["b", "a"]);
      },
    ],
    [
      "a reclaim takes a rung lease away, writes the log and leaves the fence for the next claim to exceed",
      async ({ store, lease, read, claim, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        platform.advance(1000);
        const guard = { states: ["running"] as JobState[], fence: leased.fence, rang: "lease" as const };
        const next = schedule(20, { event: "reclaimed" });
        expect(
          await store.changeIf([{ id: "a", cases: [{ guard, next, attempts: "crashed" }] }]),
        ).toMatchObject([{ kind: "ok" }]);
        expect(await read("a")).toMatchObject({
          state: "scheduled",
          attempts: "crashed",
          fence: leased.fence,
          leaseEndsAt: null,
        });
        platform.advance(20);
        await store.promoteDue({ max: 1 });
        expect(await claim()).toMatchObject([{ fence: leased.fence + 1, attempt: 2 }]);
      },
    ],
    [
      "a mark writes the attempt log it carries, and the worker's settle leaves it when it says nothing",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const guard = { states: ["running"] as JobState[], rev: 2 };
        expect(
          await store.changeIf([{ id: "a", cases: [{ guard, next: askCancel, attempts: "why" }] }]),
        ).toMatchObject([{ kind: "ok", state: "running" }]);
        expect(await read("a")).toMatchObject({ cancelAsked: true, attempts: "why", fence: leased.fence });
        await store.settleIfLeased([aSettle(leased, finish("cancelled"))]);
        expect(await read("a")).toMatchObject({ state: "cancelled", attempts: "why" });
      },
    ],
    [
      "an extended lease is not reclaimed",
      async ({ store, lease, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        platform.advance(900);
        await store.extendIfLeased({ owner: "w1", leaseMs: 1000, leases: [leased], wantsOthers: false });
        platform.advance(100);
        const reclaim = aChange("a", ["running"], schedule(0, { event: "reclaimed" }), { rang: "lease" });
        expect(await store.changeIf([reclaim])).toMatchObject([{ kind: "changed", state: "running" }]);
      },
    ],
    [
      "revoking a lease hands the job back at its old place",
      async ({ store, lease, read }) => {
        await lease(aJob({ id: "a" }));
        expect(await store.changeIf([aChange("a", ["running"], handBack)])).toMatchObject([
          { state: "ready", rev: 3 },
        ]);
        expect(await read("a")).toMatchObject({ rank: startAt, countsAttempt: 0, leaseEndsAt: null });
      },
    ],
    [
      "a replay brings a finished job back with its id, seq and a growing fence, in a new round of attempts",
      async ({ store, lease, read, claim, platform }) => {
        const job = aJob({ id: "a", tags: ["t"], input: "y".repeat(3000), deadline: { inMs: 100_000 } });
        const leased = await lease(job);
        await store.changeIf([aChange("a", ["running"], askCancel)]);
        await store.settleIfLeased([aSettle(leased, finish("failed", { keepMs: 500 }), { attempts: "log" })]);
        platform.advance(10);
        const answer = await store.changeIf([
          aChange("a", ["failed"], replay(5, { edit: { meta: "again" } })),
        ]);
        expect(answer).toEqual([{ kind: "ok", applied: 0, from: "failed", state: "scheduled", rev: 5 }]);
        expect(await read("a")).toMatchObject({
          ...{
            seq: 1,
            state: "scheduled",
            attempt: 0,
            attempts: "log",
            tags: ["t"],
            input: job.input,
            meta: "again",
          },
          ...{
            endedAt: null,
            reason: null,
            result: null,
            keepUntil: null,
            cancelAsked: false,
            createdAt: startAt,
          },
          deadlineAt: startAt + 100_000,
        });
        platform.advance(5);
        await store.promoteDue({ max: 1 });
        const [again] = await claim();
        expect(again).toMatchObject({ id: "a", attempt: 1, fence: leased.fence + 1 });
        expect(await store.settleIfLeased([aSettle(again!, finish())])).toEqual([{ kind: "ok" }]);
        expect((await read("a")).rev).toBe(8);
      },
    ],
    [
      "a replay may go on with the old attempt number, and drops a deadline that has passed",
      async ({ store, lease, read, claim, platform }) => {
        const leased = await lease(aJob({ id: "a", deadline: { inMs: 5 } }));
        await store.settleIfLeased([aSettle(leased, finish("failed"))]);
        platform.advance(5);
        const { attempt: _attempt, ...kept } = replay();
        await store.changeIf([aChange("a", ["failed"], kept)]);
        expect(await read("a")).toMatchObject({ state: "ready", attempt: 1, deadlineAt: null });
        expect(await claim()).toMatchObject([{ attempt: 2 }]);
      },
    ],
    [
      "a removed job is gone with everything it had, waiting or finished, and only its event remains",
      async ({ store, submit, lease, events }) => {
        await store.settleIfLeased([aSettle(await lease(aJob({ id: "done", tags: ["t"] })), finish())]);
        await submit(aJob({ id: "a", tags: ["t"], input: "z".repeat(3000), due: { inMs: 10 } }));
        expect(
          await store.changeIf([aChange("a", ["scheduled"], remove), aChange("done", ["completed"], remove)]),
        ).toEqual([
          { kind: "ok", applied: 0, from: "scheduled", state: null, rev: 2 },
          { kind: "ok", applied: 0, from: "completed", state: null, rev: 4 },
        ]);
        expect(await store.readJobs(["a", "done"])).toEqual([null, null]);
        const found = await store.findJobs({ filter: { tag: "t" }, max: 9, scanMax: 99, cursor: null });
        expect(found.jobs).toEqual([]);
        expect((await events("a")).at(-1)).toEqual({
          kind: "deleted",
          id: "a",
          rev: 2,
          route: aRoute(),
          state: null,
          attempt: 0,
          extra: null,
        });
        expect(await store.changeIf([aChange("a", ["scheduled"], remove)])).toEqual([{ kind: "gone" }]);
      },
    ],
    [
      "the id and the seq of a removed job: the id is free again, the seq is not given twice",
      async ({ store, submit, read }) => {
        await submit(aJob({ id: "a", digest: "d1" }));
        await store.changeIf([aChange("a", ["ready"], remove)]);
        expect(await submit(aJob({ id: "a", digest: "d2" }))).toMatchObject([{ hows: ["created"] }]);
        expect((await read("a")).seq).toBe(2);
      },
    ],
    [
      "the repeat of a change whose reply was lost is answered as already applied, whatever became of the job since",
      async ({ store, lease, claim, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.settleIfLeased([aSettle(leased, finish("failed"))]);
        const change = { ...aChange("a", ["failed"], replay()), token: "t1" };
        expect(await store.changeIf([change])).toMatchObject([{ kind: "ok", state: "ready" }]);
        expect(await store.changeIf([change])).toMatchObject([{ kind: "already", state: "ready" }]);
        const [again] = await claim();
        expect(await store.changeIf([change])).toMatchObject([{ kind: "already", state: "running" }]);
        expect(await store.changeIf([{ ...change, token: "t2" }])).toMatchObject([{ kind: "changed" }]);
        await store.settleIfLeased([aSettle(again!, finish())]);
        expect(await store.changeIf([change])).toMatchObject([{ kind: "already", state: "completed" }]);
        expect((await events("a")).filter(({ kind }) => kind === "replayed")).toHaveLength(1);
      },
    ],
  ],
};
