/**
 * Lanes beyond the contract: the audit finds what a hand in the keys broke, a record that cannot be read keeps no lane
 * waiting, and nothing is left of lanes that are empty.
 */
import { beforeEach, expect, test } from "vitest";
import { groupGateKey, keyedGate, laneStepOf, writeKeyUse } from "../../../model/routing/lane.ts";
import type { NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import {
  aChange,
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  finish,
  handBack,
  schedule,
} from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import type { HeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { auditAll } from "../../../../test/support/walk.ts";
import { routeText } from "../packing/route-text.ts";

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

test("what is held by nobody, and what is held and not counted, is repaired by the audit", async () => {
  await submit(grouped("a", "k"), grouped("b", "k"), grouped("c", "l"));
  expect(await claim(1)).toEqual(["a"]);
  expect(await auditAll(store)).toEqual({});
  await redis.admin.hset(keyOf("use"), gateOf("k"), "7\x1f0", gateOf("l"), "1\x1f0");
  expect(await claim()).toEqual([]);
  expect(await auditAll(store)).toEqual({ lane: 2 });
  expect(await claim()).toEqual(["c"]);
  await redis.admin.del(keyOf("use"), keyOf("one"));
  expect(await auditAll(store)).toEqual({ lane: 2 });
  expect(await claim()).toEqual([]);
  expect(await auditAll(store)).toEqual({});
});

test("the audit counts a job that holds its key while it waits for its retry", async () => {
  await submit(grouped("a", "k"), grouped("b", "k"));
  const { jobs } = await store.claim(aClaim({ offers: [{ routes: [route], max: 1 }] }));
  await store.settleIfLeased([aSettle(jobs[0]!, schedule(50, { keepsLane: true }))]);
  await redis.admin.del(keyOf("use"), keyOf("one"), keyOf("keeping"));
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

test("a first job that cannot be read is kept as unreadable, and the lane goes on", async () => {
  await submit(grouped("a", "k"), grouped("b", "k"));
  await redis.admin.hset(keyOf("spec"), "a1", "garbage");
  expect(await claim()).toEqual(["b"]);
  expect((await store.readUnreadable({ after: null, max: 9 })).records).toMatchObject([{ ref: "a1" }]);
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

/** A lane of six jobs, of which the first was taken; its record. */
const takeOneOfSix = async (): Promise<string> => {
  const uncapped = (id: string): NewJob => aJob({ id, laneKey: "l", laneGates: null });
  for (const id of ["a", "b", "c", "d", "e", "f"]) await submit(uncapped(id));
  expect(await claim(1)).toEqual(["a"]);
  return (await redis.admin.hget(keyOf("lane"), "l")) as string;
};

test("what the record of a lane has wrongly is repaired by the audit", async () => {
  const record = await takeOneOfSix();
  const wrongs = [
    ...[record.replace("a2", "a4"), record.replace("a2", "a9"), record.replace("a2", "")],
    ...["garbage", "", `${record}${gateOf("k")}`, record.replace("\x1f1", "\x1f0")],
  ];
  for (const wrong of wrongs) {
    expect(wrong).not.toBe(record);
    await redis.admin.hset(keyOf("lane"), "l", wrong);
    expect(Object.keys(await auditAll(store))).not.toEqual([]);
    expect(await auditAll(store)).toEqual({});
  }
  expect(await claim()).toEqual(["b", "c", "d", "e", "f"]);
});

test("a long lane is claimed in its order, by claims of any size, and leaves nothing", async () => {
  const ids = Array.from({ length: 150 }, (_, at) => `j${at}`);
  for (const id of ids) await submit(aJob({ id, laneKey: "l", laneGates: null }));
  expect(await claim(63)).toEqual(ids.slice(0, 63));
  expect(await auditAll(store)).toEqual({});
  expect(await claim(1)).toEqual(ids.slice(63, 64));
  await submit(aJob({ id: "late", laneKey: "l", laneGates: null }));
  expect(await auditAll(store)).toEqual({});
  expect(await claim(200)).toEqual([...ids.slice(64), "late"]);
  expect(await redis.admin.exists(keyOf(`open:${routeText(route)}`), keyOf("line"), keyOf("lane"))).toBe(0);
});

test("an open lane that a hand removed from the index is repaired by the audit", async () => {
  const open = keyOf(`open:${routeText(route)}`);
  await takeOneOfSix();
  expect(await redis.admin.zcard(open)).toBe(1);
  expect(await auditAll(store)).toEqual({});
  await redis.admin.del(open);
  expect(await auditAll(store)).toEqual({ lane: 1 });
  expect(await auditAll(store)).toEqual({});
  expect(await claim()).toEqual(["b", "c", "d", "e", "f"]);
  expect(await redis.admin.exists(open, keyOf("line"), keyOf("lane"))).toBe(0);
});

test("a lane goes by its order after a cancel, a hand-back and a job that comes ahead", async () => {
  await takeOneOfSix();
  const { jobs } = await store.claim(aClaim({ offers: [{ routes: [route], max: 1 }] }));
  expect(jobs.map(({ id }) => id)).toEqual(["b"]);
  await store.changeIf([aChange("c", ["ready"], finish("cancelled"))]);
  expect(await auditAll(store)).toEqual({});
  await store.settleIfLeased([aSettle(jobs[0]!, handBack)]);
  await submit(aJob({ id: "urgent", laneKey: "l", laneGates: null, rankBase: -9 }));
  expect(await auditAll(store)).toEqual({});
  expect(await claim()).toEqual(["urgent", "b", "d", "e", "f"]);
});

test("a job that its own cap refuses keeps all behind it in its lane waiting, in no index that a claim reads", async () => {
  const open = keyOf(`open:${routeText(route)}`);
  const rounds = ["a", "b", "c", "d", "e", "f"];
  const keys = Array.from({ length: 9 }, (_, at) => `k${at}`);
  for (const round of rounds) await submit(...keys.map((key) => grouped(`${round}-${key}`, key)));
  const { jobs } = await store.claim(aClaim({ offers: [{ routes: [route], max: 9 }] }));
  await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
  expect(await redis.admin.zcard(open)).toBe(9);
  expect(await claim(9)).toEqual(keys.map((key) => `b-${key}`));
  for (let times = 0; times < 2; times++) {
    expect(await claim()).toEqual([]);
    expect(await auditAll(store)).toEqual({});
  }
  expect(await redis.admin.zcard(keyOf("waits"))).toBe(9);
  expect(await redis.admin.zcard(open)).toBe(0);
});

test("lanes that their own cap refuses keep no other lane waiting, and are the first once they may go on", async () => {
  const keys = Array.from({ length: 30 }, (_, at) => `k${at}`);
  for (const round of ["a", "b", "c"]) await submit(...keys.map((key) => grouped(`${round}-${key}`, key)));
  const { jobs } = await store.claim(aClaim({ offers: [{ routes: [route], max: 30 }] }));
  await store.settleIfLeased(jobs.slice(2).map((job) => aSettle(job, finish())));
  expect(await claim(20)).toEqual(keys.slice(2, 22).map((key) => `b-${key}`));
  expect(await auditAll(store)).toEqual({});
  await store.settleIfLeased(jobs.slice(0, 1).map((job) => aSettle(job, finish())));
  expect(await claim(2)).toEqual(["b-k0", "b-k22"]);
  expect(await claim(40)).toEqual(keys.slice(23).map((key) => `b-${key}`));
  for (let times = 0; times < 3; times++) expect(await claim(40)).toEqual([]);
  expect(await redis.admin.zcard(keyOf("waits"))).toBe(30);
  expect(await auditAll(store)).toEqual({});
  await store.settleIfLeased(jobs.slice(1, 2).map((job) => aSettle(job, finish())));
  expect(await claim(40)).toEqual(["b-k1"]);
});

test("lanes by turn go on behind a lane that came later", async () => {
  const fair = (id: string, key: string): NewJob => aJob({ id, laneKey: key, laneStep: laneStepOf(1) });
  const claimFair = async (max: number, name = "send"): Promise<string[]> => {
    const routes = [aRoute({ laneKey: "any", laneStep: 1, name })];
    const { jobs } = await store.claim(aClaim({ offers: [{ routes, max }] }));
    return jobs.map(({ id }) => id);
  };
  for (const id of ["a", "b", "c", "d", "e"]) await submit(fair(id, "k"));
  expect(await claimFair(1)).toEqual(["a"]);
  // Another route of the queue moves its turn on.
  for (const id of ["x", "y", "z"]) await submit({ ...fair(id, "m"), name: "print" });
  expect(await claimFair(3, "print")).toEqual(["x", "y", "z"]);
  await submit(fair("late", "l"));
  expect(await claimFair(9)).toEqual(["b", "late", "c", "d", "e"]);
  expect(await auditAll(store)).toEqual({});
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
  // The entry that keeps the hash a large one (enter.lua.ts).
  expect(await redis.admin.hlen(keyOf("use"))).toBe(1);
  expect(await redis.admin.scard(keyOf("one"))).toBe(1);
  for (const name of ["line", "waits", "opens", `open:${routeText(byTurn)}`])
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
  expect(await redis.admin.exists(keyOf("waits"), keyOf("opens"))).toBe(0);
});

test("a heavy job keeps lighter ones of other lanes waiting only while it is the first of its lane", async () => {
  const weighed = (id: string, weight: number, given: Partial<NewJob> = {}): NewJob => {
    const use = writeKeyUse({ key: keyedGate("l:slack", "k"), weight, cap: null });
    return aJob({ id, laneKey: `lane ${id}`, laneGates: [use], ...given });
  };
  await store.putGates([aGate("l:slack", { perKey: { cap: 3, rate: null } })]);
  await submit(weighed("holder", 2));
  expect(await claim()).toEqual(["holder"]);
  for (const [at, goes] of [finish("cancelled"), schedule(1000)].entries()) {
    await submit(weighed(`heavy ${at}`, 2), weighed(`light ${at}`, 1), weighed(`other ${at}`, 1));
    expect(await auditAll(store)).toEqual({});
    expect(await claim()).toEqual([]);
    await submit(weighed(`late ${at}`, 1));
    expect(await claim()).toEqual([]);
    await store.changeIf([aChange(`heavy ${at}`, ["ready"], goes)]);
    const { jobs } = await store.claim(aClaim({ offers: [{ routes: [route], max: 10 }] }));
    expect(jobs.map(({ id }) => id)).toEqual([`light ${at}`]);
    await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
    expect(await claim(1)).toEqual([`other ${at}`]);
    await store.changeIf([aChange(`other ${at}`, ["running"], finish("cancelled"))]);
    expect(await claim()).toEqual([`late ${at}`]);
    await store.changeIf([aChange(`late ${at}`, ["running"], finish("cancelled"))]);
  }
});

test("a lane that waits for a heavy job which a hand took away goes on after the audit", async () => {
  const use = (weight: number): string => writeKeyUse({ key: keyedGate("l:slack", "k"), weight, cap: null });
  await store.putGates([aGate("l:slack", { perKey: { cap: 3, rate: null } })]);
  await submit(aJob({ id: "holder", laneKey: "h", laneGates: [use(2)] }));
  expect(await claim()).toEqual(["holder"]);
  await submit(aJob({ id: "heavy", laneKey: "a", laneGates: [use(2)] }));
  await submit(aJob({ id: "light", laneKey: "b", laneGates: [use(1)] }));
  expect(await claim()).toEqual([]);
  await redis.admin.hset(keyOf("spec"), "a2", "garbage");
  await claim();
  await auditAll(store);
  expect(await claim()).toEqual(["light"]);
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
