/**
 * Gates beyond the contract: what the library remembers of them can be lost at any time, a record of one that cannot be
 * read keeps nobody waiting but those who need it, and every path of a submit and a claim asks them.
 */
import { beforeEach, expect, test } from "vitest";
import { foreverMs } from "../../../model/limits/gate.ts";
import type { ClaimAnswer } from "../../../store/operations.ts";
import type { NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { aClaim, aGate, aJob, aRoute, aSettle, finish } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import type { HeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { until } from "../../../../test/support/until.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";

const redis = useOwnRedis();
const slack = "l:slack";
const gates = [{ key: slack, weight: 1 }];
const route = aRoute({ gates });
let store: Store;
let platform: HeldPlatform;

beforeEach(async () => {
  platform = createHeldPlatform();
  store = await redis.open({ platform, clock: "platform" });
});

const keyOf = (name: string): string => `{${redis.prefix}:0}:${name}`;
const limited = (id: string, given: Partial<NewJob> = {}): NewJob => aJob({ id, gates, ...given });
const submit = (...jobs: NewJob[]): Promise<unknown> => store.submit(jobs.map((job) => ({ jobs: [job] })));
const claim = (routes = [route], max = 10): Promise<ClaimAnswer> =>
  store.claim(aClaim({ offers: [{ routes, max }] }));
const ids = ({ jobs }: ClaimAnswer): string[] => jobs.map(({ id }) => id);
const forget = (): Promise<unknown> => redis.admin.call("FUNCTION", "FLUSH");

test("gates, their tokens and what is held are there again after the library was lost", async () => {
  const rate = { stepUs: 1_000_000, burstUs: 3_000_000 };
  await store.putGates([aGate(slack, { cap: 2, rate, body: "b" })]);
  await submit(limited("a"), limited("b"), limited("c"), limited("d"));
  const [first] = (await claim()).jobs;
  const before = await store.readGates({ prefix: "", after: null, max: 9 });
  await forget();
  expect(await store.readGates({ prefix: "", after: null, max: 9 })).toEqual(before);
  expect(ids(await claim())).toEqual([]);
  await store.settleIfLeased([aSettle(first!, finish())]);
  await forget();
  expect(ids(await claim())).toEqual(["c"]);
  // Two tokens of three are gone with the first claim, the last one with the second.
  await store.putGates([aGate(slack, { rate })]);
  expect(await claim()).toMatchObject({ jobs: [], opensInMs: 1000 });
});

test.each(["garbage", "", "3\x1fmany\x1f\x1f\x1f0\x1f\x1f0\x1f"])(
  "a gate whose record is %j is closed and kept as unreadable, until it is put again",
  async (text) => {
    await store.putGates([aGate(slack, { cap: 5 })]);
    await submit(limited("a"), aJob({ id: "plain" }));
    await redis.admin.hset(keyOf("gate"), slack, text);
    await forget();
    expect(ids(await claim([route, aRoute()]))).toEqual(["plain"]);
    const { records } = await store.readUnreadable({ after: null, max: 9 });
    expect(records).toMatchObject([{ ref: `gate:${slack}`, id: null, text }]);
    expect((await store.readGates({ keys: [slack] })).gates).toMatchObject([
      { closedUntil: foreverMs, version: text.startsWith("3") ? 3 : 1 },
    ]);
    await forget();
    expect(ids(await claim())).toEqual([]);
    expect((await store.readUnreadable({ after: null, max: 9 })).records).toHaveLength(1);
    expect(await store.putGates([aGate(slack, { guard: { version: 0 } })])).toMatchObject([
      { kind: "changed" },
    ]);
    await store.putGates([aGate(slack, { cap: 1 })]);
    expect(ids(await claim())).toEqual(["a"]);
  },
);

test("an entry of a job that is not ready takes no permit and no token", async () => {
  await store.putGates([aGate(slack, { cap: 1, rate: { stepUs: 1000, burstUs: 1000 } })]);
  await submit(limited("a"), limited("b"));
  await redis.admin.hset(keyOf("spec"), "a1", "garbage");
  expect(await claim()).toMatchObject({ jobs: [], more: true });
  expect(ids(await claim())).toEqual(["b"]);
});

test("a running job that is kept as unreadable gives its permit back", async () => {
  await store.putGates([aGate(slack, { cap: 1 })]);
  await submit(limited("a"), limited("b"));
  await claim();
  await redis.admin.hset(keyOf("state"), "a1", "garbage");
  expect((await store.readGates({ keys: [slack] })).gates).toMatchObject([{ held: 1 }]);
  const heard: number[] = [];
  store.watch((hint) => hint.kind === "ready" && heard.push(...hint.routes));
  expect(await store.settleIfLeased([{ ...aSettle({ id: "a", seq: 1, fence: 1 }, finish()) }])).toEqual([
    { kind: "gone" },
  ]);
  await until("the hint of the permit comes", () => heard.includes(route));
  expect(ids(await claim())).toEqual(["b"]);
});

test("a bulk of plain jobs loses only the units that have one of a queue with a closed intake", async () => {
  await store.putGates([aGate("q:mail", { isIntakeClosed: true })]);
  const [mail, other] = [(id: string) => aJob({ id }), (id: string) => aJob({ id, queue: "other" })];
  const units = [[other("a")], [other("b"), mail("c")], [mail("d"), other("e")], [other("f")]];
  expect(await store.submit(units.map((jobs) => ({ jobs })))).toEqual([
    { kind: "ok", ids: ["a"], hows: ["created"] },
    { kind: "refused", reason: "intake-closed", id: "c" },
    { kind: "refused", reason: "intake-closed", id: "d" },
    { kind: "ok", ids: ["f"], hows: ["created"] },
  ]);
  expect(await store.countJobs()).toEqual([{ queue: "other", name: "send", state: "ready", count: 2 }]);
});

test("a job that is claimed in the flush of its submit passes its gates too", async () => {
  const flush = async (id: string, given: Partial<NewJob> = {}): Promise<ClaimAnswer> =>
    (await Promise.all([store.submit([{ jobs: [limited(id, given)] }]), claim()]))[1];
  for (const id of ["a", "b", "c"]) expect(ids(await flush(id))).toEqual([id]);
  await store.putGates([aGate(slack, { cap: 3 })]);
  expect(ids(await flush("d"))).toEqual([]);
  await store.putGates([aGate(slack), aGate("q:mail", { closed: { inMs: 50 } })]);
  expect(await flush("e")).toMatchObject({ jobs: [], opensInMs: 50 });
  await store.putGates([aGate("q:mail", { isIntakeClosed: true })]);
  const [refused] = await store.submit([{ jobs: [limited("f")] }]);
  expect(refused).toEqual({ kind: "refused", reason: "intake-closed", id: "f" });
});

test("a claim that its bytes end says that more may wait, also behind a gate that refused", async () => {
  await store.putGates([aGate(slack, { closed: { inMs: 50 } })]);
  await submit(limited("a"), aJob({ id: "b", input: "x".repeat(100) }), limited("c"));
  const offers = [{ routes: [route, aRoute()], max: 9 }];
  const answer = await store.claim(aClaim({ offers, inputBytesMax: 10 }));
  expect([ids(answer), answer.more, answer.opensInMs]).toEqual([["b"], true, 50]);
  expect(await store.claim(aClaim({ offers, inputBytesMax: 10 }))).toMatchObject({ jobs: [], more: false });
});
