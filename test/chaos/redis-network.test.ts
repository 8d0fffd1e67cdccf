/**
 * A real Redis behind a proxy that breaks connections: what a lost reply, a lost request, a reset, a paused and a silent server look like to
 * the caller, that repeating makes no second job, and that a worker is never silent afterwards.
 */
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import { job } from "../../src/engine/definition.ts";
import { Engine } from "../../src/engine/engine.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Hint, Store } from "../../src/store/store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";
import { startRedis } from "../support/redis-server.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { openTcpProxy } from "../support/tcp-proxy.ts";
import type { TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "./chaos-run.ts";

let server: RedisServer;
let admin: Redis;
let proxy: TcpProxy;
/** Through the proxy, and past it. */
let store: Store;
let direct: Store;
let prefix: string;
let cases = 0;
const callTimeoutMs = 700;
const opened: Millrace[] = [];

beforeAll(async () => {
  server = await startRedis();
  admin = new Redis(server.url, { maxRetriesPerRequest: null });
  admin.on("error", () => undefined);
}, 180_000);
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});
beforeEach(async () => {
  prefix = `case-${++cases}`;
  proxy = await openTcpProxy({ port: server.port });
  const url = `redis://127.0.0.1:${proxy.port}`;
  direct = await openRedisStore({ url: server.url, platform: nodePlatform, prefix });
  store = await openRedisStore({ url, platform: nodePlatform, prefix, callTimeoutMs });
});
afterEach(async () => {
  proxy.heal();
  await Promise.all(opened.splice(0).map((mill) => mill.close()));
  await store.close();
  await direct.close();
  await proxy.close();
});

const coded = (code: string, outcome: string) => expect.objectContaining({ code, outcome });
const unknown = coded("outcome-unknown", "unknown");
const away = coded("store-unavailable", "did-not-happen");
const count = async (): Promise<number> =>
  (await direct.tallyJobs()).reduce((sum, each) => sum + each.count, 0);
const answers = (): Promise<boolean> =>
  store.describe().then(
    () => true,
    () => false,
  );
/** Connections that listen for hints of this case. */
const listeners = async (): Promise<number> =>
  ((await admin.call("PUBSUB", "NUMSUB", `{${prefix}:0}:hint`)) as [string, number])[1];

function openMill(on: Store, giveUp: string): Millrace {
  const { settings, log, duties } = readMillraceOptions(nodePlatform, { giveUp, log: false });
  const mill = new Millrace(new Engine(on, nodePlatform, settings, log), duties);
  opened.push(mill);
  return mill;
}

const plain = job<number, number>("plain", { retry: { attempts: 50, backoff: 0 } });
const echo = handler(plain, async ({ input }) => input);

test("a reply lost after the server did the call is unknown, and repeating the submit makes no second job", async () => {
  const cut = proxy.cutReply("mr1_submit");
  const unit = { jobs: [aJob({ id: "a", unique: { key: "k", hold: 60_000, onHeld: "keep" as const } })] };
  await expect(store.submit([unit])).rejects.toThrow(unknown);
  await cut;
  expect(await count()).toBe(1);
  expect(await store.submit([{ ...unit, isRepeat: true }])).toEqual([
    { kind: "ok", ids: ["a"], hows: ["existing"] },
  ]);
  const withKey = { jobs: [aJob({ id: "b", unique: { key: "k", hold: 60_000, onHeld: "keep" as const } })] };
  expect(await store.submit([withKey])).toMatchObject([{ kind: "ok", ids: ["a"] }]);
  expect(await count()).toBe(1);
});

test("a request that was lost on its way is unknown too, and repeating it makes the job", async () => {
  const dropped = proxy.dropRequest("mr1_submit");
  const unit = { jobs: [aJob({ id: "a" })] };
  await expect(store.submit([unit])).rejects.toThrow(unknown);
  await dropped;
  expect(await count()).toBe(0);
  expect(await store.submit([{ ...unit, isRepeat: true }])).toEqual([
    { kind: "ok", ids: ["a"], hows: ["created"] },
  ]);
  expect(await count()).toBe(1);
});

test("a claim whose reply was lost is found again by its owner, and a settle whose reply was lost was applied", async () => {
  await store.submit([{ jobs: [aJob({ id: "a" })] }]);
  const cutClaim = proxy.cutReply("mr1_claim");
  await expect(store.claim(aClaim({ leaseMs: 60_000 }))).rejects.toThrow(unknown);
  await cutClaim;
  const renewal = { owner: "w1", leaseMs: 60_000, leases: [], wantsOthers: true };
  const { others } = await store.extendIfLeased(renewal);
  expect(others).toMatchObject([{ id: "a" }]);
  const settle = aSettle(others?.[0] as never, finish());
  const cutSettle = proxy.cutReply("mr1_settle");
  await expect(store.settleIfLeased([settle])).rejects.toThrow(unknown);
  await cutSettle;
  expect(await store.settleIfLeased([settle])).toEqual([{ kind: "already" }]);
});

test("a read is only unavailable, and so is a call that no connection could be made for", async () => {
  const dropped = proxy.dropRequest("mr1_read_jobs");
  await expect(store.readJobs(["a"])).rejects.toThrow(away);
  await dropped;
  proxy.isRefusing = true;
  proxy.cut();
  await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toThrow(away);
  expect(await count()).toBe(0);
  proxy.heal();
  await until("the store answers", answers);
  expect(await store.readJobs(["a"])).toEqual([null]);
});

test("a connection that falls silent ends its calls as unknown and is replaced, without anybody closing it", async () => {
  await store.readJobs(["a"]);
  proxy.halfOpen();
  await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toThrow(unknown);
  expect(await count()).toBe(0);
  // While new connections are swallowed too, calls say so within their time.
  await expect(store.readJobs(["a"])).rejects.toThrow(away);
  proxy.speakAgain();
  await until("the store answers on a new connection", answers);
  proxy.oneWay();
  await expect(store.submit([{ jobs: [aJob({ id: "b" })] }])).rejects.toThrow(unknown);
  proxy.speakAgain();
  await until("the store answers on a new connection", answers);
  expect(await count()).toBe(1);
  await store.submit([{ jobs: [aJob({ id: "c" })] }]);
  expect((await direct.readJobs(["a", "b", "c"])).map((each) => each?.id)).toEqual([undefined, "b", "c"]);
});

test("a listening connection that falls silent is found by its ping, and the new one hears", async () => {
  const hints: Hint[] = [];
  store.watch((hint) => hints.push(hint));
  await until("the store listens", async () => (await listeners()) === 1);
  const before = (await admin.client("LIST", "TYPE", "PUBSUB")) as string;
  proxy.halfOpen();
  proxy.speakAgain();
  const ids = (list: string): string[] => [...list.matchAll(/^id=(\d+)/gm)].map(([, id = ""]) => id);
  await until("another connection listens", async () => {
    const now = ids((await admin.client("LIST", "TYPE", "PUBSUB")) as string);
    return now.some((id) => !ids(before).includes(id));
  });
  await until("it hears", async () => {
    await direct.submit([{ jobs: [aJob({ id: `x-${nodePlatform.monotonicUs()}` })] }]);
    return hints.some(({ kind }) => kind === "ready");
  });
  expect(await listeners()).toBeGreaterThan(0);
});

test("while the server is paused calls end as unknown; afterwards each acknowledged or repeated job is there once", async () => {
  const mill = openMill(store, "20s");
  await mill.work([echo], { lease: "3s" });
  await (await mill.enqueue(plain, 0)).result({ timeout: "10s" });
  await admin.call("CLIENT", "PAUSE", "1500", "ALL");
  await expect(store.submit([{ jobs: [aJob({ id: "late" })] }])).rejects.toThrow(unknown);
  const handles = await Promise.all([1, 2, 3].map((number) => mill.enqueue(plain, number)));
  const results = await Promise.all(handles.map((handle) => handle.result({ timeout: "20s" })));
  expect(results).toEqual([1, 2, 3]);
  const tallies = await direct.tallyJobs();
  expect(tallies.filter(({ state }) => state === "completed")).toMatchObject([{ count: 4 }]);
});

test("a worker goes on after both of its connections were killed by the server, and hears of others' jobs at once", async () => {
  const mill = openMill(store, "10s");
  await mill.work([echo]);
  const other = openMill(direct, "10s");
  expect(await (await other.enqueue(plain, 1)).result({ timeout: "10s" })).toBe(1);
  for (let round = 2; round < 5; round++) {
    await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    expect(await (await other.enqueue(plain, round)).result({ timeout: "10s" })).toBe(round);
  }
  await until("both listen again", async () => (await listeners()) === 2);
});

test("a library flushed under load is loaded again, and nothing is lost or run twice", async () => {
  const mill = openMill(store, "20s");
  const runs = new Map<number, number>();
  const counted = handler(plain, async ({ input }) => (runs.set(input, (runs.get(input) ?? 0) + 1), input));
  await mill.work([counted], { concurrency: 10 });
  const handles = [];
  for (let number = 0; number < 300; number += 10) {
    const batch = Array.from({ length: 10 }, (_, index) => plain.with(number + index));
    handles.push(...(await mill.enqueueMany(batch)));
    if (number % 50 === 0) await admin.call("FUNCTION", "FLUSH", "SYNC");
  }
  await Promise.all(handles.map((handle) => handle.result({ timeout: "20s" })));
  expect(runs.size).toBe(300);
  expect([...runs.values()].every((times) => times === 1)).toBe(true);
  expect(await direct.tallyJobs()).toMatchObject([{ state: "completed", count: 300 }]);
});

test("an application's enqueue survives lost replies and requests, and one that gives up can be repeated with its key", async () => {
  const mill = openMill(store, "10s");
  const cut = proxy.cutReply("mr1_submit");
  await mill.enqueue(plain, 1);
  await cut;
  const dropped = proxy.dropRequest("mr1_submit");
  await mill.enqueue(plain, 2);
  await dropped;
  expect(await count()).toBe(2);
  const hasty = openMill(store, "1ms");
  const lost = proxy.cutReply("mr1_submit").then(() => void (proxy.isRefusing = true));
  await expect(hasty.enqueue(plain, 3, { id: "order-3", unique: "order-3" })).rejects.toThrow(unknown);
  await lost;
  proxy.heal();
  await until("the store answers", answers);
  const handle = await hasty.enqueue(plain, 3, { id: "order-3", unique: "order-3" });
  expect([handle.id, await count()]).toEqual(["order-3", 3]);
});

test("under load, with connections cut mid-call, replies late and in slices, each job is completed once", async () => {
  const mill = openMill(store, "20s");
  const runs = new Map<number, number>();
  const counted = handler(plain, async ({ input }) => (runs.set(input, (runs.get(input) ?? 0) + 1), input));
  await mill.work([counted], { concurrency: 10, lease: "2s" });
  const jobs = 300;
  proxy.delayMs = 3;
  proxy.sliceBytes = 100;
  let isOver = false;
  const cutting = (async () => {
    for (let cuts = 0; cuts < 12; cuts++) {
      const sofar = runs.size;
      await until("some more jobs have run", () => isOver || runs.size > sofar, 20_000);
      proxy.cut();
    }
    proxy.delayMs = proxy.sliceBytes = 0;
  })();
  const handles = [];
  for (let number = 0; number < jobs; number += 10) {
    const batch = Array.from({ length: 10 }, (_, index) =>
      plain.with(number + index, { id: `job-${number + index}` }),
    );
    handles.push(...(await mill.enqueueMany(batch)));
  }
  const results = await Promise.all(handles.map((handle) => handle.result({ timeout: "25s" })));
  isOver = true;
  await cutting;
  expect(results).toEqual(Array.from({ length: jobs }, (_, number) => number));
  expect(await direct.tallyJobs()).toMatchObject([{ state: "completed", count: jobs }]);
});

test("a server that takes no more connections says so, and an enqueue waits for one", async () => {
  const [, max] = (await admin.config("GET", "maxclients")) as [string, string];
  onTestFinished(async () => void (await admin.config("SET", "maxclients", max)));
  const list = ((await admin.client("LIST")) as string).trim().split("\n").length;
  await admin.config("SET", "maxclients", String(list));
  const url = server.url;
  await expect(openRedisStore({ url, platform: nodePlatform, prefix })).rejects.toThrow(
    coded("too-many-connections", "did-not-happen"),
  );
  // The store's connection is lost, and somebody else takes its place.
  await admin.config("SET", "maxclients", String(list - 1));
  proxy.cut();
  const mill = openMill(store, "20s");
  const waiting = mill.enqueue(plain, 1);
  await until("the store is refused", () =>
    store.readJobs(["a"]).then(
      () => false,
      (error: unknown) => coded("too-many-connections", "did-not-happen").asymmetricMatch(error),
    ),
  );
  await admin.config("SET", "maxclients", max);
  await waiting;
  expect(await count()).toBe(1);
});
