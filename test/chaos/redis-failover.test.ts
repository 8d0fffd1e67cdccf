/**
 * A primary with one replica behind a proxy that is switched over, as a virtual address or a name would be: what an
 * asynchronous failover may lose, that no fence is given twice, and that nobody is silent afterwards.
 */
import type { Redis } from "ioredis";
import { afterEach, beforeEach, expect, test } from "vitest";
import { job } from "../../src/engine/submit/job-definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { aClaim, aJob, aRoute, aSettle, finish } from "../support/builders.ts";
import { startRedis } from "../support/servers/redis-server.ts";
import type { RedisServer } from "../support/servers/redis-server.ts";
import { openTcpProxy } from "../support/servers/tcp-proxy.ts";
import type { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { connectAdmin } from "../support/servers/use-redis.ts";
import { auditAll } from "../support/walk.ts";
import { answers, until } from "../support/until.ts";
import { millOn } from "../support/mill-on.ts";
import { hangMs } from "../support/hang-ms.ts";

let primary: RedisServer;
let replica: RedisServer;
let onPrimary: Redis;
let onReplica: Redis;
/** Between replica and primary. */
let link: TcpProxy;
/** Between the store and whichever is the primary. */
let door: TcpProxy;
let target: { port: number };
let store: Store;

beforeEach(async () => {
  primary = await startRedis({ settings: [["repl-diskless-sync-delay", "0"]] });
  link = await openTcpProxy({ port: primary.port });
  replica = await startRedis({ settings: [["replicaof", `127.0.0.1 ${link.port}`]] });
  [onPrimary, onReplica] = [connectAdmin(primary), connectAdmin(replica)];
  target = { port: primary.port };
  door = await openTcpProxy(target);
  store = await openRedisStore({ url: `redis://127.0.0.1:${door.port}`, platform: nodePlatform });
  await until("the replica follows", isLevel);
});
afterEach(async () => {
  await store.close();
  onPrimary.disconnect();
  onReplica.disconnect();
  await door.close();
  await link.close();
  await replica.stop();
  await primary.stop();
});

const fieldOf = (info: string, name: string): string =>
  new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1] ?? "";

/** The replica has all that the primary wrote. */
async function isLevel(): Promise<boolean> {
  const [one, other] = await Promise.all([onPrimary.info("replication"), onReplica.info("replication")]);
  return (
    fieldOf(other, "master_link_status") === "up" &&
    fieldOf(one, "master_repl_offset") === fieldOf(other, "slave_repl_offset")
  );
}

async function failOver(): Promise<void> {
  await primary.kill();
  await onReplica.call("REPLICAOF", "NO", "ONE");
  target.port = replica.port;
  door.cut();
}

test("a failover that loses writes takes them back whole: lost claims are claimed again with higher fences, lost jobs can be repeated", async () => {
  await store.submit([{ jobs: [aJob({ id: "a" }), aJob({ id: "b" })] }]);
  const [a] = (await store.claim(aClaim({ max: 1, leaseMs: 60_000 }))).jobs;
  const { epoch } = await store.describe();
  await until("the replica has it", isLevel);
  link.halfOpen();
  // From here on nothing reaches the replica, and the primary does not know.
  const [b] = (await store.claim(aClaim({ owner: "w2", max: 1, leaseMs: 60_000 }))).jobs;
  expect([a?.id, b?.id]).toEqual(["a", "b"]);
  const unit = { jobs: [aJob({ id: "c" })] };
  expect(await store.submit([unit])).toMatchObject([{ kind: "ok" }]);
  await failOver();
  await until("the store answers", () => answers(store));

  expect((await store.describe()).epoch).toBeGreaterThan(epoch);
  expect(await auditAll(store)).toEqual({});
  expect(await store.readJobs(["c"])).toEqual([null]);
  expect(await store.submit([{ ...unit, isRepeat: true }])).toMatchObject([{ hows: ["created"] }]);
  // A lease that was replicated is still held; one that was not is given again, above every fence of before.
  const [again] = (await store.claim(aClaim({ owner: "w3", max: 1, leaseMs: 60_000 }))).jobs;
  expect(again?.id).toBe("b");
  expect(again!.fence).toBeGreaterThan(b!.fence);
  expect(await store.settleIfLeased([aSettle(b!, finish())])).toEqual([{ kind: "stale" }]);
  expect(await store.settleIfLeased([aSettle(a!, finish())])).toMatchObject([{ kind: "ok" }]);
  expect(await store.settleIfLeased([aSettle(again!, finish())])).toMatchObject([{ kind: "ok" }]);
});

test("a route that was lost with its first job is named again by the next one", async () => {
  await store.submit([{ jobs: [aJob({ id: "a", queue: "kept" })] }]);
  await until("the replica has it", isLevel);
  link.halfOpen();
  await store.submit([{ jobs: [aJob({ id: "b", queue: "lost" })] }]);
  await failOver();
  await until("the store answers", () => answers(store));
  expect((await store.readRoutes()).map(({ queue }) => queue)).toEqual(["kept"]);
  await store.submit([{ jobs: [aJob({ id: "c", queue: "lost" })] }]);
  const routes = ["kept", "lost"].map((queue) => aRoute({ queue }));
  const { jobs } = await store.claim(aClaim({ offers: [{ routes, max: 5 }] }));
  expect(jobs.map(({ id }) => id)).toEqual(["a", "c"]);
  expect((await store.readJobs(["c"])).map((job) => job?.queue)).toEqual(["lost"]);
});

test("a reader of the feed whose last records were lost sees all that come afterwards", async () => {
  await store.submit([{ jobs: [aJob({ id: "a" })] }]);
  await until("the replica has it", isLevel);
  link.halfOpen();
  for (const id of ["b", "c", "d"]) await store.submit([{ jobs: [aJob({ id })] }]);
  const { cursor } = await store.readFeed({ after: -1, max: 0 });
  await failOver();
  await until("the store answers", () => answers(store));
  for (const id of ["e", "f"]) await store.submit([{ jobs: [aJob({ id })] }]);
  const { records } = await store.readFeed({ after: cursor, max: 100 });
  expect(records.flatMap(({ events }) => events.map(({ id }) => id))).toEqual(["e", "f"]);
});

test("under load a killed primary costs at most the last acknowledged jobs; all that are there end, and no fence is seen twice", async () => {
  const mill = millOn(store, { giveUp: hangMs });
  const plain = job<number, number>("plain", { retry: { attempts: 50, backoff: 0 } });
  const fences: string[] = [];
  const run = handler(plain, async ({ id, fence, input }) => (fences.push(`${id}#${fence.value}`), input));
  await mill.work([run], { concurrency: 10, lease: "2s" });
  const acknowledged: string[] = [];
  const producing = (async () => {
    for (let number = 0; number < 600; number++)
      acknowledged.push((await mill.enqueue(plain, number, { id: `job-${number}` })).id);
  })();
  await until("some jobs have run", () => fences.length > 100);
  const before = acknowledged.length;
  await failOver();
  await producing;
  const isOver = async (): Promise<boolean> => {
    const counts = await store.countJobs().catch(() => null);
    return counts !== null && counts.every(({ state }) => state === "completed");
  };
  await until("all that are there have ended", isOver);
  const found = await store.readJobs(acknowledged);
  const lost = acknowledged.filter((_, index) => found[index] === null);
  // One stream is replicated in order, so what is lost is its end: nothing from before, and nothing from behind.
  const first = acknowledged.indexOf(lost[0] ?? "");
  expect(lost).toEqual(first < 0 ? [] : acknowledged.slice(first, first + lost.length));
  expect(lost.length).toBeLessThan(before);
  expect(new Set(fences).size).toBe(fences.length);
  expect(await auditAll(store)).toEqual({});
  await mill.close();
});

test("a primary that became a replica while connected is left, and the call goes to the new primary", async () => {
  await store.submit([{ jobs: [aJob({ id: "a" })] }]);
  await until("the replica has it", isLevel);
  await onReplica.call("REPLICAOF", "NO", "ONE");
  await onPrimary.call("REPLICAOF", "127.0.0.1", String(replica.port));
  await expect(store.submit([{ jobs: [aJob({ id: "b" })] }])).rejects.toMatchObject({
    code: "store-read-only",
    outcome: "did-not-happen",
  });
  // The name now leads to the new primary; nobody cuts the old connections.
  target.port = replica.port;
  expect(await store.submit([{ jobs: [aJob({ id: "b" })] }])).toMatchObject([{ kind: "ok" }]);
  expect((await store.readJobs(["a", "b"])).map((each) => each?.id)).toEqual(["a", "b"]);
});
