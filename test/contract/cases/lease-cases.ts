/** extendIfLeased and recordIfLeased: what a running attempt may do besides settling, always under its fence. */
import { expect } from "vitest";
import { storeLimits } from "../../../src/store/contract-limits.ts";
import type { ExtendRequest } from "../../../src/store/operations.ts";
import type { LeaseRef } from "../../../src/store/records.ts";
import { aChange, aJob, aSettle, askCancel, finish, remove, schedule } from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../subject.ts";

const extend = (leases: ExtendRequest["leases"], given: Partial<ExtendRequest> = {}): ExtendRequest => ({
  owner: "w1",
  leaseMs: 1000,
  leases,
  wantsOthers: false,
  ...given,
});
const ref = ({ id, seq, fence }: LeaseRef): LeaseRef => ({ id, seq, fence });

export const extendCases: ContractGroup = {
  about: "extendIfLeased",
  cases: [
    [
      "a lease that is named ends later from now, without a new rev and without an event",
      async ({ store, lease, read, platform, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        const before = await events();
        platform.advance(700);
        const answer = await store.extendIfLeased(extend([ref(leased)], { leaseMs: 900 }));
        expect(answer).toEqual({ answers: ["ok"], others: [], now: startAt + 700 });
        expect(await read("a")).toMatchObject({ leaseEndsAt: startAt + 1600, rev: 2, startedAt: null });
        expect(await events()).toEqual(before);
      },
    ],
    [
      "a lease named twice in one call is extended in order: the second keeps what the first reported",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        const reported = { ...ref(leased), startedAgoMs: 0, attemptEndsInMs: 50 };
        expect((await store.extendIfLeased(extend([reported, ref(leased)]))).answers).toEqual(["ok", "ok"]);
        expect(await read("a")).toMatchObject({ startedAt: startAt, attemptEndsAt: startAt + 50 });
      },
    ],
    [
      "a lease that reaches further is not shortened",
      async ({ store, lease, read, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.extendIfLeased(extend([ref(leased)], { leaseMs: 3_600_000 }));
        platform.advance(100);
        expect((await store.extendIfLeased(extend([ref(leased)]))).answers).toEqual(["ok"]);
        expect((await read("a")).leaseEndsAt).toBe(startAt + 3_600_000);
      },
    ],
    [
      "the real start and the end of the attempt are written when they are reported, and stay else",
      async ({ store, lease, read, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        platform.advance(50);
        await store.extendIfLeased(extend([{ ...ref(leased), startedAgoMs: 20, attemptEndsInMs: 480 }]));
        expect(await read("a")).toMatchObject({ startedAt: startAt + 30, attemptEndsAt: startAt + 530 });
        await store.extendIfLeased(extend([ref(leased)]));
        expect(await read("a")).toMatchObject({ startedAt: startAt + 30, attemptEndsAt: startAt + 530 });
        await store.extendIfLeased(extend([{ ...ref(leased), attemptEndsInMs: null }]));
        expect(await read("a")).toMatchObject({ startedAt: startAt + 30, attemptEndsAt: null });
      },
    ],
    [
      "each lease of a call has its own answer, and a stale one harms no other",
      async ({ store, submit, claim, read }) => {
        await submit(...["a", "b", "c", "d", "e"].map((id) => aJob({ id })));
        const [a, b, c, d, e] = await claim();
        await store.settleIfLeased([aSettle(b!, finish()), aSettle(d!, schedule(100))]);
        await store.changeIf([aChange("c", ["running"], askCancel)]);
        const ghost = { id: "ghost", seq: 77, fence: 1 };
        const wrong = { ...ref(e!), fence: e!.fence + 1 };
        const leases = [ref(a!), ref(b!), ref(c!), ref(d!), ghost, wrong];
        const { answers } = await store.extendIfLeased(extend(leases, { leaseMs: 5000 }));
        expect(answers).toEqual(["ok", "stale", "cancel-asked", "stale", "gone", "stale"]);
        expect((await read("c")).leaseEndsAt).toBe(startAt + 5000);
        expect((await read("e")).leaseEndsAt).toBe(startAt + 1000);
      },
    ],
    [
      "a lease that has run out but was not reclaimed is extended, a reclaimed one is not",
      async ({ store, lease, read, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        platform.advance(2000);
        expect((await store.extendIfLeased(extend([ref(leased)]))).answers).toEqual(["ok"]);
        platform.advance(1000);
        await store.changeIf([
          aChange("a", ["running"], schedule(0, { event: "reclaimed" }), { rang: "lease" }),
        ]);
        expect((await store.extendIfLeased(extend([ref(leased)]))).answers).toEqual(["stale"]);
        expect(await read("a")).toMatchObject({ state: "ready", leaseEndsAt: null });
      },
    ],
    [
      "what else is mine: running jobs of the owner that were not named come as a claim would give them, not extended",
      async ({ store, submit, claim, read, platform }) => {
        await submit(...["a", "b", "c"].map((id) => aJob({ id })));
        const [a, b] = await claim({ max: 2 });
        await claim({ owner: "w2" });
        platform.advance(10);
        const { answers, others } = await store.extendIfLeased(extend([ref(a!)], { wantsOthers: true }));
        expect(answers).toEqual(["ok"]);
        expect(others).toEqual([b]);
        expect((await read("b")).leaseEndsAt).toBe(startAt + 1000);
        expect(
          (await store.extendIfLeased(extend([], { wantsOthers: true }))).others.map(({ id }) => id),
        ).toEqual(["a", "b"]);
        expect((await store.extendIfLeased(extend([]))).others).toEqual([]);
      },
    ],
    [
      "what else is mine: a job named with an old fence is handed out with its new one",
      async ({ store, lease, claim }) => {
        const first = await lease(aJob({ id: "a" }));
        await store.settleIfLeased([aSettle(first, schedule(0))]);
        const [second] = await claim();
        const { answers, others } = await store.extendIfLeased(extend([ref(first)], { wantsOthers: true }));
        expect(answers).toEqual(["stale"]);
        expect(others).toEqual([second]);
      },
    ],
  ],
};

export const recordCases: ContractGroup = {
  about: "recordIfLeased",
  cases: [
    [
      "progress replaces the last progress, without a new rev, and outlives the end",
      async ({ store, lease, read }) => {
        const leased = await lease(aJob({ id: "a" }));
        expect(await store.recordIfLeased([{ ...ref(leased), progress: "10" }])).toEqual(["ok"]);
        expect(await store.recordIfLeased([{ ...ref(leased), progress: "20" }])).toEqual(["ok"]);
        expect(await read("a")).toMatchObject({ progress: "20", rev: 2 });
        await store.settleIfLeased([aSettle(leased, finish())]);
        expect((await read("a")).progress).toBe("20");
      },
    ],
    [
      "log lines are numbered in order, readable from any number, live and finished, and leave with the job",
      async ({ store, lease, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([{ ...ref(leased), logs: ["one", "two"] }]);
        platform.advance(5);
        await store.recordIfLeased([{ ...ref(leased), logs: ["three"], progress: "1" }]);
        const lines = [
          { number: 1, at: startAt, body: "one" },
          { number: 2, at: startAt, body: "two" },
          { number: 3, at: startAt + 5, body: "three" },
        ];
        const journal = (after: number, max: number): Promise<unknown> =>
          store.readLogs({ id: "a", after, max });
        expect(await journal(0, 10)).toEqual({ lines, cursor: 3 });
        expect(await journal(1, 1)).toEqual({ lines: [lines[1]], cursor: 2 });
        expect(await journal(3, 10)).toEqual({ lines: [], cursor: 3 });
        await store.settleIfLeased([aSettle(leased, finish())]);
        expect(await journal(0, 10)).toEqual({ lines, cursor: 3 });
        await store.changeIf([aChange("a", ["completed"], remove)]);
        expect(await journal(0, 10)).toEqual({ lines: [], cursor: 0 });
        expect(await store.readLogs({ id: "ghost", after: 0, max: 1 })).toEqual({ lines: [], cursor: 0 });
      },
    ],
    [
      "a write under a superseded fence or without a lease is refused, and harms no other",
      async ({ store, submit, claim, read }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b" }), aJob({ id: "c" }));
        const [a, b] = await claim({ max: 2 });
        await store.settleIfLeased([aSettle(b!, finish())]);
        const writes = [
          { ...ref(a!), fence: a!.fence - 1, progress: "x", logs: ["x"] },
          { ...ref(b!), progress: "x" },
          { id: "c", seq: 3, fence: 0, progress: "x" },
          { id: "ghost", seq: 9, fence: 1, progress: "x" },
          { ...ref(a!), progress: "fine" },
        ];
        expect(await store.recordIfLeased(writes)).toEqual(["stale", "stale", "stale", "gone", "ok"]);
        expect([(await read("a")).progress, (await read("b")).progress]).toEqual(["fine", null]);
        expect((await store.readLogs({ id: "a", after: 0, max: 9 })).lines).toEqual([]);
      },
    ],
    [
      "a job that logs without end keeps its first lines, and the last one is what the caller says of the rest",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const max = storeLimits.logLinesPerJobMax;
        for (let call = 0; call < 4; call++) {
          const logs = Array.from({ length: max / 2 }, (_, index) => `${call * (max / 2) + index}`);
          expect(await store.recordIfLeased([{ ...ref(leased), logs, overflow: "too many" }])).toEqual([
            "ok",
          ]);
        }
        const { lines } = await store.readLogs({ id: "a", after: 0, max: max * 3 });
        expect(lines.length).toBeLessThanOrEqual(max + 1);
        expect(lines.slice(0, max - 1).map(({ body }) => body)).toEqual(
          Array.from({ length: max - 1 }, (_, index) => `${index}`),
        );
        expect(lines.at(-1)?.body).toBe("too many");
        expect(lines.map(({ number }) => number)).toEqual(lines.map((_, index) => index + 1));
      },
    ],
  ],
};
