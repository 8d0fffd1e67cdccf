/**
 * What an acknowledgement is worth on every kind of server that is installed: its words, and what strict does there. Redis before 7.2 cannot wait
 * for its file; the cases that need it are then named as not run.
 */
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";
import { redisBinaries, startRedis } from "../support/redis-server.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { until } from "./chaos-run.ts";

const kinds = redisBinaries();

/** Whether a version like "valkey-server 8.0.1" has WAITAOF. */
function canWait({ version }: { readonly version: string }): boolean {
  const [major = 0, minor = 0] = (/[\d.]+$/.exec(version)?.[0] ?? "").split(".").map(Number);
  return major > 7 || (major === 7 && minor >= 2);
}

let server: RedisServer;
let admin: Redis;
let made = 0;
const opened: Store[] = [];

function useServer(binary: string): void {
  beforeAll(async () => {
    server = await startRedis({ binary });
    admin = new Redis(server.url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
    admin.on("error", () => undefined);
  }, 60_000);
  afterAll(async () => {
    admin.disconnect();
    await server.stop();
  });
  beforeEach(async () => {
    await admin.config("SET", "appendonly", "yes");
    await admin.config("SET", "appendfsync", "everysec");
    // A file that was just switched on holds nothing until its first rewrite has ended.
    await until("the file is whole", async () => {
      const said = await admin.info("persistence");
      return said.includes("aof_rewrite_in_progress:0") && said.includes("aof_rewrite_scheduled:0");
    });
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((store) => store.close()));
  });
}

async function open(durability?: "strict" | "relaxed", prefix: string = `own-${++made}`): Promise<Store> {
  const level = durability === undefined ? {} : { durability };
  const store = await openRedisStore({ url: server.url, platform: nodePlatform, prefix, ...level });
  opened.push(store);
  return store;
}

describe.each(kinds)("$version", ({ binary }) => {
  useServer(binary);

  test("says in words what an acknowledgement is worth, and gives no level that it cannot keep", async () => {
    expect(await (await open()).describe()).toMatchObject({
      durability: "relaxed",
      acknowledged: expect.stringMatching(/the last second may be lost/) as unknown,
      warnings: [],
    });
    await admin.config("SET", "appendfsync", "always");
    expect(await (await open("strict")).describe()).toMatchObject({
      durability: "strict",
      acknowledged: expect.stringMatching(/survives power loss/) as unknown,
    });
    await admin.config("SET", "appendonly", "no");
    await expect(open("strict")).rejects.toMatchObject({ code: "durability-refused" });
    await expect(open("relaxed")).rejects.toMatchObject({ code: "durability-refused" });
    expect(await (await open()).describe()).toMatchObject({
      durability: "memory",
      acknowledged: expect.stringMatching(/ends with the server/) as unknown,
    });
  });

  test("with appendfsync always an acknowledged life of a job is there after kill -9", async () => {
    await admin.config("SET", "appendfsync", "always");
    const store = await open("strict", "kept");
    await store.submit([{ jobs: [aJob({ id: "a" }), aJob({ id: "b" })] }]);
    const [leased] = (await store.claim(aClaim({ max: 1 }))).jobs;
    await store.settleIfLeased([aSettle(leased!, finish())]);
    await server.kill();
    await server.restart();
    const again = await open(undefined, "kept");
    expect((await again.readJobs(["a", "b"])).map((each) => each?.state)).toEqual(["completed", "ready"]);
  });
});

describe.each(kinds.filter(canWait))("$version, which can wait for its file", ({ binary }) => {
  useServer(binary);

  test("with everysec a strict store has each write waited for on disk, and reads are not", async () => {
    const store = await open("strict");
    await admin.config("RESETSTAT");
    const many = Array.from({ length: 20 }, (_, index) =>
      store.submit([{ jobs: [aJob({ id: `job-${index}` })] }]),
    );
    await Promise.all(many);
    await store.readJobs(["job-1"]);
    expect(await admin.info("commandstats")).toMatch(/cmdstat_waitaof:calls=20,/);
    expect((await store.describe()).durability).toBe("strict");
  });

  test("a file that is switched off under a strict store leaves writes unknown, never acknowledged", async () => {
    const store = await open("strict");
    await admin.config("SET", "appendonly", "no");
    await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toMatchObject({
      code: "outcome-unknown",
      outcome: "unknown",
    });
    await admin.config("SET", "appendonly", "yes");
    const repeated = await store.submit([{ jobs: [aJob({ id: "a" })], isRepeat: true }]);
    expect(repeated).toMatchObject([{ kind: "ok", hows: ["existing"] }]);
  });
});

describe.each(kinds.filter((kind) => !canWait(kind)))("$version, which cannot", ({ binary, version }) => {
  useServer(binary);

  test(`NOT RUN on ${version}: waiting for the file (WAITAOF). Strict with everysec is refused`, async () => {
    await expect(open("strict")).rejects.toMatchObject({ code: "durability-refused" });
  });
});
