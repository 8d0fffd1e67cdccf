import { expect, test } from "vitest";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { aClaim, aGate, aJob } from "../../../../test/support/builders.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { examineRedis, readRedisVersion } from "./examine.ts";

const redis = useOwnRedis();
let prefix: string;
let made = 0;

function next(): { url: string; platform: typeof nodePlatform } {
  // What a pattern would take for more than itself.
  prefix = `odd*[a]?\\ ${++made}`;
  return { url: `${redis.server.url}?prefix=${encodeURIComponent(prefix)}`, platform: nodePlatform };
}

test("looking at a server without a store makes none", async () => {
  const options = next();
  expect(await readRedisVersion(options)).toEqual({ from: 0, to: 1 });
  const { servers } = await examineRedis(options);
  expect(servers).toMatchObject([{ partitions: [], writesFile: true, durability: "relaxed" }]);
  expect(await redis.admin.dbsize()).toBe(0);
});

test("the kinds of keys are counted and weighed, of this store alone", async () => {
  const options = next();
  const store = await redis.open({ ...options, prefix });
  await (await redis.open({ ...next(), prefix })).submit([{ jobs: [aJob({ id: "other" })] }]);
  await store.submit([{ jobs: [aJob({ id: "a", tags: ["t"] }), aJob({ id: "b" })] }]);
  const [leased] = (await store.claim(aClaim({ max: 1 }))).jobs;
  await store.recordIfLeased([{ ...leased!, logs: ["line"] }]);
  await store.putGates([aGate("l:slack"), aGate("q:mail")]);
  const { servers } = await examineRedis(options);
  const [{ partitions, server: version, library, memory, connections } = {} as never] = servers;
  expect(partitions).toHaveLength(1);
  const { kinds, orphans, layout, epoch } = partitions[0]!;
  const spec = kinds.find(({ kind }) => kind === "spec");
  expect(spec).toMatchObject({ keys: 1, entries: 2, isPartial: false });
  expect(spec?.bytes).toBeGreaterThan(0);
  expect(kinds.find(({ kind }) => kind === "tag")).toMatchObject({ keys: 1, entries: 1 });
  expect(kinds.find(({ kind }) => kind === "gate")).toMatchObject({ keys: 1, entries: 2 });
  expect(orphans).toEqual([]);
  expect(layout).toBe(1);
  expect(epoch).toBe((await store.describe()).epoch);
  expect(version).toMatch(/^(Redis|Valkey) \d+\.\d+\.\d+$/);
  expect(library).toMatch(/^\d+ [0-9a-f]{16}$/);
  expect(memory.usedBytes).toBeGreaterThan(0);
  expect(memory.maxBytes).toBeGreaterThan(memory.usedBytes);
  expect(connections.open).toBeGreaterThan(0);
  expect(await readRedisVersion(options)).toEqual({ from: 1, to: 1 });
});

test("log lines and tags of jobs that are gone are found", async () => {
  const options = next();
  await (await redis.open({ ...options, prefix })).submit([{ jobs: [aJob({ id: "a", tags: ["t"] })] }]);
  const tag = `{${prefix}:0}`;
  await redis.admin.rpush(`${tag}:log:b99`, "line");
  await redis.admin.zadd(`${tag}:tag:gone`, 99, "b99");
  const { servers } = await examineRedis(options);
  expect(servers[0]?.partitions[0]?.orphans).toEqual([`${tag}:log:b99`, `${tag}:tag:gone`]);
});

test("a tag that a living job has too is no key to unlink, wherever the job stands among those that are gone", async () => {
  const options = next();
  const store = await redis.open({ ...options, prefix });
  await store.submit([{ jobs: [aJob({ id: "a", tags: ["t"] })] }]);
  const key = `{${prefix}:0}:tag:t`;
  const orphans = async (): Promise<unknown> =>
    (await examineRedis(options)).servers[0]?.partitions[0]?.orphans;
  await redis.admin.zadd(key, ...Array.from({ length: 150 }, (_, at) => [-1 - at, `x${at}`]).flat());
  expect(await orphans()).toEqual([]);
  await redis.admin.zremrangebyscore(key, 0, "+inf");
  expect(await orphans()).toEqual([key]);
});

test("a store of a newer layout, keys of another program, a wrong password and no server are told apart", async () => {
  const options = next();
  await redis.admin.hset(`{${prefix}:0}:meta`, "kind", "millrace", "version", "99");
  await expect(readRedisVersion(options)).rejects.toMatchObject({ code: "schema-newer" });
  await redis.admin.hset(`{${prefix}:0}:meta`, "kind", "theirs");
  await expect(readRedisVersion(options)).rejects.toMatchObject({ code: "not-a-store" });
  await redis.admin.set(`{${prefix}:0}:meta`, "theirs");
  await expect(readRedisVersion(options)).rejects.toMatchObject({ code: "not-a-store" });
  const other = (url: string): ReturnType<typeof readRedisVersion> =>
    readRedisVersion({ url, platform: nodePlatform });
  await expect(other(redis.server.url.replace("//", "//nobody:wrong@"))).rejects.toMatchObject({
    code: "store-denied",
  });
  await expect(other("redis://127.0.0.1:1")).rejects.toMatchObject({ code: "store-unavailable" });
});

test("what a user may not ask is left unknown", async () => {
  const options = next();
  await (await redis.open({ ...options, prefix })).submit([{ jobs: [aJob({ id: "a" })] }]);
  const user = ["on", ">secret", "~*", "+@hash", "+@connection", "+info", "+fcall"];
  await redis.admin.call("ACL", "SETUSER", "narrow", ...user);
  const url = options.url.replace("//", "//narrow:secret@");
  const { servers } = await examineRedis({ ...options, url });
  expect(servers).toMatchObject([
    { partitions: [], acknowledged: expect.stringMatching(/not known/) as unknown },
  ]);
});
