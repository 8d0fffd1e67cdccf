/** The output of jobs: chunks of frames that a running attempt writes under its fence, and their reads. */
import { expect } from "vitest";
import type { FrameChunk, FramePlace, FramesPut, LeasedJob, LeaseRef } from "../../../src/store/records.ts";
import type { Store } from "../../../src/store/store.ts";
import type { LeasedWrite } from "../../../src/store/operations.ts";
import { aChange, aJob, aSettle, finish, remove, schedule } from "../../support/builders.ts";
import { pruneAll } from "../../support/walk.ts";
import { startAt } from "../../support/virtual/held-platform.ts";
import type { ContractGroup, Subject } from "../subject.ts";

const start: FramePlace = { fence: 0, number: 0 };

export const aFramesWrite = (
  { id, seq, fence }: LeaseRef,
  numbers: readonly number[],
  given: Partial<FramesPut> = {},
): LeasedWrite => ({
  ...{ id, seq, fence },
  frames: { chunks: numbers.map((number) => ({ number, body: `${fence}/${number}` })), ...given },
});

async function readAt(store: Store, id: string, after: FramePlace | null = start, max = 99) {
  const [answer] = await store.readFrames([{ id, after, max }]);
  if (answer?.kind !== "ok") throw new Error(`the output of ${id} is ${answer?.kind}`);
  return answer;
}

const bodiesOf = async (store: Store, id: string): Promise<readonly string[]> =>
  (await readAt(store, id)).chunks.map(({ body }) => body);

/** The job comes back and is claimed again. */
async function leaseAgain({ store, claim }: Subject, leased: LeasedJob): Promise<LeasedJob> {
  expect(await store.settleIfLeased([aSettle(leased, schedule(0))])).toEqual([{ kind: "ok" }]);
  const [again] = await claim();
  expect(again?.fence).toBeGreaterThan(leased.fence);
  return again as LeasedJob;
}

export const frameCases: ContractGroup = {
  about: "output frames",
  cases: [
    [
      "chunks are read in order, from any place, live and finished, and leave with the job",
      async ({ store, lease, platform }) => {
        const leased = await lease(aJob({ id: "a" }));
        const { fence } = leased;
        expect(await store.recordIfLeased([{ ...aFramesWrite(leased, [2, 5]), logs: ["line"] }])).toEqual([
          "ok",
        ]);
        platform.advance(5);
        expect(await store.recordIfLeased([aFramesWrite(leased, [6], { summary: "s" })])).toEqual(["ok"]);
        const chunk = (number: number, at: number): FrameChunk => ({
          fence,
          number,
          at,
          body: `${fence}/${number}`,
        });
        const all = [chunk(2, startAt), chunk(5, startAt), chunk(6, startAt + 5)];
        expect(await readAt(store, "a")).toEqual({ kind: "ok", chunks: all, summary: "s", ended: null });
        expect((await readAt(store, "a", start, 2)).chunks).toEqual(all.slice(0, 2));
        expect((await readAt(store, "a", { fence, number: 3 })).chunks).toEqual(all.slice(1));
        expect((await readAt(store, "a", { fence, number: 5 }, 1)).chunks).toEqual(all.slice(2));
        expect((await readAt(store, "a", { fence, number: 6 })).chunks).toEqual([]);
        expect((await readAt(store, "a", { fence: fence + 1, number: 0 })).chunks).toEqual([]);
        expect((await readAt(store, "a", null)).chunks).toEqual(all.slice(2));
        expect((await store.readLogs({ id: "a", after: 0, max: 9 })).lines).toMatchObject([
          { number: 1, body: "line" },
        ]);
        await store.settleIfLeased([aSettle(leased, finish())]);
        expect(await readAt(store, "a")).toEqual({
          kind: "ok",
          chunks: all,
          summary: "s",
          ended: "completed",
        });
        await store.changeIf([aChange("a", ["completed"], remove)]);
        expect(await store.readFrames([{ id: "a", after: start, max: 9 }])).toEqual([{ kind: "gone" }]);
      },
    ],
    [
      "reads of many jobs are answered in their order; a job without output has none, and an unknown one is gone",
      async ({ store, submit, lease }) => {
        const leased = await lease(aJob({ id: "b" }));
        await submit(aJob({ id: "a" }));
        await store.recordIfLeased([aFramesWrite(leased, [1])]);
        const reads = ["ghost", "b", "a", "b"].map((id, at) => ({
          id,
          after: at === 3 ? null : start,
          max: 9,
        }));
        const none = { kind: "ok", chunks: [], summary: null, ended: null };
        expect(await store.readFrames(reads)).toMatchObject([
          { kind: "gone" },
          { chunks: [{ number: 1 }], summary: null, ended: null },
          none,
          { chunks: [{ number: 1 }] },
        ]);
        expect(await store.readFrames([])).toEqual([]);
      },
    ],
    [
      "output under a superseded fence, or without a lease, is refused and written nowhere",
      async (subject) => {
        const { store, lease } = subject;
        const first = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aFramesWrite(first, [1])]);
        const second = await leaseAgain(subject, first);
        const writes = [
          aFramesWrite(first, [2], {
            summary: "stale",
            restarts: true,
            dropsTo: { fence: first.fence, number: 9 },
          }),
          { ...aFramesWrite(second, [1]), id: "ghost" },
          aFramesWrite(second, [1]),
        ];
        expect(await store.recordIfLeased(writes)).toEqual(["stale", "gone", "ok"]);
        expect(await bodiesOf(store, "a")).toEqual([`${first.fence}/1`, `${second.fence}/1`]);
        await store.settleIfLeased([aSettle(second, finish())]);
        expect(await store.recordIfLeased([aFramesWrite(second, [2])])).toEqual(["stale"]);
        expect(await readAt(store, "a")).toMatchObject({ summary: null, chunks: [{}, {}] });
      },
    ],
    [
      "a repeated write changes nothing, also after its chunks were dropped and others were added",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const { fence } = leased;
        const write = aFramesWrite(leased, [1, 2]);
        for (let time = 0; time < 2; time++) expect(await store.recordIfLeased([write])).toEqual(["ok"]);
        await store.recordIfLeased([aFramesWrite(leased, [3])]);
        const other = {
          ...write,
          frames: {
            chunks: [
              { number: 2, body: "other" },
              { number: 4, body: "new" },
            ],
          },
        };
        await store.recordIfLeased([other]);
        expect(await bodiesOf(store, "a")).toEqual([`${fence}/1`, `${fence}/2`, `${fence}/3`, "new"]);
        const dropping = aFramesWrite(leased, [5], { dropsTo: { fence, number: 4 } });
        for (let time = 0; time < 2; time++) await store.recordIfLeased([dropping]);
        expect(await bodiesOf(store, "a")).toEqual([`${fence}/5`]);
      },
    ],
    [
      "an attempt that restarts deletes what older attempts have written; one that does not comes after them",
      async (subject) => {
        const { store, lease } = subject;
        const first = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([
          aFramesWrite(first, [7], { summary: "old", restarts: true }),
          { ...first, logs: ["kept"] },
        ]);
        const second = await leaseAgain(subject, first);
        await store.recordIfLeased([aFramesWrite(second, [1])]);
        expect(await bodiesOf(store, "a")).toEqual([`${first.fence}/7`, `${second.fence}/1`]);
        expect(await readAt(store, "a", { fence: first.fence, number: 7 })).toMatchObject({
          chunks: [{ fence: second.fence, number: 1 }],
          summary: "old",
        });
        const third = await leaseAgain(subject, second);
        const restart = aFramesWrite(third, [1], { restarts: true });
        for (let time = 0; time < 2; time++) await store.recordIfLeased([restart]);
        expect(await readAt(store, "a")).toMatchObject({ chunks: [{ fence: third.fence }], summary: null });
        expect((await store.readLogs({ id: "a", after: 0, max: 9 })).lines).toMatchObject([{ body: "kept" }]);
        const other = await lease(aJob({ id: "b", name: "b" }));
        await store.recordIfLeased([aFramesWrite(other, [], { summary: "alone", restarts: true })]);
        expect(await readAt(store, "b")).toMatchObject({ chunks: [], summary: "alone" });
      },
    ],
    [
      "chunks up to a place are dropped, over the attempts",
      async (subject) => {
        const { store, lease } = subject;
        const first = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aFramesWrite(first, [1, 2, 3], { summary: "s" })]);
        await store.recordIfLeased([
          aFramesWrite(first, [4], { dropsTo: { fence: first.fence, number: 1 } }),
        ]);
        expect(await bodiesOf(store, "a")).toEqual([2, 3, 4].map((number) => `${first.fence}/${number}`));
        const second = await leaseAgain(subject, first);
        await store.recordIfLeased([
          aFramesWrite(second, [1, 2], { dropsTo: { fence: second.fence, number: 1 } }),
        ]);
        expect(await readAt(store, "a")).toMatchObject({
          chunks: [{ fence: second.fence, number: 2 }],
          summary: "s",
        });
      },
    ],
    [
      "each write emits one event, and leaves rev and progress as they were",
      async ({ store, lease, read, events }) => {
        const leased = await lease(aJob({ id: "a" }));
        const { rev } = await read("a");
        await store.recordIfLeased([
          aFramesWrite(leased, [1, 2]),
          aFramesWrite(leased, [], { summary: "s" }),
        ]);
        const written = (await events("a")).filter(({ kind }) => kind === "output");
        expect(written).toMatchObject([{ state: "running", extra: null, rev }, {}]);
        expect(await read("a")).toMatchObject({ rev, progress: null });
      },
    ],
    [
      "a pruned job is gone with its output",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        await store.recordIfLeased([aFramesWrite(leased, [1], { summary: "s" })]);
        await store.settleIfLeased([aSettle(leased, finish())]);
        const outcome = {
          outcome: "completed",
          queue: null,
          exceptQueues: [],
          olderThanMs: 0,
          max: 9,
        } as const;
        expect(await pruneAll(store, { what: "history", ...outcome, cursor: null })).toBe(1);
        expect(await store.readFrames([{ id: "a", after: start, max: 9 }])).toEqual([{ kind: "gone" }]);
      },
    ],
    [
      "chunks and summaries are any text",
      async ({ store, lease }) => {
        const leased = await lease(aJob({ id: "a" }));
        const texts = ["", "\u0000\u0001\u0002\u001e\u001f", "\u{1f600}", "x".repeat(100_000), '"\\\n|,'];
        const chunks = texts.map((body, at) => ({ number: at + 1, body }));
        const { id, seq, fence } = leased;
        for (const summary of texts)
          await store.recordIfLeased([{ id, seq, fence, frames: { chunks, summary } }]);
        expect(await bodiesOf(store, "a")).toEqual(texts);
        expect((await readAt(store, "a")).summary).toBe(texts.at(-1));
      },
    ],
  ],
};
