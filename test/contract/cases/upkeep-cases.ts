/** prune and auditIndexes: what leaves, what stays, and that a healthy store needs no repair. */
import { expect } from "vitest";
import type { TerminalState } from "../../../src/model/job/job-state.ts";
import type { PruneRequest } from "../../../src/store/upkeep.ts";
import { aChange, aDoc, aJob, aRoute, aSettle, finish, remove, replay } from "../../support/builders.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import { auditAll, findAll, pruneAll, readWholeFeed } from "../../support/walk.ts";
import type { ContractGroup, Subject } from "../subject.ts";

const history = (outcome: TerminalState, olderThanMs: number, given: object = {}): PruneRequest => ({
  ...{ what: "history", outcome, queue: null, exceptQueues: [], olderThanMs, max: 100, cursor: null },
  ...given,
});

const surplus = (keep: number, given: object = {}): PruneRequest => ({
  ...{ what: "surplus", outcome: "completed", queue: "mail", keep, max: 100, cursor: null },
  ...given,
});

async function end(
  { store, lease }: Subject,
  id: string,
  to: TerminalState,
  keepMs: number | null = null,
  queue = "mail",
): Promise<void> {
  const leased = await lease(aJob({ id, queue, tags: ["t"], input: "i".repeat(3000), digest: "d" }));
  await store.recordIfLeased([{ ...leased, logs: ["line"] }]);
  await store.settleIfLeased([aSettle(leased, finish(to, { keepMs }))]);
}

async function left({ store }: Subject): Promise<string[]> {
  return (await findAll(store)).map(({ id }) => id).sort();
}

export const pruneCases: ContractGroup = {
  about: "prune",
  cases: [
    [
      "finished jobs of one outcome leave once they are old enough, on the very millisecond",
      async (subject) => {
        await end(subject, "old", "completed");
        await end(subject, "failed", "failed");
        subject.platform.advance(10);
        await end(subject, "young", "completed");
        await subject.submit(aJob({ id: "waiting" }));
        subject.platform.advance(90);
        expect(await pruneAll(subject.store, history("completed", 101))).toBe(0);
        expect(await pruneAll(subject.store, history("completed", 100))).toBe(1);
        expect(await left(subject)).toEqual(["failed", "waiting", "young"]);
      },
    ],
    [
      "a pruned job is gone with its journal, tags and id, and no event is emitted",
      async (subject) => {
        const { store, submit, events } = subject;
        await end(subject, "a", "completed");
        const before = await events();
        expect(await pruneAll(store, history("completed", 0))).toBe(1);
        expect(await events()).toEqual(before);
        expect(await store.readJobs(["a"])).toEqual([null]);
        expect((await store.readLogs({ id: "a", after: 0, max: 9 })).lines).toEqual([]);
        expect(await findAll(store, { tag: "t" })).toEqual([]);
        expect(await submit(aJob({ id: "a", digest: "other" }))).toMatchObject([{ hows: ["created"] }]);
      },
    ],
    [
      "history is pruned for one queue, or for every queue not excepted",
      async (subject) => {
        for (const queue of ["q1", "q2", "q3"]) await end(subject, queue, "completed", null, queue);
        expect(await pruneAll(subject.store, history("completed", 0, { queue: "q2" }))).toBe(1);
        expect(await pruneAll(subject.store, history("completed", 0, { exceptQueues: ["q1", "none"] }))).toBe(
          1,
        );
        expect(await left(subject)).toEqual(["q1"]);
      },
    ],
    [
      "small bites with a cursor remove everything in the end, and never more than a bite",
      async (subject) => {
        for (let index = 0; index < 7; index++)
          await end(subject, `j${index}`, index % 2 ? "failed" : "completed");
        expect(await pruneAll(subject.store, history("completed", 0, { max: 2 }))).toBe(4);
        expect(await left(subject)).toEqual(["j1", "j3", "j5"]);
      },
    ],
    [
      "a queue keeps N finished jobs of an outcome, and those that ended first go first, in bites of any size",
      async (subject) => {
        const { store, submit, claim, platform, read } = subject;
        const ids = ["a", "b", "c", "d", "e", "f", "g"];
        await submit(...ids.map((id) => aJob({ id })));
        const leased = new Map((await claim({ max: 7 })).map((each) => [each.id, each]));
        for (const id of ["c", "a", "g", "b", "f", "d", "e"]) {
          await store.settleIfLeased([aSettle(leased.get(id)!, finish("completed"))]);
          platform.advance(1);
        }
        expect(await pruneAll(store, surplus(7))).toBe(0);
        expect(await pruneAll(store, surplus(5, { max: 1 }))).toBe(2);
        expect(await left(subject)).toEqual(["b", "d", "e", "f", "g"]);
        expect(await pruneAll(store, surplus(2))).toBe(3);
        expect(await left(subject)).toEqual(["d", "e"]);
        await store.changeIf([aChange("d", ["completed"], replay())]);
        expect(await pruneAll(store, surplus(1))).toBe(0);
        expect((await read("d")).state).toBe("ready");
        expect(await auditAll(store)).toEqual({});
      },
    ],
    [
      "a count of one queue and outcome takes nothing of others, and a job with a time of its own counts and stays",
      async (subject) => {
        const { store } = subject;
        await end(subject, "own", "completed", 50);
        for (const id of ["m1", "m2"]) await end(subject, id, "completed");
        await end(subject, "failed", "failed");
        await end(subject, "other", "completed", null, "audio");
        expect(await pruneAll(store, surplus(2))).toBe(1);
        expect(await left(subject)).toEqual(["failed", "m2", "other", "own"]);
        expect(await pruneAll(store, surplus(0))).toBe(1);
        expect(await pruneAll(store, surplus(0, { queue: "none" }))).toBe(0);
        expect(await left(subject)).toEqual(["failed", "other", "own"]);
        expect(await store.readLogs({ id: "m2", after: 0, max: 9 })).toMatchObject({ lines: [] });
        expect(await findAll(store, { tag: "t", queue: "mail", states: ["completed"] })).toMatchObject([
          { id: "own" },
        ]);
      },
    ],
    [
      "what is too many later is found from where the last call stopped, and from the head once that is the end",
      async (subject) => {
        const { store } = subject;
        let cursor: string | null = null;
        for (let round = 0; round < 8; round++) {
          await end(subject, `j${round}`, "completed", null, round % 2 ? "mail" : "audio");
          const answer = await store.prune(surplus(2, { cursor }) as PruneRequest);
          cursor = answer.cursor;
        }
        expect(await left(subject)).toEqual(["j0", "j2", "j4", "j5", "j6", "j7"]);
      },
    ],
    [
      "a count is reached through more jobs of other queues than a call looks at, and the newest stay",
      async (subject) => {
        const { store, submit, claim, platform } = subject;
        for (const minute of [0, 1, 2]) {
          const ids = Array.from({ length: 500 }, (_, index) => `${minute}-${index}`);
          await submit(...ids.map((id, index) => aJob({ id, queue: index % 10 ? "audio" : "mail" })));
          const routes = ["mail", "audio"].map((queue) => aRoute(aJob({ id: "any", queue })));
          const leased = await claim({ offers: [{ routes, max: 500 }] });
          await store.settleIfLeased(leased.map((each) => aSettle(each, finish("completed"))));
          platform.advance(61_000);
        }
        expect(await pruneAll(store, surplus(7, { max: 20 }))).toBe(143);
        const stays = (await findAll(store, { queue: "mail" }, 500)).map(({ id }) => id);
        expect([stays.length, stays.every((id) => id.startsWith("2-"))]).toEqual([7, true]);
        expect((await findAll(store, { queue: "audio" }, 500)).length).toBe(1350);
      },
    ],
    [
      "a job with a keeping time of its own is left to that time, whatever the queue's retention says",
      async (subject) => {
        await end(subject, "own", "completed", 50);
        await end(subject, "queue", "completed");
        subject.platform.advance(49);
        expect(await pruneAll(subject.store, history("completed", 0))).toBe(1);
        expect(await pruneAll(subject.store, { what: "kept", max: 1 })).toBe(0);
        subject.platform.advance(1);
        expect(await pruneAll(subject.store, { what: "kept", max: 1 })).toBe(1);
        expect(await left(subject)).toEqual([]);
      },
    ],
    [
      "a result with a time of its own leaves on the very millisecond, and its job stays with all else, told by no event",
      async ({ store, platform, lease, read, events }) => {
        for (const [id, keepResultMs] of [
          ["short", 50],
          ["shorter", 40],
          ["plain", undefined],
        ] as const) {
          const ending = finish("completed", { result: "42", ...(keepResultMs && { keepResultMs }) });
          await store.settleIfLeased([aSettle(await lease(aJob({ id })), ending, { attempts: "log" })]);
        }
        const [before, emitted] = [await read("short"), await events()];
        platform.advance(39);
        expect(await pruneAll(store, { what: "kept", max: 1 })).toBe(0);
        platform.advance(11);
        expect(await pruneAll(store, { what: "kept", max: 1 })).toBe(2);
        expect(await read("short")).toEqual({ ...before, result: null });
        expect((await read("plain")).result).toBe("42");
        expect(await pruneAll(store, { what: "kept", max: 1 })).toBe(0);
        expect(await events()).toEqual(emitted);
        expect(await auditAll(store)).toEqual({});
      },
    ],
    [
      "the time of a result ends with the round of its job, and with the job",
      async ({ store, platform, lease, claim, read }) => {
        const ending = finish("completed", { result: "1", keepResultMs: 10 });
        await store.settleIfLeased([aSettle(await lease(aJob({ id: "again" })), ending)]);
        await store.changeIf([aChange("again", ["completed"], replay())]);
        const [again] = await claim();
        await store.settleIfLeased([aSettle(again!, finish("completed", { result: "2" }))]);
        await store.settleIfLeased([aSettle(await lease(aJob({ id: "deleted" })), ending)]);
        await store.changeIf([aChange("deleted", ["completed"], remove)]);
        platform.advance(100);
        expect(await pruneAll(store, { what: "kept", max: 5 })).toBe(0);
        expect((await read("again")).result).toBe("2");
      },
    ],
    [
      "endings of one call that differ in the times of their results alone keep each its own",
      async ({ store, platform, lease, read }) => {
        const settles = [];
        for (const [id, keepResultMs] of Object.entries({
          short: 10,
          long: 20,
          plain: undefined,
          late: 10,
        })) {
          const ending = finish("completed", { result: "42", ...(keepResultMs && { keepResultMs }) });
          settles.push(aSettle(await lease(aJob({ id })), ending));
        }
        await store.settleIfLeased(settles);
        platform.advance(10);
        expect(await pruneAll(store, { what: "kept", max: 5 })).toBe(2);
        expect((await read("long")).result).toBe("42");
        platform.advance(10);
        expect(await pruneAll(store, { what: "kept", max: 5 })).toBe(1);
        expect((await read("plain")).result).toBe("42");
      },
    ],
    [
      "unique keys and documents that have run out are removed, and nothing else",
      async ({ store, submit, platform }) => {
        const unique = (key: string, hold: number | "end") => ({
          unique: { key, hold, onHeld: "keep" as const },
        });
        await submit(
          aJob({ id: "a", ...unique("k1", 10) }),
          aJob({ id: "b", ...unique("k2", 20) }),
          aJob({ id: "c", ...unique("k3", "end") }),
        );
        await store.putDocs([
          aDoc("x", "1", { expiresInMs: 10 }),
          aDoc("y", "1", { expiresInMs: 20 }),
          aDoc("z", "1"),
        ]);
        platform.advance(10);
        expect(await pruneAll(store, { what: "expired", max: 1 })).toBe(2);
        expect(await pruneAll(store, { what: "expired", max: 10 })).toBe(0);
        const answers = await submit(
          aJob({ id: "d", ...unique("k2", 10) }),
          aJob({ id: "e", ...unique("k3", "end") }),
        );
        expect(answers).toMatchObject([{ ids: ["b"] }, { ids: ["c"] }]);
        expect((await store.readDocs({ kind: "kv", ids: ["x", "y", "z"] })).docs.map(({ id }) => id)).toEqual(
          ["y", "z"],
        );
        expect(await store.putDocs([aDoc("x", "2", { guard: "absent" })])).toEqual([
          { kind: "ok", version: 2 },
        ]);
      },
    ],
    [
      "old feed records leave but never the last one, and numbers go on",
      async ({ store, submit, platform }) => {
        for (const id of ["a", "b", "c"]) {
          await submit(aJob({ id }));
          platform.advance(10);
        }
        expect(await pruneAll(store, { what: "feed", olderThanMs: 30, max: 1 })).toBe(1);
        expect((await readWholeFeed(store)).map(({ number }) => number)).toEqual([2, 3]);
        expect(await pruneAll(store, { what: "feed", olderThanMs: 0, max: 9 })).toBe(1);
        expect(await store.readFeed({ after: 0, max: 9 })).toMatchObject({
          records: [{ number: 3 }],
          cursor: 3,
        });
        await submit(aJob({ id: "d" }));
        expect((await readWholeFeed(store)).map(({ number }) => number)).toEqual([3, 4]);
      },
    ],
    [
      "nothing to prune is not an error",
      async ({ store }) => {
        expect(await pruneAll(store, history("skipped", 0))).toBe(0);
        expect(await pruneAll(store, surplus(0))).toBe(0);
        expect(await pruneAll(store, { what: "kept", max: 5 })).toBe(0);
        expect(await pruneAll(store, { what: "expired", max: 5 })).toBe(0);
        expect(await pruneAll(store, { what: "feed", olderThanMs: 0, max: 5 })).toBe(0);
      },
    ],
  ],
};

export const auditCases: ContractGroup = {
  about: "auditIndexes",
  cases: [
    [
      "a healthy store needs no repair, and nothing is changed by looking, on pages of any size",
      async (subject) => {
        const { store, submit, lease } = subject;
        await end(subject, "done", "completed", 500);
        await lease(aJob({ id: "run", deadline: { inMs: 900 }, queue: "x" }));
        const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
        await submit(
          aJob({ id: "w", unique, ttlMs: 5 }),
          aJob({ id: "s", due: { inMs: 9 }, unique: { ...unique, key: "l", hold: 77 } }),
        );
        const before = [await findAll(store), await readWholeFeed(store), await store.countJobs()];
        for (const max of [1, 2, 100]) expect(await auditAll(store, max)).toEqual({});
        expect([await findAll(store), await readWholeFeed(store), await store.countJobs()]).toEqual(before);
      },
    ],
    [
      "an empty store needs no repair",
      async ({ store }) => {
        expect(await auditAll(store)).toEqual({});
        expect((await store.describe()).now).toBe(startAt);
      },
    ],
  ],
};
