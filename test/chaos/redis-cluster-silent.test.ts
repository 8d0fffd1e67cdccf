/**
 * One primary of a cluster falls silent without a word, as a frozen machine does, for longer than any call waits. Jobs
 * on the partitions of the others run meanwhile; those of the silent one run once it is back. How soon the others start
 * is checked on the virtual clock (src/engine/log/missing-partitions.test.ts).
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { createPlacement } from "../../src/model/routing/placement.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { slotOf } from "../../src/stores/redis/connection/cluster-slot.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { sayJson } from "../cli/run-millrace.ts";
import { millOn } from "../support/mill-on.ts";
import { startRedisCluster } from "../support/servers/redis-cluster.ts";
import type { RedisCluster } from "../support/servers/redis-cluster.ts";
import { hangMs } from "../support/hang-ms.ts";
import { until } from "../support/until.ts";

const partitions = 16;
const silentMs = 12_000;
const placement = createPlacement(partitions);
const tick = job<null>("tick");

let cluster: RedisCluster;
const opened: Millrace[] = [];
beforeEach(async () => {
  // No failover comes in between: the server is silent, and stays the owner of its slots.
  cluster = await startRedisCluster({ nodeTimeoutMs: 120_000 });
});
afterEach(async () => {
  for (const { server } of cluster.primaries) server.process.kill("SIGCONT");
  await Promise.all(opened.splice(0).map((mill) => mill.close()));
  await cluster.stop();
});

async function openMill(): Promise<Millrace> {
  const store = await openRedisStore({ url: cluster.url, platform: nodePlatform, callTimeoutMs: 5000 });
  const mill = millOn(store, { giveUp: hangMs });
  opened.push(mill);
  return mill;
}

test("jobs of the other partitions run while it is silent, also those that become due, and none is lost", async () => {
  const producer = await openMill();
  const done = new Set<string>();
  const worker = await openMill();
  await worker.work([handler(tick, async ({ id }) => void done.add(id))], { concurrency: 20 });
  const victim = cluster.primaries[1]!;
  const silent = new Set<number>();
  for (let number = 0; number < partitions; number++)
    if ((await cluster.ownerOf(slotOf(`{millrace:${number}}`))) === victim) silent.add(number);
  expect(silent.size).toBeGreaterThan(0);

  const enqueue = (n: number, isElsewhere: boolean): Promise<unknown> => {
    for (let salt = 0; ; salt++) {
      const id = `job-${n}-${salt}`;
      if (silent.has(placement.ofId(id)) === isElsewhere) continue;
      return producer.enqueue(tick, null, { id, delay: n % 2 === 0 ? 0 : 1000 });
    }
  };
  let n = 0;
  for (; n < 20; n++) await enqueue(n, n % 4 < 2);
  await until("all run", () => done.size === 20);

  victim.server.process.kill("SIGSTOP");
  const stoppedAt = nodePlatform.now();
  const there = enqueue(n++, false);
  while (nodePlatform.now() - stoppedAt < silentMs) {
    await enqueue(n++, true);
    await new Promise((resolve) => void setTimeout(resolve, 50));
  }
  await until("the jobs of the others have run", () => done.size === n - 1);
  victim.server.process.kill("SIGCONT");
  await there;
  await until("the job of the silent one has run", () => done.size === n);
});

test("a process that opens meanwhile works on the other partitions, and those of the silent one come in", async () => {
  const id = (number: number): string => {
    for (let n = 0; ; n++) if (placement.ofId(`job-${n}`) === number) return `job-${n}`;
  };
  const producer = await openMill();
  for (let number = 0; number < partitions; number++) await producer.enqueue(tick, null, { id: id(number) });
  const owners = await Promise.all(
    Array.from({ length: partitions }, (_, number) => cluster.ownerOf(slotOf(`{millrace:${number}}`))),
  );
  // The one with partition 0, which would say how many there are.
  const silent = [...owners.keys()].filter((number) => owners[number] === owners[0]);
  owners[0]!.server.process.kill("SIGSTOP");

  const late = await openMill();
  const { jobs, missing } = await late.jobs.list({ limit: 100 });
  expect(missing).toEqual(silent);
  expect(jobs).toHaveLength(partitions - silent.length);
  expect(await sayJson(["list", "--store", cluster.url])).toMatchObject({ missing: silent });
  const done = new Set<string>();
  await late.work([handler(tick, async (run) => void done.add(run.id))]);
  await until("the jobs of the others have run", () => done.size === partitions - silent.length);

  owners[0]!.server.process.kill("SIGCONT");
  await until("all have run", () => done.size === partitions);
});
