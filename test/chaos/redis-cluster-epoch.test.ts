/**
 * Two failovers in a row, of which the second loses even the raise of the epoch that the first one caused: the fences
 * given after it are above all that were given before, although nothing in the data says so.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Redis } from "ioredis";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { aChange, aClaim, aJob, schedule } from "../support/builders.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { startRedis } from "../support/servers/redis-server.ts";
import type { RedisServer } from "../support/servers/redis-server.ts";
import { until } from "../support/until.ts";

let primary: RedisServer;
let replicas: RedisServer[] = [];
beforeAll(async () => {
  primary = await startRedis();
  const settings = [["replicaof", `127.0.0.1 ${primary.port}`]] as const;
  replicas = [await startRedis({ settings }), await startRedis({ settings })];
});
afterAll(() => Promise.all([primary, ...replicas].map((server) => server.stop())));

const closeLater = closeAfterEach();

async function open({ url }: RedisServer): Promise<Store> {
  return closeLater(await openRedisStore({ url, platform: nodePlatform }));
}

/** Claims the job as a process does that knows nothing of the past. */
async function claimOn(server: RedisServer): Promise<number> {
  const store = await open(server);
  const [leased] = (await store.claim(aClaim({ max: 1 }))).jobs;
  return leased!.fence;
}

test("a raise that was lost is not repeated", async () => {
  const store = await open(primary);
  await store.submit([{ jobs: [aJob({ id: "a", digest: "d" })] }]);
  const [first] = (await store.claim(aClaim({ max: 1 }))).jobs;
  await store.changeIf([aChange("a", ["running"], schedule(0))]);
  const { epoch } = await store.describe();
  const [onPrimary, ...admins] = [primary, ...replicas].map(({ url }) => new Redis(url));
  // All that was done, and not only the first of it.
  const written = Number(/master_repl_offset:(\d+)/.exec(await onPrimary!.info("replication"))?.[1]);
  for (const admin of admins)
    await until("the replica has all", async () => {
      const info = await admin.info("replication");
      return (
        info.includes("master_link_status:up") && Number(/slave_repl_offset:(\d+)/.exec(info)?.[1]) >= written
      );
    });
  onPrimary!.disconnect();
  await primary.kill();

  const fences = [first!.fence];
  for (const [index, replica] of replicas.entries()) {
    await admins[index]!.replicaof("NO", "ONE");
    const { epoch: raised } = await (await open(replica)).describe();
    expect(raised).toBe(epoch + 1);
    fences.push(await claimOn(replica));
    await replica.kill();
  }
  for (const admin of admins) admin.disconnect();
  const [one, two, three] = fences as [number, number, number];
  expect(Math.floor(two / 2 ** 32)).toBe(Math.floor(three / 2 ** 32));
  expect([one < two, two < three]).toEqual([true, true]);
});

test("a write that must be on a replica is acknowledged when it is there, and not before", async () => {
  const alone = await startRedis();
  const follower = await startRedis({ settings: [["replicaof", `127.0.0.1 ${alone.port}`]] });
  const admin = new Redis(follower.url);
  try {
    const strict = { url: alone.url, platform: nodePlatform, replicas: 1, callTimeoutMs: 6000 };
    const store = closeLater(await openRedisStore(strict));
    await until("the replica follows", async () =>
      (await admin.info("replication")).includes("master_link_status:up"),
    );
    const submit = (id: string, isRepeat = false): ReturnType<Store["submit"]> =>
      store.submit([{ jobs: [aJob({ id })], isRepeat }]);
    expect(await submit("a")).toMatchObject([{ kind: "ok" }]);
    expect(await admin.hlen("{millrace:0}:spec")).toBe(1);
    follower.process.kill("SIGSTOP");
    await expect(submit("b")).rejects.toMatchObject({ code: "outcome-unknown" });
    follower.process.kill("SIGCONT");
    expect(await submit("b", true)).toMatchObject([{ hows: ["existing"] }]);
    await expect(
      openRedisStore({ url: alone.url, platform: nodePlatform, replicas: -1 }),
    ).rejects.toMatchObject({
      code: "invalid-option",
    });
  } finally {
    admin.disconnect();
    await Promise.all([alone.stop(), follower.stop()]);
  }
});
