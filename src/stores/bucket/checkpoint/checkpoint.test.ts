import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { aBucketWorld, longMs, namesOf } from "../../../../test/support/bucket-jobs.ts";
import type { BucketWorld } from "../../../../test/support/bucket-jobs.ts";
import { until } from "../../../../test/support/until.ts";
import { aClaim, aJob, aSettle, finish } from "../../../../test/support/builders.ts";
import { rowsOf } from "../../../../test/support/compared-bucket.ts";
import { settleTurn } from "../../../testing/virtual-time.ts";
import { openBucketStore } from "../bucket-store.ts";
import { chunkPrefix, logPrefix, markFrom, markPrefix } from "../layout.ts";
import { CountedObjects } from "../objects/counted.ts";
import type { RequestCounts } from "../objects/counted.ts";
import { ObjectsError } from "../objects/objects.ts";
import type { Objects } from "../objects/objects.ts";
import { Replica } from "../copy/replica.ts";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "millrace-checkpoint-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Opens, submits N jobs one by one, and closes: more than 100 records, so the close makes a mark. */
async function oneLife(world: BucketWorld, jobs: number): Promise<void> {
  const store = await world.open();
  await world.submit(store, jobs);
  await store.close();
}

async function chunksNamed(world: BucketWorld, mark: string): Promise<string[]> {
  const bytes = (await world.bucket.open().get(mark)) as Uint8Array;
  const { chunks } = markFrom(bytes, mark);
  const padded = (value: number): string => String(value).padStart(12, "0");
  return chunks.map(([label], no) => `chunk/${padded(no)}-${padded(label)}`);
}

test("processes that live for a moment leave a bounded bucket, though each of them knows its own marks only", async () => {
  const world = aBucketWorld(folder);
  const sizes: number[][] = [];
  for (let life = 0; life < 8; life++) {
    await oneLife(world, 110);
    await world.advance(longMs);
    sizes.push(
      await Promise.all(
        [logPrefix, chunkPrefix, markPrefix].map(async (prefix) => (await world.names(prefix)).length),
      ),
    );
  }
  // The newest mark, and two older than the grace with the log from the second of them on.
  expect(sizes.at(-1)).toEqual(sizes.at(-2));
  expect(sizes.at(-1)?.[2]).toBe(3);
  expect(sizes.at(-1)?.[0]).toBeLessThan(3 * 130);
  await oneLife(world, 1);
});

test("chunks whose mark never came are removed by a later writer", async () => {
  const world = aBucketWorld(folder);
  await oneLife(world, 110);
  const failing = (objects: Objects): Objects => ({
    put: (name, bytes, ifAbsent) =>
      name.startsWith(markPrefix)
        ? Promise.reject(new ObjectsError("refused", "no marks today"))
        : objects.put(name, bytes, ifAbsent),
    get: (name) => objects.get(name),
    list: (prefix, after) => objects.list(prefix, after),
    remove: (names) => objects.remove(names),
    close: () => objects.close(),
  });
  const store = await world.open(failing);
  await world.submit(store, 110);
  await store.close();
  const [mark] = await world.names(markPrefix);
  const named = await chunksNamed(world, mark as string);
  const strays = (await world.names(chunkPrefix)).filter((name) => !named.includes(name));
  expect(strays.length).toBeGreaterThan(0);
  for (let life = 0; life < 4; life++) {
    await world.advance(longMs);
    await oneLife(world, 110);
  }
  const left = await world.names(chunkPrefix);
  expect(strays.filter((name) => left.includes(name))).toEqual([]);
  // What the marks that are left name is all there.
  for (const name of await world.names(markPrefix))
    for (const chunk of await chunksNamed(world, name)) expect(left).toContain(chunk);
});

test("a checkpoint that fails is logged as a warning, tried again later, and forgotten when it succeeds", async () => {
  const world = aBucketWorld(folder);
  let isDown = true;
  let tries = 0;
  const store = await world.open((objects) => ({
    put: (name, bytes, ifAbsent) => {
      if (!name.startsWith(chunkPrefix)) return objects.put(name, bytes, ifAbsent);
      tries += 1;
      return isDown
        ? Promise.reject(new ObjectsError("denied", "chunks are denied"))
        : objects.put(name, bytes, ifAbsent);
    },
    get: (name) => objects.get(name),
    list: (prefix, after) => objects.list(prefix, after),
    remove: (names) => objects.remove(names),
    close: () => objects.close(),
  }));
  await world.advance(61_000);
  await world.submit(store, 1010);
  await until("it has failed", async () => (await store.describe()).warnings.length === 1);
  expect((await store.describe()).warnings[0]).toMatch(/chunks are denied/);
  const before = tries;
  await world.submit(store, 50);
  expect(tries).toBe(before);
  isDown = false;
  await world.advance(61_000);
  await world.submit(store, 60);
  await until("there is a mark", async () => (await world.names(markPrefix)).length === 1);
  await until("it has succeeded", async () => (await store.describe()).warnings.length === 0);
  await store.close();
});

const registration = { kind: "registry", id: "one", body: "here", guard: "any", expiresInMs: 3000 } as const;

test("an idle process puts at most six records a minute and lists nothing", async () => {
  const world = aBucketWorld(folder);
  const counted: CountedObjects[] = [];
  const store = await world.open((objects) => {
    const one = new CountedObjects(objects);
    counted.push(one);
    return one;
  });
  await world.submit(store, 5);
  const [objects] = counted as [CountedObjects];
  const before = objects.counts;
  // As a process does that works and has nothing to do: a heartbeat each second, and looks at what may have changed.
  for (let second = 0; second < 600; second++) {
    await world.advance(1000);
    await store.heartbeat({ puts: [registration], read: { kind: "registry", ids: ["one"] } });
    await store.readRoutes();
    await store.readDocs({ kind: "settings", ids: ["retention"] });
  }
  const after = objects.counts;
  const spent = (kind: keyof RequestCounts): number => after[kind] - before[kind];
  expect(spent("put")).toBeGreaterThan(50);
  expect(spent("put")).toBeLessThanOrEqual(60);
  expect([spent("list"), spent("get"), spent("remove")]).toEqual([0, 0, 0]);
  await store.close();
});

test("a log of a thousand small records is ended by a mark, and clean-ups do not follow each of them", async () => {
  const world = aBucketWorld(folder);
  const counted: CountedObjects[] = [];
  const store = await world.open((objects) => {
    const one = new CountedObjects(objects);
    counted.push(one);
    return one;
  });
  const hasMarks = (count: number): Promise<void> =>
    until("there is a mark", async () => (await world.names(markPrefix)).length === count);
  await world.advance(61_000);
  await world.submit(store, 980);
  expect(await world.names(markPrefix)).toEqual([]);
  await world.submit(store, 30);
  await hasMarks(1);
  const before = (counted[0] as CountedObjects).counts.list;
  await world.advance(61_000);
  await world.submit(store, 1010);
  await hasMarks(2);
  expect((counted[0] as CountedObjects).counts.list).toBe(before);
  await store.close();
});

test("describe has the requests, their bytes, what checkpoints add and what it costs", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await store.submit([{ jobs: [aJob({ id: "one" })] }]);
  const { requests } = await store.describe();
  expect(requests?.remove).toBe(0);
  expect(requests?.put).toBeGreaterThanOrEqual(4);
  expect(requests?.bytesPut).toBeGreaterThan(requests?.logBytesPut ?? Number.POSITIVE_INFINITY);
  expect(requests?.amplification).toBeGreaterThan(1);
  const { put = 0, get = 0, list = 0 } = requests ?? {};
  expect(requests?.cost).toBeCloseTo(put * 5e-6 + get * 4e-7 + list * 5e-6, 12);
  expect(requests).toMatchObject({ settled: 0, costPerMillion: null });
  const { jobs } = await store.claim(aClaim({ max: 1 }));
  await store.settleIfLeased(jobs.map((leased) => aSettle(leased, finish())));
  const after = (await store.describe()).requests;
  expect(after?.settled).toBe(1);
  expect(after?.costPerMillion).toBeCloseTo((after?.cost ?? 0) * 1e6, 6);
  await store.close();
});

test("a checkpoint that could not put its mark puts no chunk a second time under its name", async () => {
  const { bucket, platform } = aBucketWorld(folder);
  const objects = bucket.open();
  const chunks: string[] = [];
  let marks = 0;
  const store = await openBucketStore({
    ...{
      platform,
      whenHeld: "take",
      cacheFolder: folder,
      tuning: { recordsMin: 5, apartMs: 0, closeRecords: 0 },
    },
    objects: withPut(objects, (name, bytes, ifAbsent) => {
      if (name.startsWith(chunkPrefix)) chunks.push(name);
      if (!name.startsWith(markPrefix)) return objects.put(name, bytes, ifAbsent);
      marks += 1;
      return Promise.reject(new ObjectsError("refused", "no marks today"));
    }),
  });
  for (let job = 0; marks === 0; job++) {
    await store.submit([{ jobs: [aJob({ id: `job-${job}` })] }]);
    await settleTurn();
  }
  // Nothing lands between the failure and the close, which tries again.
  await store.close();
  expect(chunks.length).toBeGreaterThan(0);
  expect(new Set(chunks).size).toBe(chunks.length);
});

test("what a failed checkpoint was to put is put by the next one", async () => {
  const { bucket, platform } = aBucketWorld(folder);
  const objects = bucket.open();
  let isDown = false;
  let failures = 0;
  let compared = false;
  const store = await openBucketStore({
    ...{
      platform,
      whenHeld: "take",
      cacheFolder: folder,
      tuning: { recordsMin: 5, apartMs: 0, closeRecords: 0 },
    },
    objects: withPut(objects, (name, bytes, ifAbsent) => {
      if (!isDown || !name.startsWith(chunkPrefix)) return objects.put(name, bytes, ifAbsent);
      failures += 1;
      return Promise.reject(new ObjectsError("denied", "chunks are denied"));
    }),
    onClosed: async (path) => {
      const copy = join(folder, "restored.db");
      const replica = await Replica.restore(objects, { path: copy, pageSize: 4096 });
      replica.close();
      expect(replica.mark?.from).toBeGreaterThan(0);
      expect(rowsOf(copy)).toEqual(rowsOf(path));
      compared = true;
    },
  });
  const marks = async (): Promise<number> => (await namesOf(objects, markPrefix)).length;
  const submitUntil = async (isDone: () => Promise<boolean>): Promise<void> => {
    while (!(await isDone())) {
      await store.submit([{ jobs: [aJob({ id: `small-${(submitted += 1)}` })] }]);
      await settleTurn();
    }
  };
  let submitted = 0;
  // Their pages fill chunks that nothing else touches.
  const putDocuments = (filling: string): Promise<unknown> =>
    store.putDocs(
      Array.from({ length: 1000 }, (_, at) => ({
        ...{ kind: "kv", id: `document-${at}`, guard: "any" as const, body: filling.repeat(3000) },
      })),
    );
  await putDocuments("a");
  await submitUntil(async () => (await marks()) > 0);
  isDown = true;
  await putDocuments("b");
  await submitUntil(async () => failures > 0);
  isDown = false;
  const before = await marks();
  await submitUntil(async () => (await marks()) > before);
  await store.close();
  expect(compared).toBe(true);
});

function withPut(objects: Objects, put: Objects["put"]): Objects {
  return {
    put,
    get: (name) => objects.get(name),
    list: (prefix, after) => objects.list(prefix, after),
    remove: (names) => objects.remove(names),
    close: () => objects.close(),
  };
}
