/** Processes that sleep, are cut off or are replaced: what a bucket's writer says then, and what a newcomer finds. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { aBucketWorld, hourMs, longMs, namesOf } from "../../../../test/support/bucket-jobs.ts";
import type { BucketWorld } from "../../../../test/support/bucket-jobs.ts";
import { aClaim, aJob } from "../../../../test/support/builders.ts";
import { findAll } from "../../../../test/support/walk.ts";
import type { Platform } from "../../../platform/platform.ts";
import { settleTurn } from "../../../testing/virtual-time.ts";
import type { Store } from "../../../store/store.ts";
import { openBucketStore } from "../bucket-store.ts";
import { CleanUp } from "../checkpoint/clean-up.ts";
import { chunkPrefix, logName, logPrefix, markName, markPrefix, markBytes } from "../layout.ts";
import type { Mark } from "../layout.ts";
import { ObjectsError } from "../objects/objects.ts";
import type { Objects } from "../objects/objects.ts";
import { Replica } from "../copy/replica.ts";
import { defaultTuning } from "../tuning.ts";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "millrace-sleepers-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A platform whose timers do not ring while it sleeps; its clocks go on. */
function aSleeper(platform: Platform): { platform: Platform; sleep: () => void; wake: () => void } {
  let held: (() => void)[] | null = null;
  const ring = (run: () => void): void => (held === null ? run() : void held.push(run));
  return {
    platform: { ...platform, setTimer: (delayMs, run) => platform.setTimer(delayMs, () => ring(run)) },
    sleep: () => void (held ??= []),
    wake: () => {
      const rings = held ?? [];
      held = null;
      for (const run of rings) run();
    },
  };
}

/** Lives with marks and clean-ups, until the first hundred records are gone. */
async function othersLive(world: BucketWorld): Promise<void> {
  for (let life = 0; life < 5; life++) {
    const store = await world.open();
    await world.submit(store, 110);
    await store.close();
    await world.advance(longMs);
  }
  const [first] = await world.names(logPrefix);
  expect(first! > logName(100)).toBe(true);
}

test("a writer that slept until its slot was used and removed again acknowledges nothing, and does not say that nothing happened", async () => {
  const world = aBucketWorld(folder);
  const sleeper = aSleeper(world.platform);
  const { platform } = sleeper;
  const options = { objects: world.bucket.open(), platform, whenHeld: "take", cacheFolder: folder } as const;
  const store = await openBucketStore(options);
  await world.submit(store, 5);
  const [lease] = (await store.claim(aClaim({ max: 1, leaseMs: 24 * hourMs }))).jobs;
  sleeper.sleep();
  await othersLive(world);
  const late = store.submit([{ jobs: [aJob({ id: "late" })] }]);
  await expect(late).rejects.toMatchObject({ code: "outcome-unknown", outcome: "unknown" });
  const refused = store.submit([{ jobs: [aJob({ id: "later" })] }]);
  await expect(refused).rejects.toMatchObject({ code: "store-fenced", retryable: false });
  const { answers } = await store.extendIfLeased({
    leases: [lease!],
    leaseMs: 1000,
    owner: "w1",
    wantsOthers: false,
  });
  expect(answers).toEqual(["stale"]);
  const marks = await world.names(markPrefix);
  await store.close();
  await store.close();
  expect(await world.names(markPrefix)).toEqual(marks);
  const heir = await world.open();
  expect(await heir.readJobs(["late", "later"])).toEqual([null, null]);
  await heir.close();
});

test("a writer that slept again while it looked for a newer mark looks again before it acknowledges the next call", async () => {
  const world = aBucketWorld(folder);
  const sleeper = aSleeper(world.platform);
  const objects = world.bucket.open();
  let isLook = false;
  const store = await openBucketStore({
    ...{ platform: sleeper.platform, whenHeld: "take", cacheFolder: folder },
    objects: {
      ...awayIf(objects, () => false),
      list: async (prefix, after) => {
        const page = await objects.list(prefix, after);
        if (isLook && prefix === markPrefix) {
          isLook = false;
          await othersLive(world);
        }
        return page;
      },
    },
  });
  await world.submit(store, 5);
  sleeper.sleep();
  await world.advance(60_000);
  isLook = true;
  // It landed before anybody took the bucket over.
  await store.submit([{ jobs: [aJob({ id: "early" })] }]);
  const late = store.submit([{ jobs: [aJob({ id: "late" })] }]);
  await expect(late).rejects.toMatchObject({ code: "outcome-unknown", outcome: "unknown" });
  await store.close();
  const heir = await world.open();
  const [early, lost] = await heir.readJobs(["early", "late"]);
  expect([early?.id, lost]).toEqual(["early", null]);
  await heir.close();
});

test("a writer that wakes answers no read from its copy before it knows that the bucket is still its own", async () => {
  const world = aBucketWorld(folder);
  const sleeper = aSleeper(world.platform);
  const { platform } = sleeper;
  const options = { objects: world.bucket.open(), platform, whenHeld: "take", cacheFolder: folder } as const;
  const store = await openBucketStore(options);
  await store.submit([{ jobs: [aJob({ id: "seen" })] }]);
  sleeper.sleep();
  const heir = await world.open();
  await world.advance(60_000);
  const read = store.readJobs(["seen"]);
  await expect(read).rejects.toMatchObject({ code: "store-fenced", outcome: "did-not-happen" });
  await expect(store.readJobs(["seen"])).rejects.toMatchObject({ code: "store-fenced" });
  await store.close();
  await heir.close();
});

test("a writer that wakes and still has the bucket answers its first read after one put", async () => {
  const world = aBucketWorld(folder);
  const sleeper = aSleeper(world.platform);
  const { platform } = sleeper;
  const options = { objects: world.bucket.open(), platform, whenHeld: "take", cacheFolder: folder } as const;
  const store = await openBucketStore(options);
  await store.submit([{ jobs: [aJob({ id: "seen" })] }]);
  sleeper.sleep();
  await world.advance(60_000);
  const records = (await world.names(logPrefix)).length;
  expect(await Promise.all([store.readJobs(["seen"]), store.countJobs()])).toMatchObject([
    [{ id: "seen" }],
    {},
  ]);
  expect(await store.readJobs(["seen"])).toMatchObject([{ id: "seen" }]);
  expect(await world.names(logPrefix)).toHaveLength(records + 1);
  sleeper.wake();
  await store.close();
});

test("a new writer whose clock is hours ahead leaves the slots of a writer that sleeps for a moment", async () => {
  const world = aBucketWorld(folder);
  const sleeper = aSleeper(world.platform);
  const options = { objects: world.bucket.open(), whenHeld: "take", cacheFolder: folder } as const;
  const store = await openBucketStore({ ...options, platform: sleeper.platform });
  await world.submit(store, 5);
  sleeper.sleep();
  const records = await world.names(logPrefix);
  for (let life = 0; life < 2; life++) {
    const heir = await world.open();
    await world.submit(heir, 110);
    await heir.close();
  }
  const { platform } = world;
  const ahead = { ...platform, now: () => platform.now() + 3 * hourMs };
  const third = await openBucketStore({ ...options, objects: world.bucket.open(), platform: ahead });
  await world.submit(third, 110);
  await third.close();
  expect((await world.names(logPrefix)).slice(0, records.length)).toEqual(records);
  const late = store.submit([{ jobs: [aJob({ id: "late" })] }]);
  await expect(late).rejects.toMatchObject({ code: "store-fenced", outcome: "did-not-happen" });
  await store.close();
});

test("one that stood by and slept while the log was removed behind it begins with the store as it is now", async () => {
  const world = aBucketWorld(folder);
  const first = await world.open();
  await world.submit(first, 5);
  const sleeper = aSleeper(world.platform);
  const { platform } = sleeper;
  const opening = openBucketStore({
    objects: world.bucket.open(),
    platform,
    whenHeld: "wait",
    cacheFolder: folder,
  });
  // It has read the bucket once its first look is set.
  await world.advance(1000);
  sleeper.sleep();
  await world.submit(first, 1);
  await othersLive(world);
  sleeper.wake();
  for (let second = 0; second < 30; second++) await world.advance(1000);
  const store = await opening;
  expect(await findAll(store)).toHaveLength(5 + 1 + 5 * 110);
  await world.submit(store, 1);
  await store.close();
  const heir = await world.open();
  expect(await findAll(heir)).toHaveLength(5 + 1 + 5 * 110 + 1);
  await heir.close();
  await first.close();
});

test("an opener that slept before its fence does not begin in slots that were removed", async () => {
  const world = aBucketWorld(folder);
  const first = await world.open();
  await world.submit(first, 5);
  const objects = world.bucket.open();
  let hasSlept = false;
  const store = await openBucketStore({
    ...{ platform: world.platform, whenHeld: "take", cacheFolder: folder },
    objects: {
      ...awayIf(objects, () => false),
      put: async (name, bytes, ifAbsent) => {
        if (!hasSlept && name.startsWith(logPrefix)) {
          hasSlept = true;
          await othersLive(world);
        }
        return objects.put(name, bytes, ifAbsent);
      },
    },
  });
  expect(await findAll(store)).toHaveLength(5 + 5 * 110);
  await store.close();
  await first.close();
});

test("an opener that slept after its fence, while it looked for a newer mark, writes nothing", async () => {
  const world = aBucketWorld(folder);
  const first = await world.open();
  await world.submit(first, 5);
  const objects = world.bucket.open();
  let [hasFence, hasSlept] = [false, false];
  const store = await openBucketStore({
    ...{ platform: world.platform, whenHeld: "take", cacheFolder: folder },
    objects: {
      ...awayIf(objects, () => false),
      put: async (name, bytes, ifAbsent) => {
        const answer = await objects.put(name, bytes, ifAbsent);
        hasFence ||= name.startsWith(logPrefix);
        return answer;
      },
      list: async (prefix, after) => {
        const page = await objects.list(prefix, after);
        // The last look: the fence is there, and every slot before it is filled.
        const records = await namesOf(objects, logPrefix);
        if (hasFence && !hasSlept && records.at(-1) === logName(records.length)) {
          hasSlept = true;
          await othersLive(world);
        }
        return page;
      },
    },
  });
  expect(hasSlept).toBe(true);
  const late = store.submit([{ jobs: [aJob({ id: "late" })] }]);
  await expect(late).rejects.toMatchObject({ code: "outcome-unknown" });
  await store.close();
  const heir = await world.open();
  expect(await heir.readJobs(["late"])).toEqual([null]);
  await heir.close();
  await first.close();
});

test("a close while the bucket does not answer ends, and says of what waits that nobody knows", async () => {
  const world = aBucketWorld(folder);
  let isAway = false;
  const store = await world.open((objects) => awayIf(objects, () => isAway));
  await world.submit(store, 1);
  isAway = true;
  const submitted = (id: string): Promise<unknown> =>
    store.submit([{ jobs: [aJob({ id })] }]).catch((error: unknown) => error);
  const first = submitted("first");
  await world.advance(1500);
  const second = submitted("second");
  const closing = store.close();
  for (let seconds = 0; seconds < 60; seconds++) await world.advance(1000);
  const unknown = (message: RegExp) => ({
    ...{ code: "outcome-unknown", outcome: "unknown" },
    message: expect.stringMatching(message) as string,
  });
  expect(await first).toMatchObject(unknown(/^The bucket did not confirm the call/));
  // It has not waited for that long when the close gives up.
  expect(await second).toMatchObject(unknown(/^The bucket could not be reached at the close/));
  await closing;
  isAway = false;
  const heir = await world.open();
  expect(await findAll(heir)).toHaveLength(1);
  await heir.close();
});

test("calls in a long outage are refused before they change anything, and those before it are answered in time", async () => {
  const world = aBucketWorld(folder);
  let isAway = false;
  const store = await world.open((objects) => awayIf(objects, () => isAway));
  isAway = true;
  const waiting = store.submit([{ jobs: [aJob({ id: "first" })] }]).catch((error: unknown) => error);
  for (let second = 0; second < 40; second++) await world.advance(1000);
  expect(await waiting).toMatchObject({ code: "outcome-unknown" });
  const refused = store.submit([{ jobs: [aJob({ id: "second" })] }]);
  await expect(refused).rejects.toMatchObject({ code: "store-unavailable", outcome: "did-not-happen" });
  isAway = false;
  for (let second = 0; second < 10; second++) await world.advance(1000);
  // What was answered as unknown has landed after all.
  const [first, second] = await store.readJobs(["first", "second"]);
  expect([first?.id, second]).toEqual(["first", null]);
  await store.close();
});

test("a checkpoint makes no mark before everything that may be in its chunks has landed", async () => {
  const { bucket, platform } = aBucketWorld(folder);
  const objects = bucket.open();
  const released = Promise.withResolvers<void>();
  const late: Promise<unknown>[] = [];
  const store: Store = await openBucketStore({
    ...{ platform, whenHeld: "take", cacheFolder: folder, tuning: { recordsMin: 5, apartMs: 0 } },
    objects: {
      ...awayIf(objects, () => false),
      put: async (name, bytes, ifAbsent) => {
        // What is committed while the chunks are put is in them, or may be.
        if (name.startsWith(chunkPrefix)) {
          if (late.length === 0) late.push(store.submit([{ jobs: [aJob({ id: "late" })] }]));
        } else if (late.length > 0 && name.startsWith(logPrefix)) await released.promise;
        return objects.put(name, bytes, ifAbsent);
      },
    },
  });
  for (let job = 0; late.length === 0; job++) {
    await store.submit([{ jobs: [aJob({ id: `job-${job}` })] }]);
    await settleTurn();
  }
  for (let turn = 0; turn < 20; turn++) await settleTurn();
  expect(await namesOf(objects, markPrefix)).toEqual([]);
  released.resolve();
  await Promise.all(late);
  await settleTurn();
  const marks = await namesOf(objects, markPrefix);
  expect(marks.length).toBeGreaterThan(0);
  await store.close();
});

test("a whole record of another log is found by the chain, and named", async () => {
  const buckets = await Promise.all(
    [0, 1000].map(async (laterMs) => {
      const world = aBucketWorld(folder);
      await world.advance(laterMs);
      const store = await world.open();
      await world.submit(store, 10);
      await store.close();
      return world;
    }),
  );
  const [one, other] = buckets.map((world) => world.bucket.open()) as [Objects, Objects];
  await one.put(logName(6), (await other.get(logName(6))) as Uint8Array, false);
  const restoring = Replica.restore(one, { path: join(folder, "chained.db"), pageSize: 4096 });
  await expect(restoring).rejects.toMatchObject({
    code: "store-corrupt",
    message: expect.stringContaining(logName(6)) as string,
  });
});

test("a clean-up removes nothing once another writer has made a mark, also if it had listed what it would remove", async () => {
  const { bucket, platform, advance } = aBucketWorld(folder);
  const objects = bucket.open();
  const putMark = async (through: number, epoch: number): Promise<Mark> => {
    const from = through - 1;
    const rest = { writer: "", note: "", digest: "", at: platform.now(), pageCount: 0, chunks: [] };
    const mark: Mark = { from, through, epoch, ...rest };
    await objects.put(markName(through), markBytes(mark), true);
    return mark;
  };
  const cleanUp = new CleanUp({
    platform,
    isFenced: () => false,
    tuning: { ...defaultTuning, cleanUpEveryMs: 0 },
    objects: {
      ...awayIf(objects, () => false),
      list: async (prefix, after) => {
        const page = await objects.list(prefix, after);
        // The process sleeps between the list and the removal, and another one makes a mark meanwhile.
        if (prefix === logPrefix && isTaken) await putMark(100, 2);
        return page;
      },
    },
  });
  let isTaken = true;
  for (let n = 1; n <= 40; n++) await objects.put(logName(n), new Uint8Array(1), true);
  await putMark(10, 1);
  await putMark(20, 1);
  await advance(2 * hourMs);
  const newest = await putMark(40, 1);
  const recordsLeft = async (): Promise<number> => (await namesOf(objects, logPrefix)).length;
  await cleanUp.run(newest);
  expect(await recordsLeft()).toBe(40);
  // The same without the other writer.
  isTaken = false;
  await objects.remove([markName(100)]);
  await cleanUp.run(newest);
  expect(await recordsLeft()).toBe(40 - 9);
});

test("a wall clock that leaps an hour forward ends no grace", async () => {
  const { bucket, platform } = aBucketWorld(folder);
  let leapMs = 0;
  const leaping: Platform = { ...platform, now: () => platform.now() + leapMs };
  const store = await openBucketStore({
    ...{ objects: bucket.open(), platform: leaping, whenHeld: "take", cacheFolder: folder },
    tuning: { recordsMin: 5, apartMs: 0, cleanUpEveryMs: 0 },
  });
  const hasMarks = async (count: number): Promise<boolean> => {
    // A checkpoint begins in a later flush.
    await settleTurn();
    return (await namesOf(bucket.open(), markPrefix)).length >= count;
  };
  for (let job = 0; !(await hasMarks(3)); job++)
    await store.submit([{ jobs: [aJob({ id: `early-${job}` })] }]);
  leapMs = 2 * hourMs;
  for (let job = 0; !(await hasMarks(6)); job++)
    await store.submit([{ jobs: [aJob({ id: `late-${job}` })] }]);
  await store.close();
  expect((await namesOf(bucket.open(), logPrefix))[0]).toBe(logName(1));
});

function awayIf(objects: Objects, isAway: () => boolean): Objects {
  const refuse = () => Promise.reject(new ObjectsError("unreachable", "no connection"));
  return {
    put: (name, bytes, ifAbsent) => (isAway() ? refuse() : objects.put(name, bytes, ifAbsent)),
    get: (name) => (isAway() ? refuse() : objects.get(name)),
    list: (prefix, after) => (isAway() ? refuse() : objects.list(prefix, after)),
    remove: (names) => (isAway() ? refuse() : objects.remove(names)),
    close: () => objects.close(),
  };
}
