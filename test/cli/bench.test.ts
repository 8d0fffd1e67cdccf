// `millrace bench` on each store: it measures, leaves nothing, and touches no job but its own.
import { afterAll, describe, expect, test } from "vitest";
import { benchQueue } from "../../src/cli/store/bench.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { aStoreUrl, say, sayJson, startMillrace } from "./run-millrace.ts";

const database = useTestDatabase();
const redis = useSharedRedis();
const used: string[] = [];
afterAll(async () => {
  for (const prefix of used) await redis.prefixes.clear(prefix);
});

const stores: Readonly<Record<string, () => string>> = {
  SQLite: aStoreUrl,
  Postgres: () => `${database.url}?schema=benched`,
  Redis: () => {
    const url = new URL(redis.prefixes.url);
    used.push(redis.prefixes.next());
    url.searchParams.set("prefix", used.at(-1) as string);
    return url.href;
  },
};

async function jobsOf(store: string, ...filter: string[]): Promise<unknown[]> {
  return (await sayJson(["list", "--store", store, ...filter]))["jobs"] as unknown[];
}

describe.each(Object.keys(stores))("bench on %s", (name) => {
  test("measures jobs of its own, and leaves none", async () => {
    const store = stores[name]?.() ?? "";
    await sayJson(["enqueue", "mine", "1", "--store", store]);
    const args = ["bench", "--jobs", "250", "--singles", "3", "--concurrency", "5", "--store", store];
    const measured = await sayJson(args);
    const many = (jobs: number) => ({ jobs, perSecond: expect.any(Number), p50: null, p99: null });
    const single = {
      jobs: 3,
      perSecond: expect.any(Number),
      p50: expect.any(Number),
      p99: expect.any(Number),
    };
    expect(measured).toEqual({
      ...{ queue: benchQueue, isWhole: true, enqueue: many(250), run: many(250) },
      ...{ "enqueue one": single, "enqueue to start": single },
    });
    expect(await jobsOf(store, "--queue", benchQueue)).toEqual([]);
    expect(await jobsOf(store)).toMatchObject([{ name: "mine", state: "ready" }]);
    const { out } = await say(["bench", "--jobs", "1", "--singles", "1", "--store", store]);
    expect(out).toMatch(/^WHAT +JOBS +PER SECOND +P50 MS +P99 MS\nenqueue +1 /);
  });
});

test("bench ends at its time or a signal, and leaves nothing either", async () => {
  const store = aStoreUrl();
  await sayJson(["migrate", "--store", store]);
  const timed = await say([
    "bench",
    "--seconds",
    "1",
    "--singles",
    "10000",
    "--jobs",
    "1",
    "--json",
    "--store",
    store,
  ]);
  expect([timed.code, JSON.parse(timed.out)]).toMatchObject([1, { isWhole: false, run: { jobs: 1 } }]);
  const running = startMillrace(["bench", "--singles", "10000", "--jobs", "100", "--json", "--store", store]);
  while ((await jobsOf(store, "--queue", benchQueue)).length === 0);
  running.child.kill("SIGINT");
  const { code, out } = await running.ended;
  expect([code, JSON.parse(out)]).toMatchObject([1, { isWhole: false }]);
  expect(await jobsOf(store, "--queue", benchQueue)).toEqual([]);
});

test("bench refuses a queue in which jobs of another one wait", async () => {
  const store = aStoreUrl();
  await sayJson(["enqueue", "left", "--queue", benchQueue, "--store", store]);
  const { code, err } = await say(["bench", "--store", store]);
  expect(err).toMatch(/^millrace: invalid-option: The queue millrace-bench has jobs: .* millrace purge/);
  expect(code).toBe(2);
  expect(await jobsOf(store)).toHaveLength(1);
});
