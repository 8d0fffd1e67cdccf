/**
 * A real server killed -9 under load, with producers and workers that go on; its append-only file cut short; all its keys flushed. The server
 * is this file's own and syncs every write, so that what it acknowledged is what must be there afterwards.
 */
import { readdirSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { checkHistory } from "../history/check-history.ts";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";
import { startRedis } from "../support/redis-server.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { auditAll } from "../support/walk.ts";
import { ChaosRun, until } from "./chaos-run.ts";

const leaseMs = 1500;

let server: RedisServer;
let admin: Redis;
let store: Store;
let run: ChaosRun;
let cases = 0;
beforeAll(async () => {
  server = await startRedis({ settings: [["appendfsync", "always"]] });
  admin = new Redis(server.url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  admin.on("error", () => undefined);
}, 180_000);
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});
beforeEach(async () => {
  const url = `${server.url}?prefix=case-${++cases}`;
  store = await openRedisStore({ url, platform: nodePlatform, durability: "strict" });
  run = new ChaosRun({ store, url }, leaseMs);
});
afterEach(async () => {
  await run.supervisor.killAll();
  await store.close();
});

const countCompleted = async (): Promise<number> => {
  const tallies = await store.tallyJobs().catch(() => []);
  return tallies.reduce((sum, { state, count }) => sum + (state === "completed" ? count : 0), 0);
};
const answers = (): Promise<boolean> =>
  store.describe().then(
    () => true,
    () => false,
  );

test("the server is killed -9 twice under load: producers and workers go on, and nothing acknowledged is lost", async () => {
  const jobs = 500;
  const workers = ["worker-1", "worker-2"].map((name) => run.start({ role: "worker", name }));
  await Promise.all(workers.map(({ ready }) => ready));
  const [half, rest] = [
    run.start({ role: "producer", name: "producer-1", to: jobs / 2, everyMs: 3 }),
    run.start({ role: "producer", name: "producer-2", from: jobs / 2 + 1, to: jobs, everyMs: 3 }),
  ];
  const { epoch } = await store.describe();
  for (const least of [60, 200]) {
    await until(`${least} jobs are completed`, async () => (await countCompleted()) >= least);
    await server.kill();
    await server.restart();
  }
  await Promise.all([half.exited, rest.exited]);
  await until("everything has ended", () => run.isDrained().catch(() => false));
  const evidence = await run.finish(false);

  expect(checkHistory(evidence).filter(({ invariant }) => invariant !== 31)).toEqual([]);
  const enqueues = evidence.operations.filter(({ kind }) => kind === "enqueue");
  expect(enqueues).toHaveLength(jobs);
  const acknowledged = enqueues.filter(({ seen }) => seen === "ok");
  expect(acknowledged.length).toBeGreaterThan(jobs / 2);
  const ended = evidence.snapshot.jobs.filter(({ name }) => name === "work");
  expect(ended.length).toBeGreaterThanOrEqual(acknowledged.length);
  expect(ended.every(({ state }) => state === "completed")).toBe(true);
  expect(workers.map(({ stopped }) => stopped?.notStopped)).toEqual([0, 0]);
  // Whatever a worker held over the crash, no fence was given twice.
  expect((await store.describe()).epoch).toBeGreaterThan(epoch);
}, 60_000);

test("an append-only file that lost its end loses whole calls only, and no fence is given twice", async () => {
  await store.submit([{ jobs: [aJob({ id: "a" }), aJob({ id: "b" })] }]);
  const kept = aofSize();
  const [lost] = (await store.claim(aClaim({ leaseMs: 60_000 }))).jobs;
  await store.submit([{ jobs: [aJob({ id: "c" })] }]);
  await server.kill();
  // Somewhere inside what the claim wrote.
  truncateSync(aofPath(), kept + 100);
  await server.restart();
  await until("the store answers", answers);
  expect(await auditAll(store)).toEqual({});
  expect((await store.readJobs(["a", "b", "c"])).map((each) => each?.state)).toEqual([
    "ready",
    "ready",
    undefined,
  ]);
  const [again] = (await store.claim(aClaim({ leaseMs: 60_000 }))).jobs;
  expect(again?.id).toBe(lost?.id);
  expect(again!.fence).toBeGreaterThan(lost!.fence);
  expect(await store.settleIfLeased([aSettle(lost!, finish())])).toEqual([{ kind: "stale" }]);
  expect(await store.settleIfLeased([aSettle(again!, finish())])).toMatchObject([{ kind: "ok" }]);
});

function aofPath(): string {
  const folder = join(server.folder, "appendonlydir");
  const name = readdirSync(folder)
    .filter((each) => each.endsWith(".incr.aof"))
    .toSorted()
    .at(-1) as string;
  return join(folder, name);
}

const aofSize = (): number => statSync(aofPath()).size;
