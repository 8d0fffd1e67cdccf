// Damage is planted for each finding; a bucket that is well has none.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { minuteMs, partPut } from "../../engine/metrics/metric-docs.ts";
import { MetricTable } from "../../model/metrics/metric-table.ts";
import { openStore } from "../../open.ts";
import { aBucketWorld, hourMs } from "../../../test/support/bucket-jobs.ts";
import type { BucketWorld } from "../../../test/support/bucket-jobs.ts";
import { examineBucket } from "../../stores/bucket/restore/examine.ts";
import type { BucketCondition } from "../../stores/bucket/restore/examine.ts";
import {
  chunkName,
  chunkPrefix,
  headName,
  logName,
  logPrefix,
  markPrefix,
  numberOf,
} from "../../stores/bucket/layout.ts";
import { ObjectsError } from "../../stores/bucket/objects/objects.ts";
import type { Objects } from "../../stores/bucket/objects/objects.ts";
import { defaultPrices } from "../../stores/bucket/prices.ts";
import { bodyOf, decodeRecord, encodeRecord } from "../../stores/bucket/log/log-record.ts";
import { restoreBucket } from "../../stores/bucket/restore/restore.ts";
import { bucketFindings, bucketLines, readCosts } from "./bucket-findings.ts";

let folder: string;
let copies = 0;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "millrace-doctor-test-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function examine(world: BucketWorld, given: Partial<Objects> = {}): Promise<BucketCondition> {
  const inner = world.bucket.open();
  const objects: Objects = {
    put: (name, bytes, ifAbsent) => inner.put(name, bytes, ifAbsent),
    get: (name) => inner.get(name),
    list: (prefix, after) => inner.list(prefix, after),
    remove: (names) => inner.remove(names),
    deletionRules: async () => [],
    close: () => inner.close(),
    ...given,
  };
  return examineBucket(objects, { path: join(folder, `copy-${(copies += 1)}.db`), platform: world.platform });
}

/** Two lives with a mark each, an hour and a half apart. */
async function aWellWorld(): Promise<BucketWorld> {
  const world = aBucketWorld(folder);
  for (let life = 0; life < 2; life++) {
    const store = await world.open();
    await world.submit(store, 110);
    await store.close();
    await world.advance(1.5 * hourMs);
  }
  return world;
}

const textOf = async (condition: BucketCondition): Promise<string> =>
  bucketLines(condition, defaultPrices, await readCosts(condition, defaultPrices, null)).join("\n");

const checks = (condition: BucketCondition): string[] => bucketFindings(condition).map(({ check }) => check);

test("a bucket that is well has no finding, and nothing in it is changed", async () => {
  const world = await aWellWorld();
  const before = await world.names("");
  const head = await world.bucket.open().get(headName);
  const condition = await examine(world);
  expect(bucketFindings(condition)).toEqual([]);
  expect(condition).toMatchObject({ isWhole: true, marks: 2, conditions: "kept", writer: { state: "none" } });
  expect(condition.chunks.bytes).toBeGreaterThan(0);
  expect(await world.names("")).toEqual(before);
  expect(await world.bucket.open().get(headName)).toEqual(head);
  const text = await textOf(condition);
  expect(text).toMatch(/^bucket +checkpoint at record \d+ .* 1 chunks/m);
  expect(text).toMatch(/^requests +doctor has made \d+ GET, \d+ LIST and 1 PUT/m);
});

test.each([
  ["damaged", "its checksum is wrong"],
  ["gone", "it is gone"],
])("a chunk that is %s is named", async (how, problem) => {
  const world = await aWellWorld();
  const name = (await world.names(chunkPrefix)).at(-1) as string;
  const objects = world.bucket.open();
  if (how === "gone") await objects.remove([name]);
  else await objects.put(name, new Uint8Array([1, 2, 3]), false);
  const condition = await examine(world);
  expect(condition).toMatchObject({ isWhole: false, broken: [{ object: name, problem }] });
  expect(bucketFindings(condition)[0]?.advice).toMatch(/older checkpoint/);
  // What could not be read may have a writer.
  expect(await textOf(condition)).toMatch(/^writer +not known/m);
});

test("a mark that cannot be read is named", async () => {
  const world = await aWellWorld();
  const [name] = (await world.names(markPrefix)) as [string];
  const objects = world.bucket.open();
  const bytes = (await objects.get(name)) as Uint8Array;
  bytes[40] = (bytes[40] as number) ^ 1;
  await objects.put(name, bytes, false);
  expect((await examine(world)).broken).toEqual([{ object: name, problem: "its checksum is wrong" }]);
});

test("records that are damaged, gone or of another log are named, all of them", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await world.submit(store, 12);
  await store.close();
  const objects = world.bucket.open();
  const last = numberOf((await world.names(logPrefix)).at(-1) as string);
  await objects.put(logName(last - 8), new Uint8Array(200), false);
  await objects.remove([logName(last - 4)]);
  const condition = await examine(world);
  expect(condition.broken).toEqual([
    { object: logName(last - 8), problem: "its checksum is wrong" },
    { object: logName(last - 4), problem: `it is gone, and record ${last - 3} is there` },
  ]);
  expect(bucketFindings(condition)[0]?.advice).toContain(`millrace restore --until ${last - 9} `);
});

test("a hole that looks like the end of the log is found, and nobody opens the store over it", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await world.submit(store, 12);
  await store.close();
  const last = numberOf((await world.names(logPrefix)).at(-1) as string);
  await world.bucket.open().remove([logName(last - 4)]);
  expect((await examine(world)).broken).toEqual([
    { object: logName(last - 4), problem: `it is gone, and record ${last - 3} is there` },
  ]);
  await expect(world.open()).rejects.toMatchObject({
    code: "store-corrupt",
    message: expect.stringContaining(`log/${String(last - 4).padStart(12, "0")}`) as string,
  });
  expect(numberOf((await world.names(logPrefix)).at(-1) as string)).toBe(last);
});

test("chunks that a clean-up should have taken are orphans; those of a checkpoint under way are not", async () => {
  const world = await aWellWorld();
  const objects = world.bucket.open();
  const [stray, young] = [chunkName(0, 1), chunkName(0, 900_000)];
  await objects.put(stray, new Uint8Array(10), false);
  await objects.put(young, new Uint8Array(10), false);
  const condition = await examine(world);
  expect(condition.orphans).toEqual([stray]);
  expect(checks(condition)).toEqual(["orphans"]);
});

test("a storage that ignores conditions is found, and one that may not be written is not tried", async () => {
  const world = await aWellWorld();
  const ignores = await examine(world, { put: async () => "stored" });
  expect(checks(ignores)).toEqual(["conditions"]);
  const denied = await examine(world, { put: () => Promise.reject(new ObjectsError("denied", "read only")) });
  expect(denied.conditions).toBe("not-tried");
  expect(checks(denied)).toEqual([]);
});

test("rules that delete objects are findings; that nobody may read them is said, and is none", async () => {
  const world = await aWellWorld();
  const rule = 'The rule "expire" deletes objects of this store 7 days after they were put';
  expect(bucketFindings(await examine(world, { deletionRules: async () => [rule] }))).toMatchObject([
    { check: "lifecycle", problem: `${rule}.` },
  ]);
  const unknown = await examine(world, { deletionRules: async () => null });
  expect(checks(unknown)).toEqual([]);
  expect(await textOf(unknown)).toMatch(/^rules +not readable .*: check by hand that no lifecycle rule/m);
});

test("the cost of a month and of a million attempts follows from the pace of the log and of the attempts", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  // 60 records and 200 attempts a minute.
  const began = world.platform.now();
  for (let minute = 0; minute < 4; minute++)
    for (let record = 0; record < 60; record++) {
      await world.submit(store, 1);
      await world.advance(1000);
    }
  const table = new MetricTable();
  table.of("q", "n").outcomes[0] = 200;
  const first = Math.floor(began / minuteMs);
  const minutes = [0, 1, 2, 3, 4].map((at) => partPut(first + at, `part-${at}`, table.pack()));
  await store.putDocs(minutes);
  const condition = await examine(world);
  await store.close();
  const copy = await openStore(world.platform, `sqlite:${join(folder, `copy-${copies}.db`)}`);
  const costs = await readCosts(condition, defaultPrices, copy);
  await copy.close();
  const { records, spanMs } = condition.log;
  expect(records).toBeGreaterThan(240);
  expect(costs.putsPerMonth).toBeCloseTo((records / spanMs) * 30 * 86_400_000 * 5e-6, 9);
  expect(costs.perMillionAttempts).toBeCloseTo((((records / spanMs) * minuteMs) / 200) * 5, 9);
  const text = bucketLines(condition, defaultPrices, costs).join("\n");
  expect(text).toMatch(
    /^cost .*; PUTs of the log at the pace of its last 4m.*: 13 a month, 1\.5 for a million attempts$/m,
  );
  expect(await textOf(condition)).toMatch(/: 13 a month$/m);
});

test("a writer that lives is named, and one that is silent is a finding", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await world.submit(store, 1);
  const lives = await examine(world);
  expect(lives.writer).toMatchObject({ state: "writes", host: "virtual", pid: 1 });
  expect(checks(lives)).toEqual([]);
  // Its clock goes on, but none of its timers rings.
  const now = world.platform.now() + 60_000;
  const late = { ...world, platform: { ...world.platform, now: () => now } };
  const condition = await examine(late);
  expect(condition.writer).toMatchObject({ state: "silent", ageMs: 60_000 });
  expect(checks(condition)).toEqual(["writer"]);
  await store.close();
});

test("what a restore has kept is shown until a person deletes it", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await world.submit(store, 3);
  await store.close();
  const until = numberOf((await world.names(logPrefix)).at(-1) as string) - 2;
  const options = { platform: world.platform, until, takes: false, cacheFolder: folder };
  const { kept } = await restoreBucket(world.bucket.open(), options);
  const condition = await examine(world);
  expect(condition.kept).toEqual([kept]);
  expect(await textOf(condition)).toContain(`kept      ${kept}`);
  expect(checks(condition)).toEqual([]);
});

test("a record that was lost before a fence is missed by the next record with pages", async () => {
  const world = aBucketWorld(folder);
  for (let life = 0; life < 2; life++) {
    const store = await world.open();
    await world.submit(store, 3);
    await store.close();
  }
  const objects = world.bucket.open();
  const numbers = (await world.names(logPrefix)).map(numberOf);
  const kinds = await Promise.all(
    numbers.map(async (n) => decodeRecord(n, (await objects.get(logName(n))) as Uint8Array).kind),
  );
  const fence = numbers[kinds.lastIndexOf("fence")] as number;
  // The end of the first life becomes a void, as if nothing had been there.
  const spare = numbers.filter((_, at) => kinds[at] === "void")[0] as number;
  const end = numbers[kinds.indexOf("end")] as number;
  expect(end).toBeLessThan(fence);
  const head = decodeRecord(spare, (await objects.get(logName(spare))) as Uint8Array);
  const empty = encodeRecord({ ...head, n: end }, zstdCompressSync(bodyOf([], head.pageSize)));
  await objects.put(logName(end), empty.bytes, false);
  const condition = await examine(world);
  expect(condition.isWhole).toBe(false);
  expect(condition.broken[0]?.problem).toBe("it does not follow the record before it");
});
