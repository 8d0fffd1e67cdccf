/** The command line on Redis: a place without a store, migrate, and doctor. */
import { afterAll, describe, expect, test } from "vitest";
import { createPlacement } from "../../src/model/routing/placement.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
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

test("a partition that fails is reported by list, by doctor and by the duties, which all answer for the rest", async () => {
  const { store: url } = aPlace();
  const store = `${url}&partitions=4`;
  const prefix = new URL(url).searchParams.get("prefix") as string;
  const ids: string[] = [];
  for (let n = 0; n < 12; n++)
    ids.push(
      (await sayJson(["enqueue", "send", String(n), "--id", `send-${n}`, "--store", store]))["id"] as string,
    );
  const placement = createPlacement(4);
  const elsewhere = ids.filter((id) => placement.ofId(id) !== 1);
  const due = `{${prefix}:1}:due`;
  await shared.prefixes.client.del(due);
  await shared.prefixes.client.set(due, "another program's");
  const listed = await say(["list", "--store", store]);
  expect(listed.out.match(/send-\d+/g)?.toSorted()).toEqual(elsewhere.toSorted());
  expect(listed.err).toMatch(/^missing: the jobs of partition 1,/);
  expect(await sayJson(["list", "--store", store])).toMatchObject({ missing: [1] });
  const doctor = await say(["doctor", "--store", store]);
  expect([doctor.code, doctor.out]).toEqual([
    1,
    expect.stringMatching(/^FINDING +partitions: Partition 1 /m),
  ]);
  const promoted = await say(["duties", "run", "promote", "--store", store]);
  expect([promoted.code, promoted.out]).toEqual([1, expect.stringMatching(/errors 1\b/)]);
});
