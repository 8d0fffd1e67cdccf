/**
 * Two namespaces of one server, or beside one file: whatever one of them does, the other neither sees it, nor is told
 * of it, nor is stopped by it, nor takes it away.
 */
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { dutyNames } from "../../src/engine/duties/duty-tuning.ts";
import { handler, job, limit, Millrace } from "../../src/index.ts";
import { openStore } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { say, sayJson } from "../cli/run-millrace.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { findAll, readWholeFeed } from "../support/walk.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-namespaces-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
const closeLater = closeAfterEach();

const one = limit("one", { concurrency: 1 });
const guarded = job<string, string>("guarded", { queue: "work", limits: [one], tags: ["seen"] });
const plain = job<number, number>("plain", { queue: "other" });
const file = join(folder, "jobs.db");

const servers: [title: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${file}`],
  ["Postgres", () => database.url],
  ["Redis", () => redis.prefixes.url],
  ["Redis in four partitions", () => `${redis.prefixes.url}?partitions=4`],
];

describe.each(servers)("on %s", (_title, url) => {
  test("nothing of one namespace is seen, emitted or changed by another", async () => {
    const [here, there] = ["a", "b"].map((name) => `${name}_${randomBytes(6).toString("hex")}`) as [
      string,
      string,
    ];
    const store = await openStore(nodePlatform, url(), { namespace: there });
    const hints: string[] = [];
    store.watch(({ kind }) => hints.push(kind));
    let end: () => void = () => undefined;
    const open = async (namespace: string): Promise<Millrace> =>
      closeLater(await Millrace.open(url(), { namespace, log: false }));
    const [mine, theirs] = [await open(here), await open(there)];
    // Closed first, so that a failed test does not wait for the handler.
    closeLater({ close: async () => end() });

    const held = new Promise<void>((resolve) => (end = resolve));
    let begun: () => void = () => undefined;
    const running = new Promise<void>((resolve) => (begun = resolve));
    await mine.work([
      handler(guarded, async ({ input }) => {
        begun();
        await held;
        return input;
      }),
      handler(plain, ({ input }) => input),
    ]);
    const holder = await mine.enqueue(guarded, "mine");
    await running;
    const done = await mine.enqueue(plain, 1, { id: "same" });
    await mine.enqueue(plain, 1, { delay: "1h", unique: { key: "k" } });
    expect(await done.result()).toBe(1);
    await mine.kv.put("key", "mine");
    await mine.schedule("daily", plain, 2, { cron: "0 3 * * *" });
    await mine.queues.pause("work");
    await mine.queues.set("other", { attempts: 3 });
    await mine.retention.set({ completed: "1h" });

    expect(hints).toEqual([]);
    expect(await readWholeFeed(store)).toEqual([]);
    expect([await findAll(store), await store.countJobs(), await store.readRoutes()]).toEqual([[], [], []]);
    expect(await theirs.jobs.get(holder.id)).toBeNull();
    expect(await theirs.kv.get("key")).toBeUndefined();
    for (const list of [theirs.schedules, theirs.queues, theirs.limits, theirs.workers])
      expect(await list.list()).toEqual([]);
    expect((await theirs.duties.list()).filter(({ processes }) => processes > 0)).toEqual([]);
    expect(await theirs.retention.get()).toMatchObject({ completedMs: 7 * 86_400_000 });

    // The same id and key, a limit of which nothing is free in the other, a queue that is paused there.
    await theirs.work([handler(guarded, ({ input }) => input), handler(plain, ({ input }) => input)]);
    const own = await theirs.enqueue(guarded, "theirs");
    expect(await own.result()).toBe("theirs");
    expect(await (await theirs.enqueue(plain, 5, { id: "same" })).result()).toBe(5);
    expect(await (await theirs.enqueue(plain, 6, { unique: { key: "k" } })).result()).toBe(6);
    expect(hints.length).toBeGreaterThan(0);

    await theirs.retention.set({ completed: 0, failed: 0, other: 0, feed: 0 });
    expect(await theirs.jobs.cancel({ tag: "seen" })).toMatchObject({ cancelled: 0, signalled: 0 });
    for (const duty of dutyNames) await theirs.duties.run(duty);
    await theirs.jobs.delete({ queue: "other" });
    await theirs.queues.closeIntake("other");
    expect(await mine.jobs.counts()).toEqual({ work: { running: 1 }, other: { completed: 1, scheduled: 1 } });
    expect((await mine.enqueue(plain, 3)).id).not.toBe("");

    const args = ["--store", url(), "--namespace", there];
    expect(await sayJson(["counts", ...args])).toEqual({ queues: {} });
    expect((await say(["doctor", ...args])).code).toBe(0);
    const byEnvironment = await say(["counts", "--json", "--store", url()], { MILLRACE_NAMESPACE: here });
    expect(JSON.parse(byEnvironment.out)).toMatchObject({ queues: { work: { running: 1 } } });
    end();
    expect(await holder.result()).toBe("mine");
    await store.close();
  });
});

test("a namespace is a file beside the named one, a schema or a prefix, and nothing is made without it", async () => {
  closeLater(await Millrace.open(`sqlite:${file}`, { namespace: "billing" }));
  expect([existsSync(file), existsSync(join(folder, "jobs.billing.db"))]).toEqual([false, true]);
  closeLater(await Millrace.open(database.url, { namespace: "billing" }));
  const schemas = await database.query("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'millrace%'");
  expect(schemas.map(({ nspname }) => nspname)).toContain("millrace_billing");
  expect(schemas.map(({ nspname }) => nspname)).not.toContain("millrace");
});

test("a namespace on a pool of the caller's own is a schema there", async () => {
  const pool = new pg.Pool({ connectionString: database.url });
  const mill = await Millrace.open("postgres:", { namespace: "pooled", postgres: { pool } });
  await mill.enqueue(plain, 1);
  const [row] = await database.query("SELECT count(*)::int AS jobs FROM millrace_pooled.waiting");
  expect(row).toEqual({ jobs: 1 });
  await mill.close();
  await pool.end();
});

test("every lock that functions of a schema take is named by the schema", async () => {
  closeLater(await Millrace.open(database.url, { namespace: "locks" }));
  const [row] = await database.query(
    `SELECT string_agg(prosrc, ' ') AS sources FROM pg_proc WHERE pronamespace = 'millrace_locks'::regnamespace`,
  );
  const sources = String(row?.["sources"]);
  const locks = [...sources.matchAll(/hashtextextended\(('[^']*')/g)].map(([, name]) => name);
  expect(locks.length).toBeGreaterThan(5);
  expect(locks.filter((name) => !name?.startsWith(`'"millrace_locks".`))).toEqual([]);
});

test.each(["", "A", "1a", "a-b", "a.b", 'a"b', "../a", "a".repeat(41), 7 as unknown as string])(
  "the namespace %j is refused before anything is opened",
  async (namespace) => {
    await expect(Millrace.open(`sqlite:${file}`, { namespace })).rejects.toMatchObject({
      code: "invalid-option",
    });
  },
);

test.each([
  ["postgres://host/jobs?schema=x", {}],
  ["redis://host?prefix=x", {}],
  ["postgres://host/jobs", { postgres: { schema: "x" } }],
  ["redis://host", { redis: { prefix: "x" } }],
])("%s with %j and a namespace is refused: either says where the store lives", async (url, options) => {
  await expect(Millrace.open(url, { namespace: "a", ...options })).rejects.toThrow("are both given");
});
