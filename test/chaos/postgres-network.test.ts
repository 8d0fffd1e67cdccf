/**
 * A real Postgres behind a proxy that breaks connections: what a lost reply, a lost request, a reset and a silent peer look like to the caller, and
 * that repeating makes no second job.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import { job } from "../../src/engine/definition.ts";
import { Engine } from "../../src/engine/engine.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";
import { createTestDatabase, postgresSources, SchemaPool } from "../support/postgres-shared.ts";
import type { PostgresSource, TestDatabase } from "../support/postgres-shared.ts";
import { openTcpProxy } from "../support/tcp-proxy.ts";
import type { TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "./chaos-run.ts";

let database: TestDatabase;
let schemas: SchemaPool;
let proxy: TcpProxy;
/** Through the proxy, and past it. */
let store: Store;
let direct: Store;
let schema: string;
const callTimeoutMs = 700;

beforeAll(async () => {
  database = await createTestDatabase(postgresSources()[0] as PostgresSource);
  schemas = new SchemaPool(database);
}, 120_000);
afterAll(() => database.drop());
beforeEach(async () => {
  const target = new URL(database.url);
  proxy = await openTcpProxy({ port: Number(target.port), host: target.hostname });
  const shared = { platform: nodePlatform, poolMax: 3 };
  direct = await schemas.open((url, given) =>
    openPostgresStore({ ...shared, url, schema: (schema = given) }),
  );
  const url = throughProxy(target);
  store = await openPostgresStore({ ...shared, url, schema, callTimeoutMs });
});
afterEach(async () => {
  proxy.heal();
  await store.close();
  await direct.close();
  await proxy.close();
});

function throughProxy(target: URL): string {
  const url = new URL(target);
  url.hostname = "127.0.0.1";
  url.port = String(proxy.port);
  return url.href;
}

const coded = (code: string, outcome: string) => expect.objectContaining({ code, outcome });
const unknown = coded("outcome-unknown", "unknown");
const count = async (): Promise<number> =>
  (await direct.tallyJobs()).reduce((sum, each) => sum + each.count, 0);

function openMill(on: Store, giveUp: string): Millrace {
  const { settings, log, duties } = readMillraceOptions(nodePlatform, { giveUp, log: false });
  return new Millrace(new Engine(on, nodePlatform, settings, log), duties);
}

test("a reply lost after the commit is reported as unknown, and repeating the submit makes no second job", async () => {
  const cut = proxy.cutReply("submit_one_v1");
  const unit = { jobs: [aJob({ id: "a" })] };
  await expect(store.submit([unit])).rejects.toThrow(unknown);
  await cut;
  expect(await count()).toBe(1);
  expect(await store.submit([{ ...unit, isRepeat: true }])).toEqual([
    { kind: "ok", ids: ["a"], hows: ["existing"] },
  ]);
  expect(await count()).toBe(1);
});

test("a request that was lost on its way is unknown too, and repeating it makes the job", async () => {
  const dropped = proxy.dropRequest("submit_one_v1");
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
  const cutClaim = proxy.cutReply("claim_v1");
  await expect(store.claim(aClaim({ leaseMs: 60_000 }))).rejects.toThrow(unknown);
  await cutClaim;
  const { others } = await store.extendIfLeased({
    owner: "w1",
    leaseMs: 60_000,
    leases: [],
    wantsOthers: true,
  });
  expect(others).toMatchObject([{ id: "a" }]);
  const settle = aSettle(others?.[0] as never, finish());
  const cutSettle = proxy.cutReply("settle_v1");
  await expect(store.settleIfLeased([settle])).rejects.toThrow(unknown);
  await cutSettle;
  expect(await store.settleIfLeased([settle])).toEqual([{ kind: "already" }]);
});

test("a read is only unavailable, and so is a call that no connection could be made for", async () => {
  const dropped = proxy.dropRequest("read_jobs_v1");
  await expect(store.readJobs(["a"])).rejects.toThrow(coded("store-unavailable", "did-not-happen"));
  await dropped;
  proxy.isRefusing = true;
  proxy.cut();
  await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toThrow(
    coded("store-unavailable", "did-not-happen"),
  );
  expect(await count()).toBe(0);
  proxy.heal();
  expect(await store.readJobs(["a"])).toEqual([null]);
});

test("a connection that falls silent ends its calls as unknown, and the next ones use another", async () => {
  const connectTwice = (): Promise<unknown> => Promise.all([store.readJobs(["a"]), store.readJobs(["a"])]);
  await connectTwice();
  proxy.halfOpen();
  await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toThrow(unknown);
  proxy.heal();
  expect(await count()).toBe(0);
  await connectTwice();
  proxy.oneWay();
  await expect(store.submit([{ jobs: [aJob({ id: "b" })] }])).rejects.toThrow(unknown);
  proxy.heal();
  expect(await count()).toBe(1);
  await store.submit([{ jobs: [aJob({ id: "c" })] }]);
  expect((await direct.readJobs(["a", "b", "c"])).map((each) => each?.id)).toEqual([undefined, "b", "c"]);
});

test("an application's enqueue survives lost replies and requests, and one that gives up can be repeated with its key", async () => {
  const plain = job<number>("plain");
  const mill = openMill(store, "10s");
  const cut = proxy.cutReply("submit_one_v1");
  await mill.enqueue(plain, 1);
  await cut;
  const dropped = proxy.dropRequest("submit_one_v1");
  await mill.enqueue(plain, 2);
  await dropped;
  expect(await count()).toBe(2);

  const hasty = openMill(store, "1ms");
  const lost = proxy.cutReply("submit_v1").then(() => void (proxy.isRefusing = true));
  await expect(hasty.enqueue(plain, 3, { id: "order-3", unique: "order-3" })).rejects.toThrow(unknown);
  await lost;
  proxy.heal();
  const handle = await hasty.enqueue(plain, 3, { id: "order-3", unique: "order-3" });
  expect([handle.id, await count()]).toEqual(["order-3", 3]);
});

test("under load, with connections cut mid-statement, replies late and in slices, each job is completed once", async () => {
  const mill = openMill(store, "20s");
  const work = job<number, number>("work", { retry: { attempts: 50, backoff: 0 } });
  const runs = new Map<number, number>();
  const run = handler(work, async ({ input }) => (runs.set(input, (runs.get(input) ?? 0) + 1), input));
  await mill.work([run], { concurrency: 10, lease: "2s" });
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
      work.with(number + index, { id: `job-${number + index}` }),
    );
    handles.push(...(await mill.enqueueMany(batch)));
  }
  const results = await Promise.all(handles.map((handle) => handle.result({ timeout: "40s" })));
  isOver = true;
  await cutting;
  expect(results).toEqual(Array.from({ length: jobs }, (_, number) => number));
  expect(await direct.tallyJobs()).toMatchObject([{ state: "completed", count: jobs }]);
  await mill.close();
}, 90_000);

test("a worker hears of jobs of others again after its listening connection was cut", async () => {
  const mill = openMill(store, "10s");
  const plain = job<number, number>("plain");
  await mill.work([handler(plain, async ({ input }) => input)]);
  const other = openMill(direct, "10s");
  expect(await (await other.enqueue(plain, 1)).result({ timeout: "10s" })).toBe(1);
  proxy.cut();
  expect(await (await other.enqueue(plain, 2)).result({ timeout: "15s" })).toBe(2);
  await mill.close();
});
