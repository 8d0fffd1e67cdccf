/**
 * `millrace doctor` on a real server that an administrator has set up badly: each fault is a finding that says what to
 * do.
 */
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { routeText } from "../../src/stores/redis/packing/route-text.ts";
import { say, sayJson } from "../cli/run-millrace.ts";
import { aRoute } from "../support/builders.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";

const redis = useOwnRedis();
let url: string;
beforeEach(async () => {
  url = `${redis.server.url}?prefix=${redis.prefix}`;
  await sayJson(["enqueue", "send", "1", "--store", url]);
});

async function set(name: string, value: string, after: string): Promise<void> {
  onTestFinished(async () => void (await redis.admin.config("SET", name, after)));
  await redis.admin.config("SET", name, value);
}

async function doctor(): Promise<{ code: number | null; findings: readonly string[]; out: string }> {
  const { code, out } = await say(["doctor", "--store", url]);
  return { code, out, findings: out.split("\n").filter((line) => line.startsWith("FINDING")) };
}

test("a good server has no findings, and its line says what an acknowledgement is worth", async () => {
  const { code, findings, out } = await doctor();
  expect(findings).toEqual([]);
  expect(out).toMatch(/the last second may be lost \(appendfsync is everysec\)/);
  expect(out).toMatch(/memory used, .* in the keys of 1 job,/);
  expect(code).toBe(0);
});

test("records that cannot be read are reported with their ids, and the rest is looked at all the same", async () => {
  await sayJson(["enqueue", "send", "2", "--id", "spoilt", "--store", url]);
  const tag = `{${redis.prefix}:0}`;
  const handle = (await redis.admin.hget(`${tag}:ids`, "spoilt")) as string;
  await redis.admin.hset(`${tag}:spec`, handle, "garbage");
  for (const _ of ["found by the audit", "still there"]) {
    const { code, findings, out } = await doctor();
    expect(findings).toEqual([
      expect.stringMatching(/records: 1 record is unreadable: spoilt \(its spec cannot be read\)\./),
    ]);
    expect(out).toMatch(/^jobs +1 ready$/m);
    expect(code).toBe(1);
  }
});

test("the jobs of all partitions are counted", async () => {
  const store = `${redis.server.url}?prefix=several&partitions=4`;
  for (let job = 0; job < 9; job++)
    await sayJson(["enqueue", "send", "1", "--id", `job-${job}`, "--store", store]);
  expect((await say(["doctor", "--store", store])).out).toMatch(/in the keys of 9 jobs,/);
});

test("a server without files", async () => {
  await set("appendonly", "no", "yes");
  const { code, findings } = await doctor();
  expect(findings).toEqual([
    expect.stringMatching(/persistence: .* neither an append-only file nor snapshots/),
  ]);
  expect(code).toBe(1);
});

test("a server that may evict", async () => {
  await set("maxmemory-policy", "allkeys-lru", "noeviction");
  const { code, findings } = await doctor();
  expect(findings).toEqual([expect.stringMatching(/maxmemory-policy "allkeys-lru"/)]);
  expect(code).toBe(1);
});

test("a server that is nearly full", async () => {
  const used = Number(/used_memory:(\d+)/.exec(await redis.admin.info("memory"))?.[1]);
  await set("maxmemory", String(Math.round(used * 1.1)), "0");
  const { code, findings } = await doctor();
  expect(findings).toEqual([expect.stringMatching(/memory: .* uses .* of .* \(maxmemory\)/)]);
  expect(code).toBe(1);
});

test("keys of jobs that are gone, and an index that somebody changed", async () => {
  await redis.admin.rpush(`{${redis.prefix}:0}:log:b99`, "line");
  await redis.admin.del(`{${redis.prefix}:0}:ready:${routeText(aRoute({ queue: "default" }))}`);
  const { code, findings } = await doctor();
  expect(findings).toEqual([
    expect.stringMatching(/orphans: 1 key belongs to jobs that are gone: .*log:b99/),
    expect.stringMatching(/indexes: 1 timer entry disagreed/),
  ]);
  expect(code).toBe(1);
  await redis.admin.del(`{${redis.prefix}:0}:log:b99`);
  expect((await doctor()).findings).toEqual([]);
});
