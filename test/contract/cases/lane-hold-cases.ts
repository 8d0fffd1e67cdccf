/** Jobs that hold the gate of their group although they do not run: over a retry, and once they have failed. */
import { expect } from "vitest";
import { limitGateKey } from "../../../src/model/limits/gate.ts";
import { groupLane, keyedGate, laneStepOf, writeKeyUse } from "../../../src/model/routing/lane.ts";
import type { ClaimAnswer } from "../../../src/store/operations.ts";
import type { NewJob } from "../../../src/store/records.ts";
import type { PruneRequest } from "../../../src/store/upkeep.ts";
import {
  aChange,
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  finish,
  remove,
  replay,
  schedule,
} from "../../support/builders.ts";
import { auditAll, findAll, pruneAll } from "../../support/walk.ts";
import type { ContractGroup } from "../subject.ts";
import { byRank, claimFrom, claimOne, groupGate, grouped, ids, idsFrom } from "./laned-jobs.ts";

const byTurn = aRoute({ laneKey: "any", laneStep: 1 });
/** A job of a group of which one runs at a time, in the lane of those that take turns. */
const inTurn = (id: string, key: string): NewJob =>
  grouped(id, key, 1, { laneKey: groupLane("mail", key, "turn"), laneStep: laneStepOf(1) });
const holdOn = finish("failed", { keepsLane: true });
const oldFailures: PruneRequest = {
  ...{ what: "history", outcome: "failed", queue: null, exceptQueues: [] },
  ...{ olderThanMs: 0, max: 10, cursor: null },
};

export const laneHoldCases: ContractGroup = {
  about: "groups that are held",
  cases: [
    [
      "one of a group runs at a time, whichever of its lanes it stands in, in one claim and over several",
      async ({ submit, store }) => {
        const offers = [[byRank], [byTurn], [byRank]].map((routes) => ({ routes, max: 5 }));
        const claim = (among = offers): Promise<ClaimAnswer> => store.claim(aClaim({ offers: among }));
        const end = async ({ jobs }: ClaimAnswer): Promise<unknown> =>
          store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
        let round = 0;
        for (const isPut of [false, true]) {
          if (isPut) await store.putGates([aGate(groupGate("k"), { cap: 1 })]);
          for (const among of [offers, offers.toReversed(), offers.slice(1), offers.slice(0, 2)]) {
            round += 1;
            const [a, b, c] = ["a", "b", "c"].map((name) => `${name}${round}`) as [string, string, string];
            await submit(grouped(a, "k"), inTurn(b, "k"), grouped(c, "k"));
            const ended: string[] = [];
            while (ended.length < 3) {
              const answer = await claim(among);
              expect(answer.jobs).toHaveLength(1);
              expect((await claim(among)).jobs).toEqual([]);
              ended.push(...ids(answer.jobs));
              await end(answer);
            }
            expect(ended.filter((id) => id !== b)).toEqual([a, c]);
          }
        }
        expect(await auditAll(store)).toEqual({});
      },
    ],
    [
      "a lane that a claim wakes is met once, however many stand before it",
      async ({ submit, store }) => {
        const [x, y] = ["x", "y"].map((name) => limitGateKey(name)) as [string, string];
        const asking = (id: string, rankBase: number, ...gates: readonly string[]): NewJob =>
          aJob({
            ...{ id, rankBase, laneKey: `asks ${id}` },
            laneGates: gates.map((gate) => writeKeyUse({ key: keyedGate(gate, "k"), weight: 1, cap: null })),
          });
        await store.putGates([
          aGate(x, { perKey: { cap: 2, rate: null } }),
          aGate(y, { perKey: { cap: 1, rate: null } }),
        ]);
        await submit(asking("x1", 0, x), asking("x2", 0, x), asking("y1", 0, y));
        const held = (await claimFrom(store, [byRank])).jobs;
        expect(ids(held)).toEqual(["x1", "x2", "y1"]);
        // They wait at x. Its permits come back: two of them are looked at again, and the last when one of these goes
        // away.
        await submit(asking("a", 0, x, y), asking("b", 0, x, y), asking("last", 90, x));
        const keys = Array.from({ length: 12 }, (_, at) => `g${at}`);
        await submit(...keys.map((key) => grouped(`${key} runs`, key, 1, { rankBase: 10 })));
        await submit(...keys.map((key) => grouped(`${key} waits`, key, 1, { rankBase: 20 })));
        expect(await idsFrom(store, [byRank], 12)).toHaveLength(12);
        await store.settleIfLeased(held.slice(0, 2).map((job) => aSettle(job, finish())));
        expect(await idsFrom(store, [byRank], 3)).toEqual(["last"]);
      },
    ],
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
