/**
 * Lanes beyond the contract: the audit finds what a hand in the keys broke, a record that cannot be read keeps no lane
 * waiting, and nothing is left of lanes that are empty.
 */
import { beforeEach, expect, test } from "vitest";
import { groupGateKey, keyedGate, laneStepOf, writeKeyUse } from "../../model/lane.ts";
import type { NewJob } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { aClaim, aGate, aJob, aRoute, aSettle, finish, schedule } from "../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../test/support/held-platform.ts";
import type { HeldPlatform } from "../../../test/support/held-platform.ts";
import { useOwnRedis } from "../../../test/support/use-redis.ts";
import { auditAll } from "../../../test/support/walk.ts";
import { routeText } from "./route-text.ts";

const redis = useOwnRedis();
const route = aRoute({ laneKey: "any" });
const gateOf = (key: string): string => keyedGate(groupGateKey("mail"), key);
let store: Store;
let platform: HeldPlatform;

beforeEach(async () => {
  platform = createHeldPlatform();
  store = await redis.open({ platform, clock: "platform" });
});

const keyOf = (name: string): string => `{${redis.prefix}:0}:${name}`;
const grouped = (id: string, key: string, given: Partial<NewJob> = {}): NewJob =>
  aJob({
    ...{ id, laneKey: key, laneGates: [writeKeyUse({ key: gateOf(key), weight: 1, cap: 1 })] },
    ...given,
  });
const submit = (...jobs: NewJob[]): Promise<unknown> => store.submit(jobs.map((job) => ({ jobs: [job] })));
const claim = async (max = 10): Promise<string[]> => {
  const { jobs } = await store.claim(aClaim({ offers: [{ routes: [route], max }] }));
  return jobs.map(({ id }) => id);
};

test("what is held by nobody, and what is held and not counted, is mended by the audit", async () => {
  await submit(grouped("a", "k"), grouped("b", "k"), grouped("c", "l"));
  expect(await claim(1)).toEqual(["a"]);
  expect(await auditAll(store)).toEqual({});
  await redis.admin.hset(keyOf("use"), gateOf("k"), "7\x1f0", gateOf("l"), "1\x1f0");
  expect(await claim()).toEqual([]);
  expect(await auditAll(store)).toEqual({ lane: 2 });
  expect(await claim()).toEqual(["c"]);
  await redis.admin.del(keyOf("use"));
  expect(await auditAll(store)).toEqual({ lane: 2 });
  expect(await claim()).toEqual([]);
  expect(await auditAll(store)).toEqual({});
});

test("the audit counts a job that holds its key while it waits for its retry", async () => {
  await submit(grouped("a", "k"), grouped("b", "k"));
  const { jobs } = await store.claim(aClaim({ offers: [{ routes: [route], max: 1 }] }));
  await store.settleIfLeased([aSettle(jobs[0]!, schedule(50, { keepsLane: true }))]);
  await redis.admin.del(keyOf("use"), keyOf("keeping"));
  expect(await auditAll(store)).toEqual({ timer: 1, lane: 1 });
  expect(await claim()).toEqual([]);
  platform.advance(50);
  await store.promoteDue({ max: 5 });
  expect(await claim()).toEqual(["a"]);
  expect(await redis.admin.exists(keyOf("keeping"))).toBe(0);
});

test("lines, lanes and their places are whole again after the audit where a hand was in them", async () => {
  await submit(...["a", "b", "c"].map((id) => grouped(id, "k")), grouped("x", "l"));
  const text = routeText(route);
  await redis.admin.zadd(keyOf("line"), 0, `stray\x1f10000000000000001a9\x1f${text}`);
  await redis.admin.zrem(keyOf("line"), ...(await redis.admin.zrange(keyOf("line"), "0", "0")));
  await redis.admin.del(keyOf(`open:${text}`));
  expect(Object.keys(await auditAll(store))).toEqual(["timer", "lane"]);
  expect(await auditAll(store)).toEqual({});
  expect(await claim()).toEqual(["a", "x"]);
});

test("a first job that cannot be read is set aside, and the lane goes on", async () => {
  await submit(grouped("a", "k"), grouped("b", "k"));
  await redis.admin.hset(keyOf("spec"), "a1", "garbage");
  expect(await claim()).toEqual(["b"]);
  expect((await store.readAside({ after: null, max: 9 })).records).toMatchObject([{ ref: "a1" }]);
  await redis.admin.hset(keyOf("state"), "a2", "garbage");
  await submit(grouped("c", "k"));
  expect(await claim()).toEqual([]);
  await auditAll(store);
  expect(await claim()).toEqual(["c"]);
  expect(await auditAll(store)).toEqual({});
});

test("a job that comes ahead of those that its lane knows of is claimed before them", async () => {
  const fair = (id: string, given: Partial<NewJob> = {}): NewJob =>
    aJob({ id, laneKey: "l", laneStep: laneStepOf(1), ...given });
  const claimFair = async (): Promise<string[]> => {
    const routes = [aRoute({ laneKey: "any", laneStep: 1 })];
    const { jobs } = await store.claim(aClaim({ offers: [{ routes, max: 1 }] }));
    return jobs.map(({ id }) => id);
  };
  await submit(...["a", "b", "c", "d"].map((id) => fair(id)));
  expect(await claimFair()).toEqual(["a"]);
  await submit(fair("urgent", { rankBase: -5 }), fair("e"));
  expect(await claimFair()).toEqual(["urgent"]);
  expect(await claimFair()).toEqual(["b"]);
  await submit(fair("less urgent", { rankBase: -5 }));
  expect(await claimFair()).toEqual(["less urgent"]);
  for (const id of ["c", "d", "e"]) expect(await claimFair()).toEqual([id]);
  expect(await claimFair()).toEqual([]);
  expect(await auditAll(store)).toEqual({});
});

test("what a lane wrongly knows of its line is mended by the audit", async () => {
  const uncapped = (id: string): NewJob => aJob({ id, laneKey: "l", laneGates: null });
  await submit(...["a", "b", "c", "d"].map(uncapped));
  expect(await claim(1)).toEqual(["a"]);
  const [key, known] = [keyOf("lane"), (await redis.admin.hget(keyOf("lane"), "l")) as string];
  expect(known).toMatch(/a3\x1e.*a4\x1e\.$/);
  for (const wrong of [known.replace("a3", "a4"), `${known.slice(0, known.lastIndexOf("\x1f") + 1)}.`]) {
    await redis.admin.hset(key, "l", wrong);
    expect(await auditAll(store)).toEqual({ lane: 1 });
    expect(await auditAll(store)).toEqual({});
  }
  expect(await claim()).toEqual(["b", "c", "d"]);
});

test("nothing is left of lanes without jobs, once the others have reached their turns", async () => {
  const fair = (id: string, key: string): NewJob =>
    aJob({ id, laneKey: key, laneStep: laneStepOf(1), laneGates: grouped(id, key).laneGates ?? null });
  const byTurn = aRoute({ laneKey: "any", laneStep: 1 });
  await submit(fair("a", "k"), fair("b", "l"), fair("c", "l"), fair("d", "l"));
  for (let round = 0; round < 3; round++) {
    const { jobs } = await store.claim(aClaim({ offers: [{ routes: [byTurn], max: 10 }] }));
    await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
  }
  expect(await redis.admin.hkeys(keyOf("lane"))).toEqual(["l"]);
  // The entry that keeps the hash a large one (enter.ts).
  expect(await redis.admin.hlen(keyOf("use"))).toBe(1);
  for (const name of ["line", "parked", "opens", `open:${routeText(byTurn)}`])
    expect(await redis.admin.exists(keyOf(name)), name).toBe(0);
});

test("a raised limit opens more keys than one call can, by the claims that come", async () => {
  const keys = 1200;
  const put = (cap: number): Promise<unknown> =>
    store.putGates([aGate("l:slack", { perKey: { cap, rate: null } })]);
  const keyed = (at: number): NewJob => {
    const key = `k${at % keys}`;
    const use = writeKeyUse({ key: keyedGate("l:slack", key), weight: 1, cap: null });
    return aJob({ id: `j${at}`, laneKey: key, laneGates: [use] });
  };
  await put(1);
  await submit(...Array.from({ length: 2 * keys }, (_, at) => keyed(at)));
  expect(await claim(3 * keys)).toHaveLength(keys);
  expect(await claim(3 * keys)).toEqual([]);
  await put(2);
  const first = await store.claim(aClaim({ offers: [{ routes: [route], max: 3 * keys }] }));
  expect(first.jobs.length + (await claim(3 * keys)).length).toBe(keys);
  expect(await redis.admin.exists(keyOf("parked"), keyOf("opens"))).toBe(0);
});

test("lanes and what keys hold are there again after the library was lost", async () => {
  const slack = "l:slack";
  const keyed = (id: string): NewJob =>
    aJob({
      id,
      laneKey: "s",
      laneGates: [writeKeyUse({ key: keyedGate(slack, "k"), weight: 1, cap: null })],
    });
  await store.putGates([aGate(slack, { perKey: { cap: 1, rate: { stepUs: 20_000, burstUs: 20_000 } } })]);
  await submit(keyed("a"), keyed("b"), grouped("x", "k"), grouped("y", "k"));
  expect(await claim()).toEqual(["a", "x"]);
  const before = await store.readGates({ keys: [slack, keyedGate(slack, "k"), gateOf("k")] });
  await redis.admin.call("FUNCTION", "FLUSH");
  expect(await store.readGates({ keys: [slack, keyedGate(slack, "k"), gateOf("k")] })).toEqual(before);
  expect(before.gates.map(({ held }) => held)).toEqual([1, 0, 1]);
  platform.advance(100);
  expect(await claim()).toEqual([]);
});
