/** The command line on Redis: a place without a store, migrate, and doctor. */
import { afterAll, describe, expect, test } from "vitest";
import { useSharedRedis } from "../support/use-redis.ts";
import { lookingCommands, say, sayJson } from "./run-millrace.ts";

const shared = useSharedRedis();
const used: string[] = [];
afterAll(async () => {
  for (const prefix of used) await shared.prefixes.clear(prefix);
});

function aPlace(): { store: string; keys: () => Promise<string[]> } {
  const { prefixes } = shared;
  const prefix = prefixes.next();
  used.push(prefix);
  const url = new URL(prefixes.url);
  url.searchParams.set("prefix", prefix);
  return { store: url.href, keys: () => prefixes.client.keys(`{${prefix}:*`) };
}

describe("a prefix without a store", () => {
  test.each(lookingCommands)("is refused by %j, which makes nothing there", async (...args) => {
    const { store, keys } = aPlace();
    const { code, err } = await say([...args, "--store", store]);
    expect(err).toMatch(
      /^millrace: store-missing: There is no store of Millrace at redis:\/\/.* in the prefix test-/,
    );
    expect(err.trimEnd().split("\n")).toHaveLength(1);
    expect(code).toBe(1);
    expect(await keys()).toEqual([]);
  });

  test("gets none from an enqueue whose options are refused, and one from migrate", async () => {
    const { store, keys } = aPlace();
    const { code } = await say(["enqueue", "a", "--delay", "soon", "--store", store]);
    expect([code, await keys()]).toEqual([2, []]);
    expect(await sayJson(["migrate", "--dry-run", "--store", store])).toMatchObject({ from: 0, steps: [1] });
    expect(await keys()).toEqual([]);
    await sayJson(["migrate", "--store", store]);
    expect((await say(["list", "--store", store])).out).toBe("no jobs\n");
    expect((await say(["migrate", "--store", store])).out).toMatch(/nothing to do/);
  });
});

test("doctor finds nothing in a healthy store, and says what it looked at", async () => {
  const { store } = aPlace();
  await sayJson(["enqueue", "send", "1", "--store", store]);
  expect(await sayJson(["doctor", "--store", store])).toMatchObject({
    ok: true,
    store: { kind: "redis", acknowledged: expect.any(String) },
    redis: { servers: [{ failedWrites: [] }] },
    jobs: { ready: 1 },
    findings: [],
  });
  expect((await say(["doctor", "--store", store])).out).toMatch(/server +(Redis|Valkey) \d/);
});
