/**
 * A Redis server of its own that syncs every write: killed under load, and its append-only file cut short.
 */
import { readdirSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";
import { startRedis } from "../support/servers/redis-server.ts";
import type { TestServer } from "../support/servers/test-server.ts";
import { auditAll } from "../support/walk.ts";
import type { ChaosPlace } from "./chaos-run.ts";
import { describeCrashes } from "./crash-suite.ts";
import { answers, until } from "../support/until.ts";

let cases = 0;
const start = (): Promise<TestServer> => startRedis({ settings: [["appendfsync", "always"]] });

async function open(server: TestServer): Promise<ChaosPlace> {
  const url = `${server.url}?prefix=case-${++cases}`;
  return { url, store: await openRedisStore({ url, platform: nodePlatform, durability: "strict" }) };
}

describeCrashes({ title: "a Redis server that crashes", isSerial: true, start, open });

test("an append-only file that lost its end loses whole calls only, and no fence is given twice", async () => {
  const server = await start();
  onTestFinished(() => server.stop());
  const { store } = await open(server);
  onTestFinished(() => store.close());
  await store.submit([{ jobs: [aJob({ id: "a" }), aJob({ id: "b" })] }]);
  const kept = statSync(aofPath(server)).size;
  const [lost] = (await store.claim(aClaim({ leaseMs: 60_000 }))).jobs;
  await store.submit([{ jobs: [aJob({ id: "c" })] }]);
  await server.kill();
  // Somewhere inside what the claim wrote.
  truncateSync(aofPath(server), kept + 100);
  await server.restart();
  await until("the store answers", () => answers(store));
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

function aofPath({ folder: files }: TestServer): string {
  const folder = join(files, "appendonlydir");
  const name = readdirSync(folder)
    .filter((each) => each.endsWith(".incr.aof"))
    .toSorted()
    .at(-1) as string;
  return join(folder, name);
}
