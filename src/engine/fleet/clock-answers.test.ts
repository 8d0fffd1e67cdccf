import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import type { Hint, Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import { job } from "../submit/job-definition.ts";

const quick = job<null>("quick");

let platform: VirtualPlatform;
let store: Store;
let mills: Millrace[];
/** Which process promoted when, by the virtual clock. */
let passes: { readonly by: number; readonly atMs: number }[];
/** The processes that read due clocks. */
let readers: number[];
let isMuted: (by: number, hint: Hint) => boolean;
/** No call of the first process arrives. */
let deadLeader: boolean;

const dead = (): Promise<never> => Promise.reject(new Error("dead"));
const nowMs = (): number => platform.time.elapsedUs / 1000;
const advance = (ms: number): Promise<void> => platform.time.advance(ms * 1000);
const promotedAt = async (): Promise<number | undefined> => {
  const { records } = await store.readFeed({ after: 0, max: 100 });
  const record = records.findLast(({ events }) => events.some(({ kind }) => kind === "promoted"));
  return record?.at;
};

/** Starts a process with duties on the shared store; the first one leads. */
async function startProcess(): Promise<Millrace> {
  const by = mills.length;
  const shared: Store = {
    ...store,
    heartbeat: (request) => (deadLeader && by === 0 ? dead() : store.heartbeat(request)),
    promoteDue: (request) => {
      if (deadLeader && by === 0) return dead();
      passes.push({ by, atMs: nowMs() });
      return store.promoteDue(request);
    },
    readDue: (request) => {
      readers.push(by);
      return store.readDue(request);
    },
    watch: (listener) =>
      store.watch((hint) => {
        if (!isMuted(by, hint)) listener(hint);
      }),
    close: async () => undefined,
  };
  const mill = millOn(shared, {}, platform);
  mills.push(mill);
  mill.duties.start();
  await advance(1);
  return mill;
}

beforeEach(async () => {
  platform = createVirtualPlatform();
  store = await openSqliteStore({ path: ":memory:", platform });
  mills = [];
  passes = [];
  readers = [];
  isMuted = () => false;
  deadLeader = false;
});

afterEach(async () => {
  for (const mill of mills) await runUntil(platform, mill.close());
  await store.close();
});

/** Makes a job due in 600 ms, and gives every process the time of a heartbeat to find its clock. */
async function letComeDue(): Promise<number> {
  const [mill] = mills as [Millrace];
  await runUntil(platform, mill.enqueue(quick, null, { delay: 600 }));
  const dueMs = nowMs() + 600;
  passes = [];
  await advance(600 + 1200);
  return dueMs;
}

describe("a due clock", () => {
  test("is answered at once by the leader, and by no other process", async () => {
    for (let count = 1; count <= 3; count++) await startProcess();
    const dueMs = await letComeDue();
    expect(passes).toEqual([{ by: 0, atMs: dueMs }]);
  });

  test("is left to the leader, also by a process that did not hear of the promotion", async () => {
    for (let count = 1; count <= 2; count++) await startProcess();
    isMuted = (by, { kind }) => by === 1 && kind === "promoted";
    const dueMs = await letComeDue();
    expect(passes).toEqual([{ by: 0, atMs: dueMs }]);
  });

  test("that the leader does not hear of is answered by the process whose heartbeat finds it first", async () => {
    for (let count = 1; count <= 4; count++) await startProcess();
    isMuted = (by) => by === 0;
    const dueMs = await letComeDue();
    expect(passes).toHaveLength(1);
    const startMs = platform.now() - nowMs();
    expect(((await promotedAt()) ?? 0) - startMs - dueMs).toBeLessThanOrEqual(1200);
  });

  test("is answered once within 1.2 s while no process leads", async () => {
    for (let count = 1; count <= 4; count++) await startProcess();
    await advance(10_000);
    deadLeader = true;
    const dueMs = await letComeDue();
    expect(passes.map(({ by }) => by)).toHaveLength(1);
    const startMs = platform.now() - nowMs();
    expect(((await promotedAt()) ?? 0) - startMs - dueMs).toBeLessThanOrEqual(1200);
    deadLeader = false;
  });

  test("is answered at once again after another process has taken the lead", async () => {
    for (let count = 1; count <= 2; count++) await startProcess();
    await runUntil(platform, (mills.shift() as Millrace).close());
    await letComeDue();
    const dueMs = await letComeDue();
    expect(passes).toEqual([{ by: 1, atMs: dueMs }]);
  });

  test("is answered at once also after one that no duty can serve, if the store returns both", async () => {
    const inner = store;
    const dueMs = 621;
    store = {
      ...inner,
      async promoteDue(request) {
        const answer = await inner.promoteDue(request);
        const hiddenInMs = dueMs - nowMs();
        return hiddenInMs > 0 ? { ...answer, nextDueInMs: 0, hiddenInMs } : answer;
      },
    };
    await startProcess();
    await letComeDue();
    expect(passes.map(({ atMs }) => atMs)).toContain(dueMs);
  });

  test("that promoting does not serve is served by the duties of one process", async () => {
    for (let count = 1; count <= 3; count++) await startProcess();
    const mill = mills[2] as Millrace;
    const doomed = await runUntil(platform, mill.enqueue(quick, null, { deadline: "5s" }));
    await advance(4000);
    readers = [];
    await advance(2000);
    expect(await runUntil(platform, store.readJobs([doomed.id]))).toMatchObject([{ state: "expired" }]);
    expect(readers).toEqual([0, 0, 0, 0, 0]);
  });
});
