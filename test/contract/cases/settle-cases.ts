/** settleIfLeased: every next of a running attempt, under its fence, with what rides along. */
import { expect } from "vitest";
import {
  aChange,
  aDoc,
  aJob,
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

export const settleCases: ContractGroup = {
  about: "settleIfLeased",
  cases: [
    [
      "a completed job is finished with its result and keeps what is known of it",
      async ({ store, lease, read, platform }) => {
        const leased = await lease(
          aJob({ id: "a", tags: ["t"], policy: "{}", meta: "m", deadline: { inMs: 900 } }),
        );
        platform.advance(5);
        const settle = aSettle(leased, finish("completed", { result: "42", keepMs: 60 }), {
          attempts: "log",
        });
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "ok" }]);
        expect(await read("a")).toEqual({
          ...{
            id: "a",
            seq: 1,
            queue: "mail",
            name: "send",
            state: "completed",
            rev: 3,
            fence: leased.fence,
          },
          ...{
            attempt: 1,
            countsAttempt: 1,
            input: '"a"',
            policy: "{}",
            meta: "m",
            tags: ["t"],
            attempts: "log",
            ...{ laneKey: null, laneStep: null, laneGates: null, keepsLane: 0 },
            ...{ flow: null, edges: null, waits: null, durable: 0 },
          },
          ...{ progress: null, rank: startAt, createdAt: startAt, dueAt: startAt, deadlineAt: startAt + 900 },
          ...{
            ttlAt: null,
            uniqueKey: null,
            cancelAsked: false,
            owner: "w1",
            claimedAt: startAt,
            startedAt: null,
          },
          ...{ leaseEndsAt: null, attemptEndsAt: null, endedAt: startAt + 5, reason: null, result: "42" },
          keepUntil: startAt + 65,
        });
      },
    ],
    ...(["failed", "cancelled", "expired", "skipped"] as const).map(
      (to) =>
        [
          `a job may end ${to}, with its reason`,
          async ({ store, lease, read, events }) => {
            const settle = aSettle(await lease(aJob({ id: "a" })), finish(to, { reason: "why" }));
            expect(await store.settleIfLeased([settle])).toEqual([{ kind: "ok" }]);
            expect(await read("a")).toMatchObject({
              state: to,
              reason: "why",
              result: null,
              keepUntil: null,
            });
            expect((await events("a")).at(-1)).toMatchObject({ kind: to, state: to, extra: "why", rev: 3 });
          },
        ] satisfies ContractGroup["cases"][number],
    ),
    [
      "a job that is kept for no time leaves nothing but its event",
      async ({ store, lease, events }) => {
        const leased = await lease(aJob({ id: "a", tags: ["t"], input: "x".repeat(5000) }));
        await store.recordIfLeased([{ ...leased, logs: ["line"] }]);
        const settle = aSettle(leased, finish("completed", { keepMs: 0 }));
        expect(await store.settleIfLeased([settle, settle])).toEqual([{ kind: "ok" }, { kind: "gone" }]);
        expect(await store.readJobs(["a"])).toEqual([null]);
        expect((await store.readLogs({ id: "a", after: 0, max: 10 })).lines).toEqual([]);
        expect(await store.countJobs()).toEqual([]);
        expect((await events("a")).at(-1)).toMatchObject({ kind: "completed", state: "completed" });
      },
    ],
    [
      "a retry is scheduled for later, out of its lease, and claimable with the next attempt once promoted",
      async ({ store, lease, read, claim, platform }) => {
        const leased = await lease(aJob({ id: "a", ttlMs: 5000 }));
        const next = schedule(30, { rankBase: 9 });
        expect(await store.settleIfLeased([aSettle(leased, next, { attempts: "log-1" })])).toEqual([
          { kind: "ok" },
        ]);
        expect(await read("a")).toMatchObject({
          ...{ state: "scheduled", dueAt: startAt + 30, rank: startAt + 39, ttlAt: null, leaseEndsAt: null },
          ...{ owner: "w1", claimedAt: startAt, attempts: "log-1", attempt: 1, countsAttempt: 1, rev: 3 },
        });
        platform.advance(30);
        await store.promoteDue({ max: 1 });
        expect(await claim()).toMatchObject([
          { id: "a", attempt: 2, attempts: "log-1", dueAt: startAt + 30 },
        ]);
      },
    ],
    [
      "a retry that is due at once is ready at once",
      async ({ store, lease, read }) => {
        await store.settleIfLeased([aSettle(await lease(aJob({ id: "a" })), schedule(0))]);
        expect((await read("a")).state).toBe("ready");
      },
    ],
    [
      "a schedule may edit the job, set its attempt and start its time-to-live again",
      async ({ store, lease, read }) => {
        const next = schedule(10, { attempt: 5, ttlMs: 20, edit: { input: "2", policy: null, meta: "m2" } });
        await store.settleIfLeased([aSettle(await lease(aJob({ id: "a", policy: "{}" })), next)]);
        expect(await read("a")).toMatchObject({
          attempt: 5,
          ttlAt: startAt + 30,
          input: "2",
          policy: null,
          meta: "m2",
        });
      },
    ],
    [
      "a hand-back keeps due time and rank, so nobody jumps ahead and nobody falls behind",
      async ({ store, submit, claim, platform, read }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b" }));
        const [leased] = await claim({ max: 1 });
        platform.advance(500);
        await submit(aJob({ id: "c" }));
        await store.settleIfLeased([aSettle(leased!, handBack)]);
        expect(await read("a")).toMatchObject({
          state: "ready",
          dueAt: startAt,
          rank: startAt,
          countsAttempt: 0,
        });
        expect((await claim()).map(({ id }) => id)).toEqual(["a", "b", "c"]);
      },
    ],
    [
      "a repeated settle answers already, whatever became of the job since",
      async ({ store, lease, claim }) => {
        const settle = aSettle(await lease(aJob({ id: "a" })), schedule(0));
        expect(await store.settleIfLeased([settle, settle])).toEqual([{ kind: "ok" }, { kind: "already" }]);
        const [second] = await claim();
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "already" }]);
        const done = aSettle(second!, finish());
        expect(await store.settleIfLeased([done])).toEqual([{ kind: "ok" }]);
        expect(await store.settleIfLeased([done, settle])).toEqual([{ kind: "already" }, { kind: "stale" }]);
        await store.changeIf([aChange("a", ["completed"], replay())]);
        expect(await store.settleIfLeased([done])).toEqual([{ kind: "already" }]);
      },
    ],
    [
      "a settle with a fence of the past or the future is stale and changes nothing",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const before = await read("a");
        for (const fence of [leased.fence - 1, leased.fence + 1, 0]) {
          expect(await store.settleIfLeased([aSettle({ ...leased, fence }, finish())])).toEqual([
            { kind: "stale" },
          ]);
        }
        expect(await read("a")).toEqual(before);
      },
    ],
    [
      "a settle after the lease was reclaimed is stale, also when the next worker has not come yet",
      async ({ store, lease, claim, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        platform.advance(1000);
        const reclaim = aChange("a", ["running"], schedule(0, { event: "reclaimed" }), { rang: "lease" });
        expect(await store.changeIf([reclaim])).toMatchObject([{ kind: "ok" }]);
        expect(await store.settleIfLeased([aSettle(leased, finish())])).toEqual([{ kind: "stale" }]);
        const [second] = await claim();
        expect(await store.settleIfLeased([aSettle(leased, finish())])).toEqual([{ kind: "stale" }]);
        expect(await store.settleIfLeased([aSettle(second!, finish())])).toEqual([{ kind: "ok" }]);
      },
    ],
    [
      "a settle after somebody else ended the job is stale, not already: its result is not there",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.changeIf([aChange("a", ["running"], finish("expired", { reason: "deadline" }))]);
        const settle = aSettle(leased, finish("completed", { result: "1" }));
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "stale" }]);
        expect(await read("a")).toMatchObject({ state: "expired", result: null });
      },
    ],
    [
      "a settle of a job that was never there or was removed is gone",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.settleIfLeased([aSettle(leased, handBack)]);
        await store.changeIf([aChange("a", ["ready"], remove)]);
        const ghost = { id: "ghost", seq: 99, fence: leased.fence };
        expect(await store.settleIfLeased([aSettle(leased, finish()), aSettle(ghost, finish())])).toEqual([
          { kind: "gone" },
          { kind: "gone" },
        ]);
      },
    ],
    [
      "a lease with another seq is stale, and nobody's job is touched",
      async ({ store, submit, claim, read }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b" }));
        const [a, b] = await claim();
        const strayed = { ...a!, seq: b!.seq };
        const extended = await store.extendIfLeased({
          owner: "w1",
          leaseMs: 9000,
          leases: [strayed],
          wantsOthers: false,
        });
        expect(extended.answers).toEqual(["stale"]);
        expect(await store.recordIfLeased([{ ...strayed, progress: "a" }])).toEqual(["stale"]);
        expect(
          await store.settleIfLeased([aSettle(strayed, finish()), aSettle({ ...b!, seq: 77 }, finish())]),
        ).toEqual([{ kind: "stale" }, { kind: "stale" }]);
        for (const id of ["a", "b"])
          expect(await read(id)).toMatchObject({
            state: "running",
            progress: null,
            leaseEndsAt: startAt + 1000,
          });
      },
    ],
    [
      "a worker of a removed job's life cannot settle the job that got the same id",
      async ({ store, submit, lease, claim, read }) => {
        const past = await lease(aJob({ id: "a", digest: "d" }));
        await store.settleIfLeased([aSettle(past, handBack)]);
        await store.changeIf([aChange("a", ["ready"], remove)]);
        await submit(aJob({ id: "a", digest: "d" }));
        const [present] = await claim();
        expect(present!.fence).toBe(past.fence);
        expect(await store.settleIfLeased([aSettle(past, finish("completed", { result: "old" }))])).toEqual([
          { kind: "stale" },
        ]);
        expect((await read("a")).state).toBe("running");
        expect(
          await store.settleIfLeased([aSettle(present!, finish("completed", { result: "new" }))]),
        ).toEqual([{ kind: "ok" }]);
        expect(await store.settleIfLeased([aSettle(past, finish("completed", { result: "old" }))])).toEqual([
          { kind: "stale" },
        ]);
      },
    ],
    [
      "an expired lease that nobody reclaimed still settles",
      async ({ store, lease, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        platform.advance(60_000);
        expect(await store.settleIfLeased([aSettle(leased, finish())])).toEqual([{ kind: "ok" }]);
      },
    ],
    [
      "bad settles harm no good one in the same call",
      async ({ store, submit, claim, read }) => {
        await submit(...["a", "b", "c", "d"].map((id) => aJob({ id })));
        const [a, b, c, d] = await claim();
        const refused = { docs: [aDoc("x", "1", { guard: { version: 4 } })] };
        const answers = await store.settleIfLeased([
          aSettle(a!, finish()),
          aSettle({ ...b!, fence: b!.fence + 1 }, finish()),
          aSettle(c!, finish(), { effects: refused }),
          aSettle({ id: "ghost", seq: 9, fence: 1 }, finish()),
          aSettle(d!, schedule(5)),
        ]);
        expect(answers.map(({ kind }) => kind)).toEqual(["ok", "stale", "doc-changed", "gone", "ok"]);
        const states = await Promise.all(["a", "b", "c", "d"].map(async (id) => (await read(id)).state));
        expect(states).toEqual(["completed", "running", "running", "scheduled"]);
      },
    ],
    [
      "follow-up jobs and documents are written with the settle, and a repeat does not write them again",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const effects = {
          jobs: [aJob({ id: "b" }), aJob({ id: "c", due: { inMs: 9 } })],
          docs: [aDoc("d", "1")],
        };
        const settle = aSettle(leased, finish(), { effects });
        expect(await store.settleIfLeased([settle, settle])).toEqual([{ kind: "ok" }, { kind: "already" }]);
        expect([(await read("b")).state, (await read("c")).state]).toEqual(["ready", "scheduled"]);
        expect((await store.readDocs({ kind: "kv", ids: ["d"] })).docs).toMatchObject([
          { body: "1", version: 1 },
        ]);
      },
    ],
    [
      "a refused document guard undoes the whole settle: the job runs on and can be settled again",
      async ({ store, lease, read, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.putDocs([aDoc("d", "old")]);
        const before = [await read("a"), await events()];
        const effects = {
          jobs: [aJob({ id: "b" })],
          docs: [aDoc("e", "1"), aDoc("d", "1", { guard: "absent" as const })],
        };
        const settle = aSettle(leased, finish("completed", { keepMs: 0 }), { effects, attempts: "log" });
        expect(await store.settleIfLeased([settle])).toEqual([{ kind: "doc-changed", id: "d" }]);
        expect([await read("a"), await events()]).toEqual(before);
        expect(await store.readJobs(["b"])).toEqual([null]);
        expect((await store.readDocs({ kind: "kv", ids: ["e"] })).docs).toEqual([]);
        expect(await store.settleIfLeased([aSettle(leased, finish())])).toEqual([{ kind: "ok" }]);
      },
    ],
    [
      "a follow-up whose given id differs undoes the whole settle",
      async ({ store, submit, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await submit(aJob({ id: "order", digest: "d1" }));
        const effects = { jobs: [aJob({ id: "b" }), aJob({ id: "order", digest: "d2" })] };
        expect(await store.settleIfLeased([aSettle(leased, finish(), { effects })])).toEqual([
          { kind: "id-differs", id: "order" },
        ]);
        expect((await read("a")).state).toBe("running");
        expect(await store.readJobs(["b"])).toEqual([null]);
      },
    ],
    [
      "a job whose cancel was asked for must not wait again: only its end is applied",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.changeIf([aChange("a", ["running"], askCancel)]);
        const waits = [aSettle(leased, handBack), aSettle(leased, schedule(5))];
        expect(await store.settleIfLeased(waits)).toEqual([
          { kind: "cancel-asked" },
          { kind: "cancel-asked" },
        ]);
        expect(await store.settleIfLeased([aSettle({ ...leased, fence: 0 }, handBack)])).toEqual([
          { kind: "stale" },
        ]);
        expect(await read("a")).toMatchObject({ state: "running", cancelAsked: true });
        expect(await store.settleIfLeased([aSettle(leased, finish())])).toEqual([{ kind: "ok" }]);
      },
    ],
  ],
};
