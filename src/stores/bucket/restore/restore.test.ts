import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { aBucketWorld, hourMs, namesOf } from "../../../../test/support/bucket-jobs.ts";
import type { BucketWorld } from "../../../../test/support/bucket-jobs.ts";
import { aChange, aClaim } from "../../../../test/support/builders.ts";
import { rowsOf } from "../../../../test/support/compared-bucket.ts";
import { deleteChange } from "../../../model/job/operate.ts";
import type { Store } from "../../../store/store.ts";
import { openSqliteStore } from "../../sqlite/sqlite-store.ts";
import { openBucketStore } from "../bucket-store.ts";
import { recordAt } from "./history.ts";
import { chunkPrefix, logName, logPrefix, markPrefix, numberOf } from "../layout.ts";
import { ObjectsError } from "../objects/objects.ts";
import type { Objects } from "../objects/objects.ts";
import { Replica } from "../copy/replica.ts";
import { restoreBucket, restoreToFile } from "./restore.ts";

let folder: string;
let files = 0;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "millrace-restore-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const aFile = (): string => join(folder, `copy-${(files += 1)}.db`);

async function jobsOf(store: Store): Promise<string[]> {
  const { jobs } = await store.findJobs({ filter: {}, max: 1000, scanMax: 1000, cursor: null });
  return jobs.map(({ id }) => id).sort();
}

async function lastRecord(world: BucketWorld): Promise<number> {
  return numberOf((await world.names(logPrefix)).at(-1) as string);
}

async function damage(world: BucketWorld, name: string): Promise<void> {
  const objects = world.bucket.open();
  const bytes = (await objects.get(name)) as Uint8Array;
  bytes[bytes.length - 1] = (bytes.at(-1) as number) ^ 1;
  await objects.put(name, bytes, false);
}

/** Three jobs, two more after the record that is answered, and a clean close. */
async function fiveJobs(world: BucketWorld): Promise<number> {
  const store = await world.open();
  await world.submit(store, 3);
  const until = await lastRecord(world);
  await world.submit(store, 2);
  await store.close();
  return until;
}

const restored = (world: BucketWorld, until: number, takes = false) =>
  restoreBucket(world.bucket.open(), { platform: world.platform, until, takes, cacheFolder: folder });

test("after a damaged record the store goes on from the record before it, under a higher epoch, and the rest is kept", async () => {
  const world = aBucketWorld(folder);
  const until = await fiveJobs(world);
  const before = await lastRecord(world);
  await damage(world, logName(until + 1));
  await expect(world.open()).rejects.toMatchObject({
    code: "store-corrupt",
    message: expect.stringContaining(`millrace restore --until ${until}.`) as string,
  });
  const done = await restored(world, until);
  expect(done).toMatchObject({ n: until, kept: `kept/${String(before).padStart(12, "0")}/` });
  expect(done.record).toBeGreaterThan(before);

  const store = await world.open();
  expect(await jobsOf(store)).toEqual(["job-1", "job-2", "job-3"]);
  expect((await store.describe()).epoch).toBeGreaterThan(done.epoch);
  await world.submit(store, 1);
  await store.close();
  const again = await world.open();
  expect(await jobsOf(again)).toEqual(["job-1", "job-2", "job-3", "job-6"]);
  await again.close();

  // What was thrown away is a bucket of its own, with the damaged record as it was.
  const kept = world.bucket.open(done.kept);
  expect(await namesOf(kept, logPrefix)).toContain(logName(before));
  const path = aFile();
  await expect(restoreToFile(kept, { path, until: null })).rejects.toMatchObject({ code: "store-corrupt" });
  expect(await restoreToFile(kept, { path, until })).toMatchObject({ n: until });
});

test("deleted jobs come back into a file that is a SQLite store, and the bucket stays as it is", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await world.submit(store, 3);
  const { jobs } = await store.claim(aClaim({ max: 1 }));
  // The claim lands at the latest with the next call that waits.
  await world.submit(store, 1);
  const until = await lastRecord(world);
  const ids = ["job-2", "job-3", "job-4"];
  await store.changeIf(ids.map((id) => aChange(id, deleteChange.states, deleteChange.next)));
  await store.close();
  const objects = await world.names("");
  const path = aFile();
  const { n } = await restoreToFile(world.bucket.open(), { path, until });
  expect(n).toBe(until);
  expect(await world.names("")).toEqual(objects);
  await world.advance(10_000);

  const copy = await openSqliteStore({ path, platform: world.platform });
  expect(await jobsOf(copy)).toEqual(["job-1", ...ids]);
  const claimed = await copy.claim(aClaim({ owner: "w2", max: 10 }));
  expect(claimed.jobs.map(({ id }) => id).sort()).toEqual(ids);
  // No fence that the bucket has given is given again.
  for (const job of claimed.jobs) expect(job.fence).toBeGreaterThan(jobs[0]?.fence as number);
  await copy.close();
  await expect(restoreToFile(world.bucket.open(), { path, until })).rejects.toMatchObject({
    code: "invalid-option",
    message: expect.stringContaining("exists already") as string,
  });
});

test("a damaged or missing chunk costs nothing: an older checkpoint and the log give the same store", async () => {
  const world = aBucketWorld(folder);
  let local: Record<string, unknown[]> = {};
  for (let life = 0; life < 2; life++) {
    const store = await openBucketStore({
      ...{ objects: world.bucket.open(), platform: world.platform, cacheFolder: folder },
      onClosed: async (path) => void (local = rowsOf(path)),
    });
    await world.submit(store, 110);
    await store.close();
  }
  expect(await world.names(markPrefix)).toHaveLength(2);
  const newest = (await world.names(chunkPrefix)).at(-1) as string;
  await damage(world, newest);
  await expect(world.open()).rejects.toMatchObject({
    code: "store-corrupt",
    message: expect.stringContaining(newest) as string,
  });
  const path = aFile();
  const { n } = await restoreToFile(world.bucket.open(), { path, until: null });
  expect(n).toBe(await lastRecord(world));
  const rows = rowsOf(path);
  const withoutEpoch = (all: Record<string, unknown[]>) =>
    (all["millrace_meta"] as { name: string }[]).filter(({ name }) => name !== "epoch");
  expect({ ...rows, millrace_meta: withoutEpoch(rows) }).toEqual({
    ...local,
    millrace_meta: withoutEpoch(local),
  });

  await world.bucket.open().remove([newest]);
  const done = await restored(world, n);
  // Nothing came after it: what lies between is void.
  expect(done.record).toBeGreaterThan(n + 1);
  expect(done.dropped).toBe(0);
  const store = await world.open();
  expect(await jobsOf(store)).toHaveLength(220);
  await store.close();
});

test("a writer that lives is not displaced unasked; if asked, it acknowledges nothing any more", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await world.submit(store, 3);
  const until = await lastRecord(world);
  await world.submit(store, 1);
  let ended: unknown = null;
  void restored(world, until).then(
    () => (ended = "restored"),
    (error: unknown) => (ended = (error as { code?: string }).code),
  );
  while (ended === null) await world.advance(1000);
  expect(ended).toBe("store-held");
  expect((await world.names("kept/")).length).toBe(0);

  await world.submit(store, 1);
  await restored(world, until, true);
  await expect(world.submit(store, 1)).rejects.toMatchObject({ code: "store-fenced" });
  await store.close();
  const next = await world.open();
  expect(await jobsOf(next)).toEqual(["job-1", "job-2", "job-3"]);
  await next.close();
});

test("a clean-up of the old writer that is under way takes nothing from a restored store", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await world.submit(store, 110);
  await store.close();
  const until = numberOf((await world.names(markPrefix))[0] as string);
  const old = await world.names(chunkPrefix);
  const objects = world.bucket.open();
  const raced: Objects = {
    put: async (name, bytes, ifAbsent) => {
      const answer = await objects.put(name, bytes, ifAbsent);
      // It has listed what it removes before there was another mark.
      if (name.startsWith(logPrefix)) await objects.remove(old);
      return answer;
    },
    get: (name) => objects.get(name),
    list: (prefix, after) => objects.list(prefix, after),
    remove: (names) => objects.remove(names),
    close: () => objects.close(),
  };
  await restoreBucket(raced, { platform: world.platform, until, takes: true, cacheFolder: folder });
  const heir = await world.open();
  expect(await jobsOf(heir)).toHaveLength(110);
  await heir.close();
});

test("a copy that follows the log goes through a restore", async () => {
  const world = aBucketWorld(folder);
  const path = aFile();
  const until = await fiveJobs(world);
  const replica = await Replica.restore(world.bucket.open(), { path, pageSize: 4096 });
  await restored(world, until);
  const store = await world.open();
  await world.submit(store, 1);
  await store.close();
  await replica.catchUp();
  expect(replica.n).toBe(await lastRecord(world));
  replica.close();
  const fresh = aFile();
  (await Replica.restore(world.bucket.open(), { path: fresh, pageSize: 4096 })).close();
  expect(rowsOf(path)).toEqual(rowsOf(fresh));
});

test("a restore that dies at any put leaves the store as it was or as it was to be, and can be made again", async () => {
  const all = ["job-1", "job-2", "job-3", "job-4", "job-5"];
  const codes = new Set<unknown>();
  for (let dies = 1; ; dies++) {
    const world = aBucketWorld(folder);
    const until = await fiveJobs(world);
    const objects = world.bucket.open();
    let puts = 0;
    const dying: Objects = {
      put: async (name, bytes, ifAbsent) => {
        const answer = await objects.put(name, bytes, ifAbsent);
        puts += 1;
        if (puts === dies) throw new ObjectsError("unreachable", "gone", { outcome: "unknown" });
        return answer;
      },
      get: (name) => objects.get(name),
      list: (prefix, after) => objects.list(prefix, after),
      remove: (names) => objects.remove(names),
      close: () => objects.close(),
    };
    const options = { platform: world.platform, until, takes: false, cacheFolder: folder };
    const code = await restoreBucket(dying, options).then(
      () => null,
      (error: { readonly code?: unknown }) => error.code,
    );
    const store = await world.open();
    const found = await jobsOf(store);
    expect([all, all.slice(0, 3)]).toContainEqual(found);
    await store.close();
    if (code === null) break;
    codes.add(code);
    if (code === "store-unavailable") expect(found).toEqual(all);
    await restored(world, until);
    const again = await world.open();
    expect(await jobsOf(again)).toEqual(all.slice(0, 3));
    await again.close();
  }
  expect(codes).toEqual(new Set(["store-unavailable", "outcome-unknown"]));
});

test("what the bucket does not reach is refused with what it does reach, and leaves no file", async () => {
  const world = aBucketWorld(folder);
  await fiveJobs(world);
  const last = await lastRecord(world);
  const path = aFile();
  await expect(restoreToFile(world.bucket.open(), { path, until: last + 1 })).rejects.toMatchObject({
    code: "invalid-option",
    message: expect.stringContaining(`from record 1 to ${last}`) as string,
  });
  expect(existsSync(path) || existsSync(`${path}.restoring`)).toBe(false);
});

test("a time stands for the last record before it", async () => {
  const world = aBucketWorld(folder);
  const store = await world.open();
  await world.submit(store, 2);
  const until = await lastRecord(world);
  const at = world.platform.now();
  await world.advance(hourMs);
  await world.submit(store, 1);
  await store.close();
  expect(await recordAt(world.bucket.open(), at)).toBe(until);
  expect(await recordAt(world.bucket.open(), at + 2 * hourMs)).toBe(await lastRecord(world));
  expect(await recordAt(world.bucket.open(), at - hourMs)).toBeNull();
});
