/**
 * A bucket on disk as applications use it: what works as on a file, what a view can do, what is refused by name.
 * MILLRACE_VIEWS=100 opens N views while a writer drains.
 */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import type { MillraceOptions } from "../../src/client/millrace-options.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { openMillrace } from "../../src/open.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { hangMs } from "../support/hang-ms.ts";
import { until } from "../support/until.ts";

const root = mkdtempSync(join(tmpdir(), "millrace-bucket-folder-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const closeLater = closeAfterEach();
const views = Number(process.env["MILLRACE_VIEWS"] ?? 6);
const work = job<number, string>("work");
const follow = job<string, null>("follow");
let [folder, url, cacheFolder] = ["", "", ""];
let buckets = 0;
beforeEach(() => {
  buckets += 1;
  folder = join(root, `bucket-${buckets}`);
  cacheFolder = join(root, `cache-${buckets}`);
  url = `file://${folder}`;
});

const open = async (bucket: MillraceOptions["bucket"] = {}, rest: MillraceOptions = {}): Promise<Millrace> =>
  closeLater(await openMillrace(url, { log: false, ...rest, bucket: { cacheFolder, ...bucket } }));

test("effects of a settle and the store's own documents work as on a file: follow-ups, KV, and both or none", async () => {
  const mill = await open();
  await mill.kv.put("counter", { value: 1 });
  const failing = job<null>("failing", { retry: { attempts: 1 } });
  await mill.work([
    handler(work, async (context) => {
      context.enqueue(follow, context.id);
      context.kv.put("from", context.id);
      return `done ${context.input}`;
    }),
    handler(follow, () => null),
    handler(failing, (context) => {
      context.enqueue(follow, "never");
      context.kv.put("never", true);
      throw new Error("no");
    }),
  ]);
  const handle = await mill.enqueue(work, 1);
  expect(await handle.result({ timeout: hangMs })).toBe("done 1");
  const failed = await mill.enqueue(failing, null);
  await expect(failed.result({ timeout: hangMs })).rejects.toMatchObject({ code: "job-failed" });
  await until("the follow-up has ended", async () => {
    const { jobs } = await mill.jobs.list({ name: "follow" });
    return jobs.length === 1 && jobs[0]?.state === "completed";
  });
  await mill.close();
  const again = await open();
  expect(await again.kv.get("counter")).toEqual({ value: 1 });
  expect(await again.kv.get("from")).toBe(handle.id);
  expect(await again.kv.get("never")).toBeUndefined();
});

test("what a bucket cannot do is refused by its name, with what to do instead", async () => {
  const mill = await open();
  expect(() => mill.in({} as never)).toThrow(
    expect.objectContaining({ code: "not-in-transaction" }) as Error,
  );
  await expect(open({}, { durability: "relaxed" })).rejects.toMatchObject({ code: "durability-refused" });
  const wrong: MillraceOptions[] = [
    { sqlite: { executor: "thread" } },
    { postgres: {} },
    { bucket: { view: true, whenHeld: "take" } },
    { bucket: { view: true, callTimeout: 5 } },
    { bucket: { whenHeld: "never" as never } },
    { bucket: { signal: {} as never } },
    { bucket: { cacheFolder: "" } },
  ];
  for (const options of wrong)
    await expect(openMillrace(url, { log: false, ...options })).rejects.toMatchObject({
      code: "invalid-option",
    });
});

test("a second opener is told who writes, and the writer goes on", async () => {
  const mill = await open();
  await expect(open()).rejects.toMatchObject({
    code: "store-held",
    message: expect.stringContaining(`Process ${process.pid} on `) as unknown,
  });
  await mill.enqueue(work, 1);
});

test("an opener removes the copy that a killed process left, and no other folder of a like name", async () => {
  const beside = join(root, `beside-${buckets}`);
  url = `file://${join(beside, "millrace-bucket-mine")}`;
  const left = join(beside, "millrace-bucket-aB3dE6");
  const notes = join(beside, "millrace-bucket-notes1");
  const living = join(beside, "millrace-bucket-living");
  for (const made of [left, notes, living]) mkdirSync(made, { recursive: true });
  for (const file of ["lock.db", "store.db", "store.db-wal", "store.db-wake"])
    writeFileSync(join(left, file), "");
  for (const file of ["lock.db", "store.db", "read.me"]) writeFileSync(join(notes, file), "");
  writeFileSync(join(living, "store.db"), "");
  const mine = await open({ cacheFolder: beside });
  const { id } = await mine.enqueue(work, 1);
  await mine.close();
  const names = readdirSync(beside);
  const longAgo = new Date(0);
  for (const name of names) utimesSync(join(beside, name), longAgo, longAgo);
  const other = await openMillrace(`file://${folder}`, { log: false, bucket: { cacheFolder: beside } });
  await other.close();
  expect(readdirSync(beside).toSorted()).toEqual(
    ["millrace-bucket-living", "millrace-bucket-mine", "millrace-bucket-notes1"].toSorted(),
  );
  const again = await open();
  expect(await again.jobs.get(id)).toMatchObject({ state: "ready" });
});

describe("a view", () => {
  test("shows what is acknowledged, waits for results and events, refuses every write and starts no worker", async () => {
    const writer = await open();
    const lines: string[] = [];
    const say = (line: string): void => void lines.push(line);
    const log = { debug: () => undefined, info: say, warn: say, error: say };
    const handle = await writer.enqueue(work, 1);
    const view = await open({ view: true }, { log });
    const events = view.events({ kinds: ["completed"] })[Symbol.asyncIterator]();
    const first = events.next();
    const result = view.handle(work, handle.id).result({ timeout: hangMs });
    await writer.work([handler(work, ({ input }) => `done ${input}`)]);
    expect(await result).toBe("done 1");
    expect((await first).value).toMatchObject({ jobId: handle.id });
    await events.return?.();
    expect(await view.explain(handle.id)).toMatchObject({ state: "completed" });
    expect((await view.describe()).view).toMatchObject({ writer: "writing" });
    const readOnly = { code: "store-read-only", outcome: "did-not-happen", retryable: false };
    const writes = [
      () => view.enqueue(work, 2),
      () => view.jobs.cancel(handle.id),
      () => view.jobs.delete(handle.id),
      () => view.kv.put("a", 1),
      () => view.queues.pause("default"),
      () => view.schedule("daily", work, 1, { every: "1d" }),
      () => view.work([handler(work, () => "")]),
      async () => view.duties.start(),
    ];
    for (const write of writes) await expect(write()).rejects.toMatchObject(readOnly);
    await view.close();
    expect(lines).toEqual([]);
  });

  test("is consistent at every look while a writer drains", async () => {
    const writer = await open();
    const jobs = 500;
    const unit = Array.from({ length: jobs }, (_, at) => work.with(at));
    await writer.enqueueMany(unit);
    const run = async (): Promise<string> => {
      await sleep(views / 3);
      return "done";
    };
    await writer.work([handler(work, run)], { concurrency: 2 });
    for (let looks = 0; looks < views; looks++) {
      const own = join(cacheFolder, `view-${looks}`);
      const view = await open({ view: true, cacheFolder: own });
      const [made] = readdirSync(own);
      const copy = new DatabaseSync(join(own, made as string, "store.db"), { readOnly: true });
      expect(copy.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
      copy.close();
      const { jobs: listed } = await view.jobs.list({ limit: 500 });
      expect(listed).toHaveLength(jobs);
      const { default: counted = {} } = await view.jobs.counts();
      const { held: _held, ...states } = counted as Record<string, number>;
      expect(Object.values(states).reduce((sum, count) => sum + count, 0)).toBe(jobs);
      await view.close();
      expect(readdirSync(own)).toEqual([]);
    }
  });
});

describe("bad input", () => {
  const refusal = (code: string, pattern: RegExp) => ({
    ...{ code, outcome: "did-not-happen" },
    message: expect.stringMatching(pattern) as unknown,
  });

  test("a folder that cannot be made, and a cache folder that is a file, are named", async () => {
    const file = join(root, `file-${buckets}`);
    writeFileSync(file, "");
    await expect(open({ cacheFolder: file })).rejects.toMatchObject(
      refusal("store-unavailable", /The folder .*file-\d+ .*cacheFolder/),
    );
    url = `file://${file}`;
    await expect(open({})).rejects.toMatchObject(refusal("store-missing", /is not a folder/));
    url = `file://${join(root, "no", "such", "parent")}`;
    await expect(open({})).rejects.toMatchObject(refusal("store-missing", /make its parent folder/));
  });

  test("a newer layout is refused before anything is written", async () => {
    await (await open()).close();
    const head = join(folder, "millrace");
    writeFileSync(head, JSON.stringify({ ...JSON.parse(readFileSync(head, "utf8")), layout: 99 }));
    const before = everyFile(folder);
    for (const bucket of [{}, { whenHeld: "take" as const }, { view: true }])
      await expect(open(bucket)).rejects.toMatchObject(refusal("schema-newer", /Upgrade this process/));
    expect(everyFile(folder)).toEqual(before);
  });

  test.each(["torn", "damaged", "foreign"])(
    "a %s record is named, and nothing is written after it",
    async (how) => {
      const mill = await open();
      for (let at = 0; at < 3; at++) await mill.enqueue(work, at);
      await mill.close();
      const names = readdirSync(join(folder, "log")).toSorted();
      const [name, other] = names.slice(-2) as [string, string];
      const path = join(folder, "log", name);
      const bytes = readFileSync(path);
      if (how === "damaged") bytes.writeUInt8(bytes.readUInt8(bytes.length - 5) ^ 1, bytes.length - 5);
      const foreign = readFileSync(join(folder, "log", other));
      writeFileSync(path, how === "torn" ? bytes.subarray(0, 50) : how === "foreign" ? foreign : bytes);
      const before = everyFile(folder);
      await expect(open({})).rejects.toMatchObject(
        refusal("store-corrupt", new RegExp(`log/${name} .*millrace restore --until`)),
      );
      await expect(open({ view: true })).rejects.toMatchObject(
        refusal("store-corrupt", new RegExp(`log/${name} `)),
      );
      expect(everyFile(folder)).toEqual(before);
    },
  );

  test.each(["", '{"lay', "null", "{}", '{"layout":1,"pageSize":0}', '{"layout":"1","pageSize":4096}'])(
    "a head that is %j is named; after its removal a writer makes it anew",
    async (text) => {
      const mill = await open();
      const { id } = await mill.enqueue(work, 1);
      await mill.close();
      const head = join(folder, "millrace");
      writeFileSync(head, text);
      const before = everyFile(folder);
      for (const bucket of [{}, { whenHeld: "take" as const }, { view: true }])
        await expect(open(bucket)).rejects.toMatchObject(
          refusal("store-corrupt", /The object millrace .*Remove this one object/),
        );
      expect(everyFile(folder)).toEqual(before);
      rmSync(head);
      const again = await open();
      expect(await again.jobs.get(id)).toMatchObject({ state: "ready" });
    },
  );

  test("two stores on one cache folder do not meet", async () => {
    const one = await open();
    url = `file://${folder}-other`;
    const other = await open();
    const handles = [await one.enqueue(work, 1), await other.enqueue(work, 2)];
    await one.close();
    expect(await other.jobs.get(handles[1]?.id as string)).toMatchObject({ state: "ready" });
  });

  test("a bucket that is deleted while it is open acknowledges nothing more, and says so", async () => {
    const mill = await open({ callTimeout: 300 }, { giveUp: 300 });
    // A slow disk may take longer than the time-out.
    await until("a job is acknowledged", async () => {
      const handle = await mill.enqueue(work, 1, { id: "first" }).catch(() => null);
      return handle !== null;
    });
    rmSync(folder, { recursive: true, force: true });
    const failed = await mill.enqueue(work, 2).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: "outcome-unknown", outcome: "unknown" });
    await until("calls are refused", async () => {
      const error = await mill.enqueue(work, 3).catch((reason: unknown) => reason);
      return (error as { outcome?: string }).outcome === "did-not-happen";
    });
    await expect(mill.enqueue(work, 3)).rejects.toMatchObject({ code: "store-missing" });
  });
});

function everyFile(parent: string): string[] {
  return readdirSync(parent, { recursive: true }).map(String).toSorted();
}
