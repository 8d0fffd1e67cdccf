/**
 * A real Sentinel that watches a primary and its replica, and a store on a client of the caller's own that asks it for
 * the way: the primary is killed -9 under load, Sentinel promotes the replica by itself, and everybody goes on there.
 */
import { Redis } from "ioredis";
import type { RedisOptions } from "ioredis";
import { afterEach, beforeEach, expect, test } from "vitest";
import { job } from "../../src/engine/submit/job-definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { startRedis, startSentinel } from "../support/servers/redis-server.ts";
import type { RedisServer } from "../support/servers/redis-server.ts";
import { auditAll } from "../support/walk.ts";
import { until } from "../support/until.ts";
import { millOn } from "../support/mill-on.ts";

let primary: RedisServer;
let replica: RedisServer;
let sentinel: RedisServer;
const clients: Redis[] = [];

function connect(options: RedisOptions): Redis {
  const client = new Redis(options);
  client.on("error", () => undefined);
  clients.push(client);
  return client;
}

beforeEach(async () => {
  primary = await startRedis({ settings: [["repl-diskless-sync-delay", "0"]] });
  replica = await startRedis({ settings: [["replicaof", `127.0.0.1 ${primary.port}`]] });
  const onPrimary = connect({ port: primary.port });
  await until("the replica follows", async () =>
    /slave0:.*state=online/.test(await onPrimary.info("replication")),
  );
  sentinel = await startSentinel({ port: primary.port });
  const onSentinel = connect({ port: sentinel.port });
  await until("the sentinel knows the replica", async () => {
    const known = (await onSentinel.call("SENTINEL", "REPLICAS", "millrace")) as unknown[];
    return known.length === 1;
  });
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.disconnect();
  await sentinel.stop();
  await replica.stop();
  await primary.stop();
});

test("a failover that Sentinel makes is followed by itself: workers and producers go on, and no fence is seen twice", async () => {
  const client = connect({
    sentinels: [{ host: "127.0.0.1", port: sentinel.port }],
    name: "millrace",
    lazyConnect: true,
  });
  const store = await openRedisStore({ client, platform: nodePlatform, callTimeoutMs: 2000 });
  // A sentinel that got no processor for two seconds trusts its clock again only after thirty, and promotes nobody
  // until then.
  const mill = millOn(store, { giveUp: "60s" });
  const plain = job<number, number>("plain", { retry: { attempts: 50, backoff: 0 } });
  const fences: string[] = [];
  const run = handler(plain, async ({ id, fence, input }) => (fences.push(`${id}#${fence.value}`), input));
  await mill.work([run], { concurrency: 10, lease: "2s" });
  const { epoch } = await store.describe();
  const acknowledged: string[] = [];
  const produce = async (from: number, to: number): Promise<void> => {
    for (let number = from; number < to; number++)
      acknowledged.push((await mill.enqueue(plain, number, { id: `job-${number}` })).id);
  };
  const first = produce(0, 300);
  await until("some jobs have run", () => fences.length > 50);
  await primary.kill();
  await first;
  await produce(300, 400);
  const isOver = async (): Promise<boolean> => {
    const counts = await store.countJobs().catch(() => null);
    return counts !== null && counts.every(({ state }) => state === "completed");
  };
  await until("all that are there have ended", isOver);
  // Behind the failover nothing is lost.
  const late = acknowledged.filter((id) => Number(id.slice(4)) >= 300);
  expect((await store.readJobs(late)).every((each) => each?.state === "completed")).toBe(true);
  expect(new Set(fences).size).toBe(fences.length);
  expect((await store.describe()).epoch).toBeGreaterThanOrEqual(epoch);
  expect(await auditAll(store)).toEqual({});
  await mill.close();
});
