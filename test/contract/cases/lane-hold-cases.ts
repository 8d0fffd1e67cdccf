/** Jobs that hold the gate of their group although they do not run: over a retry, and once they have failed. */
import { expect } from "vitest";
import type { PruneRequest } from "../../../src/store/upkeep.ts";
import { aChange, aSettle, finish, remove, replay, schedule } from "../../support/builders.ts";
import { auditAll, findAll, pruneAll } from "../../support/walk.ts";
import type { ContractGroup } from "../subject.ts";
import { byRank, claimFrom, claimOne, groupGate, grouped, ids, idsFrom } from "./laned-jobs.ts";

const holdOn = finish("failed", { keepsLane: true });
const oldFailures: PruneRequest = {
  ...{ what: "history", outcome: "failed", queue: null, exceptQueues: [] },
  ...{ olderThanMs: 0, max: 10, cursor: null },
};

export const laneHoldCases: ContractGroup = {
  about: "groups that are held",
  cases: [
    [
      "a job that waits for its retry holds its key where it says so, and is the first again",
      async ({ submit, store, platform, read }) => {
        await submit(grouped("a", "k"), grouped("b", "k"));
        const { rank } = await read("a");
        await store.settleIfLeased([
          aSettle(await claimOne(store, [byRank]), schedule(50, { keepsLane: true })),
        ]);
        expect(await read("a")).toMatchObject({ state: "scheduled", keepsLane: 1, rank });
        expect(await idsFrom(store, [byRank])).toEqual([]);
        platform.advance(50);
        await store.promoteDue({ max: 5 });
        expect(await read("a")).toMatchObject({ state: "ready", keepsLane: 0, rank });
        expect(await idsFrom(store, [byRank])).toEqual(["a"]);
      },
    ],
    [
      "a key that is held over a retry is freed when the waiting job is cancelled, removed or rescheduled",
      async ({ submit, store }) => {
        for (const [key, next] of [
          ["k", finish("cancelled")],
          ["l", remove],
          ["m", schedule(90_000)],
        ] as const) {
          await submit(grouped(`${key}1`, key), grouped(`${key}2`, key));
          await store.settleIfLeased([
            aSettle(await claimOne(store, [byRank]), schedule(50, { keepsLane: true })),
          ]);
          expect(await idsFrom(store, [byRank])).toEqual([]);
          await store.changeIf([aChange(`${key}1`, ["scheduled"], next)]);
          expect(await idsFrom(store, [byRank])).toEqual([`${key}2`]);
        }
      },
    ],
    [
      "a failed job holds its key on where it says so, and nobody of its key is claimed until it is removed",
      async ({ submit, store, read }) => {
        await submit(grouped("a", "k"), grouped("b", "k"), grouped("x", "other"));
        await store.settleIfLeased([aSettle(await claimOne(store, [byRank]), holdOn)]);
        expect(await read("a")).toMatchObject({ state: "failed", keepsLane: 1, keepUntil: null });
        expect(await idsFrom(store, [byRank])).toEqual(["x"]);
        const { gates } = await store.readGates({ keys: [groupGate("k")] });
        expect(gates).toMatchObject([{ held: 1 }]);
        expect(await auditAll(store)).toEqual({});
        await store.changeIf([aChange("a", ["failed"], remove)]);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
        expect(await auditAll(store)).toEqual({});
      },
    ],
    [
      "a failed job that holds its key comes back as the first of it, and holds it while its replay waits",
      async ({ submit, store, platform, read }) => {
        await submit(grouped("a", "k"), grouped("b", "k"));
        const { rank } = await read("a");
        await store.settleIfLeased([aSettle(await claimOne(store, [byRank]), holdOn)]);
        platform.advance(10);
        await store.changeIf([aChange("a", ["failed"], replay(50))]);
        expect(await read("a")).toMatchObject({ state: "scheduled", keepsLane: 1, rank });
        expect(await idsFrom(store, [byRank])).toEqual([]);
        platform.advance(50);
        await store.promoteDue({ max: 5 });
        const a = await claimOne(store, [byRank]);
        expect(a.id).toBe("a");
        await store.settleIfLeased([aSettle(a, holdOn)]);
        await store.changeIf([aChange("a", ["failed"], replay(0))]);
        expect(await read("a")).toMatchObject({ state: "ready", keepsLane: 0, rank });
        await store.settleIfLeased([aSettle(await claimOne(store, [byRank]), finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
      },
    ],
    [
      "a failed job that holds its key is pruned by nobody, and found among those that do",
      async ({ submit, store, platform }) => {
        await submit(grouped("a", "k"), grouped("b", "l"), grouped("c", "k"));
        const { jobs } = await claimFrom(store, [byRank]);
        await store.settleIfLeased([aSettle(jobs[0]!, holdOn), aSettle(jobs[1]!, finish("failed"))]);
        platform.advance(100);
        expect(ids(await findAll(store, { keepsLane: true }))).toEqual(["a"]);
        expect(ids(await findAll(store, { keepsLane: true, states: ["failed"] }))).toEqual(["a"]);
        expect(ids(await findAll(store, { keepsLane: true, states: ["scheduled"] }))).toEqual([]);
        await pruneAll(store, { what: "kept", max: 10 });
        await pruneAll(store, oldFailures);
        expect(ids(await findAll(store, { states: ["failed"] }))).toEqual(["a"]);
        expect(await idsFrom(store, [byRank])).toEqual([]);
      },
    ],
    [
      "a retry that keeps nothing lets the next of its key pass, and comes back behind it",
      async ({ submit, store, platform }) => {
        await submit(grouped("a", "k"), grouped("b", "k"));
        await store.settleIfLeased([aSettle(await claimOne(store, [byRank]), schedule(50))]);
        const b = await claimOne(store, [byRank]);
        expect(b.id).toBe("b");
        platform.advance(50);
        await store.promoteDue({ max: 5 });
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.settleIfLeased([aSettle(b, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["a"]);
      },
    ],
  ],
};
