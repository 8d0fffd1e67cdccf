/** submit: what becomes of a new job, what a unit is, and what repeating one means. */
import { expect } from "vitest";
import { aDoc, aJob, aSettle, finish } from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../subject.ts";

export const submitCases: ContractGroup = {
  about: "submit",
  cases: [
    [
      "a job that is due at once is ready, with every field as it was given",
      async ({ submit, read }) => {
        const job = aJob({ id: "a", policy: '{"attempts":2}', meta: "{}", tags: ["t1", "t2"], rankBase: 7 });
        expect(await submit(job)).toEqual([{ kind: "ok", ids: ["a"], hows: ["created"] }]);
        expect(await read("a")).toEqual({
          id: "a",
          seq: 1,
          queue: "mail",
          name: "send",
          state: "ready",
          rev: 1,
          fence: 0,
          attempt: 0,
          countsAttempt: 1,
          input: '"a"',
          policy: '{"attempts":2}',
          meta: "{}",
          tags: ["t1", "t2"],
          attempts: null,
          ...{ laneKey: null, laneStep: null, laneGates: null, keepsLane: 0 },
          ...{ flow: null, edges: null, waits: null },
          progress: null,
          rank: startAt + 7,
          createdAt: startAt,
          dueAt: startAt,
          deadlineAt: null,
          durable: 0,
          ttlAt: null,
          uniqueKey: null,
          cancelAsked: false,
          owner: null,
          claimedAt: null,
          startedAt: null,
          leaseEndsAt: null,
          attemptEndsAt: null,
          endedAt: null,
          reason: null,
          result: null,
          keepUntil: null,
        });
      },
    ],
    [
      "a job that is due later is scheduled, and its deadline and time-to-live count from where they should",
      async ({ submit, read }) => {
        await submit(aJob({ id: "a", due: { inMs: 50 }, deadline: { inMs: 70 }, ttlMs: 30 }));
        const { state, dueAt, deadlineAt, ttlAt, rank } = await read("a");
        expect({ state, dueAt, deadlineAt, ttlAt, rank }).toEqual({
          state: "scheduled",
          dueAt: startAt + 50,
          deadlineAt: startAt + 70,
          ttlAt: startAt + 80,
          rank: startAt + 50,
        });
      },
    ],
    [
      "an instant that the caller named is taken as it is, also one in the past",
      async ({ submit, read }) => {
        await submit(aJob({ id: "a", due: { at: 5 } }), aJob({ id: "b", due: { at: startAt + 5 } }));
        expect(await read("a")).toMatchObject({ state: "ready", dueAt: 5, rank: 5 });
        expect(await read("b")).toMatchObject({ state: "scheduled", dueAt: startAt + 5 });
      },
    ],
    [
      "seqs are given in the order of submission over units and calls",
      async ({ store, submit, read }) => {
        await store.submit([{ jobs: [aJob({ id: "z" }), aJob({ id: "y" })] }, { jobs: [aJob({ id: "x" })] }]);
        await submit(aJob({ id: "a" }));
        const jobs = await Promise.all(["z", "y", "x", "a"].map(read));
        expect(jobs.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
      },
    ],
    [
      "a thousand jobs in one unit and a large input arrive whole",
      async ({ store, read }) => {
        const jobs = Array.from({ length: 1000 }, (_, index) => aJob({ id: `j${index}` }));
        const large = JSON.stringify("ü".repeat(200_000));
        const [many, one] = await store.submit([{ jobs }, { jobs: [aJob({ id: "large", input: large })] }]);
        expect(many).toEqual({ kind: "ok", ids: jobs.map(({ id }) => id), hows: jobs.map(() => "created") });
        expect(one?.kind).toBe("ok");
        expect((await read("large")).input).toBe(large);
        expect((await read("j999")).seq).toBe(1000);
      },
    ],
    [
      "a repeat of a unit that happened answers existing and changes nothing",
      async ({ store, submit, read, events }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b" }));
        const before = await events();
        const again = { jobs: [aJob({ id: "a" }), aJob({ id: "b" })], isRepeat: true };
        expect(await store.submit([again])).toEqual([
          { kind: "ok", ids: ["a", "b"], hows: ["existing", "existing"] },
        ]);
        expect(await events()).toEqual(before);
        expect((await read("a")).rev).toBe(1);
      },
    ],
    [
      "a repeat of a unit that did not happen makes the jobs",
      async ({ store }) => {
        const unit = { jobs: [aJob({ id: "a" })], isRepeat: true };
        expect(await store.submit([unit])).toEqual([{ kind: "ok", ids: ["a"], hows: ["created"] }]);
      },
    ],
    [
      "a repeat also knows a job that has finished meanwhile",
      async ({ store, lease }) => {
        await store.settleIfLeased([aSettle(await lease(aJob({ id: "a" })), finish())]);
        const unit = { jobs: [aJob({ id: "a" })], isRepeat: true };
        expect(await store.submit([unit])).toEqual([{ kind: "ok", ids: ["a"], hows: ["existing"] }]);
      },
    ],
    [
      "a repeat does not put the documents of its unit again",
      async ({ store }) => {
        const unit = { jobs: [aJob({ id: "a" })], docs: [aDoc("d", "1", { guard: "absent" })] };
        await store.submit([unit]);
        expect(await store.submit([{ ...unit, isRepeat: true }])).toMatchObject([
          { kind: "ok", hows: ["existing"] },
        ]);
        expect((await store.readDocs({ kind: "kv", ids: ["d"] })).docs).toMatchObject([{ version: 1 }]);
      },
    ],
    [
      "a repeat whose job would only meet the holder of its key has not happened: its documents are put",
      async ({ store }) => {
        const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
        await store.submit([{ jobs: [aJob({ id: "holder", unique })] }]);
        const unit = { jobs: [aJob({ id: "a", unique })], docs: [aDoc("d", "1")], isRepeat: true };
        expect(await store.submit([unit])).toEqual([{ kind: "ok", ids: ["holder"], hows: ["existing"] }]);
        expect((await store.readDocs({ kind: "kv", ids: ["d"] })).docs).toMatchObject([{ body: "1" }]);
      },
    ],
    [
      "a repeat whose job kept nothing but still holds its key by time has happened: its documents are not put again",
      async ({ store, lease }) => {
        const job = aJob({ id: "a", unique: { key: "k", hold: 60_000, onHeld: "keep" } });
        await store.settleIfLeased([aSettle(await lease(job), finish("completed", { keepMs: 0 }))]);
        const unit = { jobs: [job], docs: [aDoc("d", "1")], isRepeat: true };
        expect(await store.submit([unit])).toEqual([{ kind: "ok", ids: ["a"], hows: ["existing"] }]);
        expect((await store.readDocs({ kind: "kv", ids: ["d"] })).docs).toEqual([]);
      },
    ],
    [
      "a caller-given id with an equal digest is the same job, live and finished",
      async ({ store, submit, lease }) => {
        const job = aJob({ id: "order-1", digest: "d1" });
        const leased = await lease(job);
        expect(await submit(job)).toEqual([{ kind: "ok", ids: ["order-1"], hows: ["existing"] }]);
        await store.settleIfLeased([aSettle(leased, finish())]);
        expect(await submit(job)).toEqual([{ kind: "ok", ids: ["order-1"], hows: ["existing"] }]);
      },
    ],
    [
      "a caller-given id with another digest is refused, live and finished, and harms no other unit of the call",
      async ({ store, submit, lease, read }) => {
        const leased = await lease(aJob({ id: "order-1", digest: "d1" }));
        const other = aJob({ id: "order-1", digest: "d2", input: "2" });
        const refused = { kind: "refused", reason: "id-differs", id: "order-1" };
        const created = (id: string): object => ({ kind: "ok", ids: [id], hows: ["created"] });
        expect(await submit(aJob({ id: "a" }), other, aJob({ id: "b" }))).toEqual([
          created("a"),
          refused,
          created("b"),
        ]);
        await store.settleIfLeased([aSettle(leased, finish())]);
        expect(await submit(other, aJob({ id: "c" }))).toEqual([refused, created("c")]);
        expect((await read("order-1")).input).toBe('"order-1"');
      },
    ],
    [
      "a caller-given id that a minted job has is refused",
      async ({ submit }) => {
        await submit(aJob({ id: "a" }));
        expect(await submit(aJob({ id: "a", digest: "d" }))).toMatchObject([
          { kind: "refused", reason: "id-differs" },
        ]);
      },
    ],
    [
      "a unit is written whole or not at all",
      async ({ store, submit }) => {
        await submit(aJob({ id: "order-1", digest: "d1" }));
        const bad = { jobs: [aJob({ id: "a" }), aJob({ id: "order-1", digest: "d2" }), aJob({ id: "b" })] };
        expect(await store.submit([bad])).toEqual([{ kind: "refused", reason: "id-differs", id: "order-1" }]);
        expect(await store.readJobs(["a", "b"])).toEqual([null, null]);
      },
    ],
    [
      "jobs of one unit that share a caller-given id are one job, or refused when they differ",
      async ({ store }) => {
        const job = aJob({ id: "x", digest: "d" });
        expect(await store.submit([{ jobs: [job, job] }])).toEqual([
          { kind: "ok", ids: ["x", "x"], hows: ["created", "existing"] },
        ]);
        const differs = { jobs: [aJob({ id: "y", digest: "d" }), aJob({ id: "y", digest: "e" })] };
        expect(await store.submit([differs])).toMatchObject([
          { kind: "refused", reason: "id-differs", id: "y" },
        ]);
        expect(await store.readJobs(["y"])).toEqual([null]);
      },
    ],
    [
      "the documents of a unit are put with its jobs",
      async ({ store }) => {
        const docs = [aDoc("d1", "one", { guard: "absent" }), aDoc("d2", "two")];
        expect(await store.submit([{ jobs: [aJob({ id: "a" })], docs }])).toMatchObject([{ kind: "ok" }]);
        const read = await store.readDocs({ kind: "kv", ids: ["d1", "d2"] });
        expect(read.docs.map(({ id, body, version }) => [id, body, version])).toEqual([
          ["d1", "one", 1],
          ["d2", "two", 1],
        ]);
      },
    ],
    [
      "a unit whose document guard does not hold is refused whole, and the next unit is not",
      async ({ store }) => {
        await store.putDocs([aDoc("d", "old")]);
        const bad = {
          jobs: [aJob({ id: "a" })],
          docs: [aDoc("e", "new"), aDoc("d", "x", { guard: { version: 9 } })],
        };
        const answers = await store.submit([bad, { jobs: [aJob({ id: "b" })] }]);
        expect(answers).toEqual([
          { kind: "refused", reason: "doc-changed", id: "d" },
          { kind: "ok", ids: ["b"], hows: ["created"] },
        ]);
        expect(await store.readJobs(["a"])).toEqual([null]);
        expect((await store.readDocs({ kind: "kv", ids: ["d", "e"] })).docs).toMatchObject([
          { id: "d", body: "old" },
        ]);
      },
    ],
  ],
};
