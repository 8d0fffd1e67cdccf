/**
 * What an acknowledgement is worth on every kind of server that is installed: its words, and what strict does there.
 * Redis before 7.2 cannot wait for its file; the cases that need it are then named as not run.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";
import { redisBinaries } from "../support/servers/redis-server.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";
import type { OwnRedis } from "../support/servers/use-redis.ts";
import { until } from "../support/until.ts";

const kinds = redisBinaries();

/** Whether a version like "valkey-server 8.0.1" has WAITAOF. */
function canWait({ version }: { readonly version: string }): boolean {
  const [major = 0, minor = 0] = (/[\d.]+$/.exec(version)?.[0] ?? "").split(".").map(Number);
  return major > 7 || (major === 7 && minor >= 2);
}

/** Each case begins with the same settings. */
function useKind(binary: string): OwnRedis {
  const redis = useOwnRedis({ binary });
  beforeEach(async () => {
    const { admin } = redis;
    await admin.config("SET", "appendonly", "yes");
    await admin.config("SET", "appendfsync", "everysec");
    // A file that was just switched on holds nothing until its first rewrite has ended.
    await until("the file is whole", async () => {
      const said = await admin.info("persistence");
      return said.includes("aof_rewrite_in_progress:0") && said.includes("aof_rewrite_scheduled:0");
    });
  });
  return redis;
}

describe.each(kinds)("$version", ({ binary }) => {
  const redis = useKind(binary);

  test("says in words what an acknowledgement is worth, and gives no level that it cannot keep", async () => {
    expect(await (await redis.open()).describe()).toMatchObject({
      durability: "relaxed",
      acknowledged: expect.stringMatching(/the last second may be lost/) as unknown,
      warnings: [],
    });
    await redis.admin.config("SET", "appendfsync", "always");
    expect(await (await redis.open({ durability: "strict" })).describe()).toMatchObject({
      durability: "strict",
      acknowledged: expect.stringMatching(/survives power loss/) as unknown,
    });
    await redis.admin.config("SET", "appendonly", "no");
    await expect(redis.open({ durability: "strict" })).rejects.toMatchObject({ code: "durability-refused" });
    await expect(redis.open({ durability: "relaxed" })).rejects.toMatchObject({ code: "durability-refused" });
    expect(await (await redis.open()).describe()).toMatchObject({
      durability: "memory",
      acknowledged: expect.stringMatching(/ends with the server/) as unknown,
    });
  });

  test("with appendfsync always an acknowledged life of a job is there after kill -9", async () => {
    await redis.admin.config("SET", "appendfsync", "always");
    const store = await redis.open({ durability: "strict" });
    await store.submit([{ jobs: [aJob({ id: "a" }), aJob({ id: "b" })] }]);
    const [leased] = (await store.claim(aClaim({ max: 1 }))).jobs;
    await store.settleIfLeased([aSettle(leased!, finish())]);
    await redis.server.kill();
    await redis.server.restart();
    const again = await redis.open();
    expect((await again.readJobs(["a", "b"])).map((each) => each?.state)).toEqual(["completed", "ready"]);
  });
});

describe.each(kinds.filter(canWait))("$version, which can wait for its file", ({ binary }) => {
  const redis = useKind(binary);

  test("with everysec a strict store has each write waited for on disk, and reads are not", async () => {
    const store = await redis.open({ durability: "strict" });
    await redis.admin.config("RESETSTAT");
    const many = Array.from({ length: 20 }, (_, index) =>
      store.submit([{ jobs: [aJob({ id: `job-${index}` })] }]),
    );
    await Promise.all(many);
    await store.readJobs(["job-1"]);
    expect(await redis.admin.info("commandstats")).toMatch(/cmdstat_waitaof:calls=20,/);
    expect((await store.describe()).durability).toBe("strict");
  });

  test("a file that is switched off under a strict store leaves writes unknown, never acknowledged", async () => {
    const store = await redis.open({ durability: "strict" });
    await redis.admin.config("SET", "appendonly", "no");
    await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toMatchObject({
      code: "outcome-unknown",
      outcome: "unknown",
    });
    await redis.admin.config("SET", "appendonly", "yes");
    const repeated = await store.submit([{ jobs: [aJob({ id: "a" })], isRepeat: true }]);
    expect(repeated).toMatchObject([{ kind: "ok", hows: ["existing"] }]);
  });
});

describe.each(kinds.filter((kind) => !canWait(kind)))("$version, which cannot", ({ binary, version }) => {
  const redis = useKind(binary);

  test(`NOT RUN on ${version}: waiting for the file (WAITAOF). Strict with everysec is refused`, async () => {
    await expect(redis.open({ durability: "strict" })).rejects.toMatchObject({ code: "durability-refused" });
  });
});
