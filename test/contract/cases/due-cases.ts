/** promoteDue (R5) and readDue: the clocks of jobs, and who hears them. */
import { expect } from "vitest";
import { aChange, aJob, aRoute, aSettle, askCancel, finish } from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import { readAllDue } from "../../support/walk.ts";
import type { ContractGroup } from "../subject.ts";

export const promoteCases: ContractGroup = {
  about: "promoteDue",
  cases: [
    [
      "a scheduled job becomes ready on the very millisecond it is due, not before",
      async ({ store, submit, read, platform, events }) => {
        await submit(aJob({ id: "a", due: { inMs: 10 } }));
        platform.advance(9);
        expect(await store.promoteDue({ max: 5 })).toEqual({ count: 0, more: false, nextDueInMs: 1 });
        platform.advance(1);
        expect(await store.promoteDue({ max: 5 })).toEqual({ count: 1, more: false, nextDueInMs: null });
        expect(await read("a")).toMatchObject({ state: "ready", rank: startAt + 10, rev: 2 });
        expect((await events("a")).at(-1)).toMatchObject({ kind: "promoted", state: "ready", extra: null });
      },
    ],
    [
      "the longest due come first, whatever their other clocks say, up to N, and more says that some are left",
      async ({ store, submit, read, platform }) => {
        await submit(
          aJob({ id: "c", due: { inMs: 30 }, deadline: { inMs: 1 } }),
          aJob({ id: "a", due: { inMs: 10 } }),
          aJob({ id: "b", due: { inMs: 20 } }),
          aJob({ id: "d", due: { inMs: 90 } }),
        );
        platform.advance(40);
        expect(await store.promoteDue({ max: 2 })).toEqual({ count: 2, more: true, nextDueInMs: 0 });
        const states = async (): Promise<string[]> =>
          Promise.all(["a", "b", "c", "d"].map(async (id) => (await read(id)).state));
        expect(await states()).toEqual(["ready", "ready", "scheduled", "scheduled"]);
        expect(await store.promoteDue({ max: 2 })).toEqual({ count: 1, more: false, nextDueInMs: 0 });
        expect(await states()).toEqual(["ready", "ready", "ready", "scheduled"]);
      },
    ],
    [
      "routes with due jobs share a call, so that a flood on one keeps no other waiting",
      async ({ store, submit, platform, read }) => {
        const flood = Array.from({ length: 30 }, (_, index) => aJob({ id: `f${index}`, due: { inMs: 10 } }));
        await submit(...flood);
        await submit(
          aJob({ id: "b", name: "b", due: { inMs: 20 } }),
          aJob({ id: "c", name: "c", due: { inMs: 21 } }),
          aJob({ id: "d", name: "d", due: { inMs: 90 } }),
        );
        platform.advance(30);
        expect(await store.promoteDue({ max: 12 })).toMatchObject({ count: 6, more: true, nextDueInMs: 0 });
        const states = async (...ids: string[]): Promise<string[]> =>
          Promise.all(ids.map(async (id) => (await read(id)).state));
        expect(await states("b", "c", "d", "f3", "f4")).toEqual([
          "ready",
          "ready",
          "scheduled",
          "ready",
          "scheduled",
        ]);
        expect(await store.promoteDue({ max: 12 })).toMatchObject({ count: 12, more: true });
        expect(await store.promoteDue({ max: 14 })).toMatchObject({
          count: 14,
          more: false,
          nextDueInMs: 60,
        });
      },
    ],
    [
      "more routes with due jobs than a call may promote take their turn by the longest due",
      async ({ store, submit, platform, read }) => {
        for (const [index, name] of ["z", "y", "x"].entries())
          await submit(aJob({ id: name, name, due: { inMs: 10 + index } }));
        platform.advance(50);
        expect(await store.promoteDue({ max: 2 })).toMatchObject({ count: 2, more: true });
        expect((await read("x")).state).toBe("scheduled");
        expect(await store.promoteDue({ max: 2 })).toMatchObject({ count: 1, more: false });
      },
    ],
    [
      "the place in the order is the due time's, whenever the promotion came",
      async ({ store, submit, claim, platform }) => {
        await submit(aJob({ id: "late", due: { inMs: 20 } }), aJob({ id: "early", due: { inMs: 10 } }));
        platform.advance(15);
        await submit(aJob({ id: "fresh" }));
        platform.advance(10);
        await store.promoteDue({ max: 9 });
        expect((await claim()).map(({ id }) => id)).toEqual(["early", "fresh", "late"]);
      },
    ],
    [
      "rung leases and deadlines do not keep the promoter from what is due behind them",
      async ({ store, submit, lease, read, platform }) => {
        await lease(aJob({ id: "r" }), { leaseMs: 5 });
        await submit(aJob({ id: "x", deadline: { inMs: 6 } }), aJob({ id: "a", due: { inMs: 10 } }));
        platform.advance(20);
        expect(await store.promoteDue({ max: 1 })).toMatchObject({ count: 1 });
        expect((await read("a")).state).toBe("ready");
      },
    ],
    [
      "rescheduled, cancelled and already ready jobs are not promoted",
      async ({ store, submit, platform }) => {
        await submit(aJob({ id: "a", due: { inMs: 5 } }), aJob({ id: "b" }));
        await store.changeIf([aChange("a", ["scheduled"], finish("cancelled"))]);
        platform.advance(5);
        expect(await store.promoteDue({ max: 5 })).toMatchObject({ count: 0 });
      },
    ],
  ],
};

export const readDueCases: ContractGroup = {
  about: "readDue",
  cases: [
    [
      "a rung lease comes with all that the model needs to decide",
      async ({ store, lease, platform }) => {
        const leased = await lease(aJob({ id: "a", policy: "{}" }), { leaseMs: 100 });
        await store.changeIf([aChange("a", ["running"], askCancel)]);
        await store.extendIfLeased({
          owner: "w1",
          leaseMs: 100,
          leases: [{ ...leased, startedAgoMs: 0 }],
          wantsOthers: false,
        });
        platform.advance(99);
        const request = { clock: "lease", max: 5, cursor: null } as const;
        expect(await store.readDue(request)).toEqual({
          jobs: [],
          cursor: null,
          now: startAt + 99,
          nextInMs: 1,
        });
        platform.advance(8);
        expect(await store.readDue(request)).toEqual({
          jobs: [
            {
              ...{
                id: "a",
                seq: 1,
                fence: leased.fence,
                route: aRoute(),
                state: "running",
                rev: 3,
                attempt: 1,
                policy: "{}",
              },
              ...{ attempts: null, owner: "w1", cancelAsked: true, started: true, lateMs: 7, durable: 0 },
            },
          ],
          cursor: null,
          now: startAt + 107,
          nextInMs: 0,
        });
      },
    ],
    [
      "each clock is read apart: lease and attempt while running, deadline while alive, time-to-live before the first start",
      async ({ store, submit, lease, platform }) => {
        const leased = await lease(aJob({ id: "run", ttlMs: 5, deadline: { inMs: 40 } }), { leaseMs: 30 });
        const ends = { ...leased, attemptEndsInMs: 20 };
        await store.extendIfLeased({ owner: "w1", leaseMs: 30, leases: [ends], wantsOthers: false });
        await submit(
          aJob({ id: "wait", ttlMs: 25 }),
          aJob({ id: "later", due: { inMs: 90 }, deadline: { inMs: 35 } }),
        );
        platform.advance(50);
        const rung = async (clock: "lease" | "attempt" | "deadline" | "ttl"): Promise<unknown> =>
          (await readAllDue(store, clock)).map(({ id, lateMs, started }) => [id, lateMs, started]);
        expect(await rung("lease")).toEqual([["run", 20, false]]);
        expect(await rung("attempt")).toEqual([["run", 30, false]]);
        expect(await rung("ttl")).toEqual([["wait", 25, false]]);
        expect(await rung("deadline")).toEqual([
          ["run", 10, false],
          ["later", 15, false],
        ]);
      },
    ],
    [
      "pages of any size give every rung job once, the earliest clock first, and end",
      async ({ store, submit, claim, platform }) => {
        await submit(
          ...Array.from({ length: 7 }, (_, index) =>
            aJob({ id: `j${index}`, deadline: { inMs: 5 + ((index * 3) % 7) } }),
          ),
        );
        await claim({ max: 2 });
        platform.advance(5000);
        const order = (await readAllDue(store, "deadline")).map(({ id }) => id);
        expect(order).toEqual(["j0", "j5", "j3", "j1", "j6", "j4", "j2"]);
        for (const max of [1, 2, 3, 7]) {
          expect((await readAllDue(store, "deadline", max)).map(({ id }) => id)).toEqual(order);
        }
      },
    ],
    [
      "many due jobs of one kind do not hide a rung clock of another kind behind them",
      async ({ store, submit, lease, platform }) => {
        await submit(
          ...Array.from({ length: 300 }, (_, index) => aJob({ id: `s${index}`, due: { inMs: 1 } })),
        );
        await lease(aJob({ id: "a", name: "other" }), { leaseMs: 50 });
        platform.advance(100);
        expect((await readAllDue(store, "lease", 10)).map(({ id }) => id)).toEqual(["a"]);
      },
    ],
    [
      "finished jobs have no clocks",
      async ({ store, lease, platform }) => {
        const leased = await lease(aJob({ id: "a", deadline: { inMs: 5 } }));
        await store.settleIfLeased([aSettle(leased, finish())]);
        platform.advance(10_000);
        for (const clock of ["lease", "attempt", "deadline", "ttl"] as const)
          expect(await readAllDue(store, clock)).toEqual([]);
        expect(await store.promoteDue({ max: 1 })).toEqual({ count: 0, more: false, nextDueInMs: null });
      },
    ],
  ],
};
