/**
 * Records that cannot be read, and entries of indexes that no job belongs to: each kind is put into the keys by hand,
 * and whoever meets it keeps it as unreadable or takes it out, and goes on with its neighbours.
 */
import { beforeEach, describe, expect, test } from "vitest";
import type { Hint, Store } from "../../../store/store.ts";
import { aChange, aClaim, aJob, aRoute, aSettle, finish, remove } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { expectEndWithout } from "../../../../test/support/lost-members.ts";
import type { HeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { auditAll, findAll } from "../../../../test/support/walk.ts";
import { specFields, stateFields } from "../packing/packed-fields.ts";
import type { PackedName } from "../packing/packed-fields.ts";
import { routeText } from "../packing/route-text.ts";
import { fieldEnd } from "../packing/value-text.ts";

const redis = useOwnRedis();
const route = routeText(aRoute());
const ids = ["a", "b", "c", "d", "e"];
const others = ["a", "b", "d", "e"];
let store: Store;
let platform: HeldPlatform;

beforeEach(async () => {
  platform = createHeldPlatform();
  store = await redis.open({ platform, clock: "platform" });
});

const keyOf = (name: string): string => `{${redis.prefix}:0}:${name}`;
const handleOf = async (id: string): Promise<string> => (await redis.admin.hget(keyOf("ids"), id)) as string;

async function rewrite(id: string, name: "spec" | "state", change: (text: string) => string): Promise<void> {
  const handle = await handleOf(id);
  const text = (await redis.admin.hget(keyOf(name), handle)) as string;
  await redis.admin.hset(keyOf(name), handle, change(text));
}

function withField(fields: readonly PackedName[], name: PackedName, value: string): (text: string) => string {
  return (text) => text.split(fieldEnd).with(fields.indexOf(name), value).join(fieldEnd);
}

const specFaults: Readonly<Record<string, (id: string) => Promise<void>>> = {
  "a spec that is garbage": (id) => rewrite(id, "spec", () => "garbage"),
  "a spec that is empty": (id) => rewrite(id, "spec", () => ""),
  "a spec that begins like a plain one": (id) => rewrite(id, "spec", () => `${fieldEnd}c`),
  "a spec that was cut": (id) => rewrite(id, "spec", (text) => text.slice(0, text.lastIndexOf(fieldEnd))),
  "a spec with a field too many": (id) => rewrite(id, "spec", (text) => `${text}${fieldEnd}x`),
  "a time that is no number": (id) => rewrite(id, "spec", withField(specFields, "createdAt", "soon")),
  "a route that nobody knows": (id) => rewrite(id, "spec", withField(specFields, "route", "zzzzzzzz")),
};

const stateFaults: Readonly<Record<string, (id: string) => Promise<void>>> = {
  "a state that is garbage": (id) => rewrite(id, "state", () => "garbage"),
  "a state that was cut": (id) => rewrite(id, "state", (text) => text.slice(0, text.lastIndexOf(fieldEnd))),
  "a state of an unknown code": (id) => rewrite(id, "state", withField(stateFields, "state", "x")),
  "a rev that is no number": (id) => rewrite(id, "state", withField(stateFields, "rev", "one")),
  "a lease that ends at no time": (id) => rewrite(id, "state", withField(stateFields, "leaseEndsAt", "?")),
  "the state of another job": (id) => rewrite(id, "state", withField(stateFields, "id", "a")),
  "no spec beside its state": async (id) => void (await redis.admin.hdel(keyOf("spec"), await handleOf(id))),
  "garbage in both": async (id) => {
    await rewrite(id, "spec", () => "garbage");
    await rewrite(id, "state", () => "garbage");
  },
};

const submit = (inMs = 0): Promise<unknown> =>
  store.submit([{ jobs: ids.map((id) => aJob({ id, due: { inMs }, tags: ["red"] })) }]);

/** c is kept as unreadable, out of every index and count, and can be deleted for good. */
async function expectUnreadable(state: "ready" | "running" | "completed" | "scheduled"): Promise<void> {
  const { records, cursor } = await store.readUnreadable({ after: null, max: 10 });
  expect(records).toMatchObject([{ id: expect.toBeOneOf(["c", null]), at: platform.now() }]);
  expect(cursor).toBeNull();
  expect((await findAll(store)).map(({ id }) => id)).toEqual(others.toReversed());
  expect(await store.readJobs(["c", "d"])).toMatchObject([null, { id: "d", state }]);
  // Whatever met it first: a read of its id shows whose record it is.
  expect((await store.readUnreadable({ after: null, max: 10 })).records).toMatchObject([{ id: "c" }]);
  expect(await store.changeIf([aChange("c", ["ready", "completed"], remove)])).toEqual([{ kind: "gone" }]);
  const repaired = await auditAll(store);
  // If neither text has the route, and no index of a route had the job, the audit finds which count is wrong.
  if (records[0]!.text !== "garbage\x1egarbage") expect(repaired).toEqual({});
  expect(await store.countJobs()).toMatchObject([{ state, count: 4 }]);
  expect((await store.readUnreadable({ after: null, max: 10 })).records).toMatchObject([{ id: "c" }]);
  expect(await redis.admin.hkeys(keyOf("ids"))).toEqual(expect.not.arrayContaining(["c"]));
  expect(await store.deleteUnreadable([records[0]!.ref, "nothing"])).toBe(1);
  expect((await store.readUnreadable({ after: null, max: 10 })).records).toEqual([]);
}

describe.each(Object.entries(specFaults))("%s", (_, spoil) => {
  test.each([5, 100])("is passed over by a claim of %i, which hands out its neighbours", async (max) => {
    await submit();
    await spoil("c");
    const { jobs } = await store.claim(aClaim({ max }));
    expect(jobs.map(({ id }) => id)).toEqual(others);
    await expectUnreadable("running");
  });

  test("is passed over by the promotion of its neighbours", async () => {
    await submit(10);
    await spoil("c");
    platform.advance(10);
    expect(await store.promoteDue({ max: 10 })).toEqual({ count: 4, more: false, nextDueInMs: null });
    await expectUnreadable("ready");
  });

  test("is found by the audit where nobody met it", async () => {
    await submit(10);
    await spoil("c");
    expect(await auditAll(store)).toMatchObject({ unreadable: 1 });
    await expectUnreadable("scheduled");
  });

  test("is passed over by lists, and by reads of its id", async () => {
    await submit();
    await spoil("c");
    expect(await store.readJobs(ids)).toMatchObject([
      { id: "a" },
      { id: "b" },
      null,
      { id: "d" },
      { id: "e" },
    ]);
    expect((await store.readUnreadable({ after: null, max: 9 })).records).toMatchObject([{ id: "c" }]);
    await expectUnreadable("ready");
  });

  test("can be deleted by its id", async () => {
    await submit();
    await spoil("c");
    const changes = ["c", "d"].map((id) => aChange(id, ["ready"], remove));
    expect(await store.changeIf(changes)).toMatchObject([{ kind: "gone" }, { kind: "ok" }]);
    expect((await store.readUnreadable({ after: null, max: 9 })).records).toMatchObject([{ id: "c" }]);
  });
});

describe.each(Object.entries(stateFaults))("%s", (_, spoil) => {
  test("is passed over by whoever reads leases that ended", async () => {
    await submit();
    await store.claim(aClaim({ max: 5, leaseMs: 100 }));
    await spoil("c");
    platform.advance(100);
    const due = await store.readDue({ clock: "lease", max: 10, cursor: null });
    expect(due.jobs.map(({ id }) => id)).toEqual(others);
    await expectUnreadable("running");
  });

  test("harms no settle beside it", async () => {
    await submit();
    const { jobs } = await store.claim(aClaim({ max: 5 }));
    await spoil("c");
    const answers = await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
    expect(answers.map(({ kind }) => kind).toSpliced(2, 1)).toEqual(["ok", "ok", "ok", "ok"]);
    await auditAll(store);
    const states = await findAll(store);
    expect(states.filter(({ id }) => id !== "c").map(({ state }) => state)).toEqual(
      Array.from({ length: 4 }, () => "completed"),
    );
  });

  test("is passed over by retention and found by the audit", async () => {
    await submit();
    const { jobs } = await store.claim(aClaim({ max: 5 }));
    await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
    await spoil("c");
    expect(await auditAll(store)).toMatchObject({ unreadable: 1 });
    await expectUnreadable("completed");
    const history = { what: "history", outcome: "completed", queue: null, exceptQueues: [] } as const;
    await store.prune({ ...history, olderThanMs: 0, max: 10, cursor: null });
    expect(await findAll(store)).toEqual([]);
  });
});

describe("an entry that no job belongs to", () => {
  const completed = async (): Promise<string> => {
    await store.submit([{ jobs: [aJob({ id: "done" })] }]);
    const { jobs } = await store.claim(aClaim({ max: 1 }));
    await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
    return handleOf("done");
  };

  test("is taken out by a claim, and its finished job does not run again", async () => {
    await redis.admin.zadd(keyOf(`ready:${route}`), 1, await completed(), 2, "a999", 3, "nonsense");
    await submit();
    expect((await store.claim(aClaim({ max: 10 }))).jobs.map(({ id }) => id)).toEqual(ids);
    expect(await redis.admin.exists(keyOf(`ready:${route}`))).toBe(0);
    expect(await store.readJobs(["done"])).toMatchObject([{ state: "completed" }]);
  });

  test("is taken out by the promotion, and its finished job does not run again", async () => {
    await redis.admin.zadd(keyOf(`due:${route}`), 1, await completed(), 2, "a999", 3, "nonsense");
    await redis.admin.zadd(keyOf("due"), 1, route);
    await submit(10);
    platform.advance(10);
    expect(await store.promoteDue({ max: 20 })).toEqual({ count: 5, more: false, nextDueInMs: null });
    expect(await redis.admin.exists(keyOf(`due:${route}`), keyOf("due"))).toBe(0);
    expect(await store.readJobs(["done"])).toMatchObject([{ state: "completed" }]);
  });

  test.each(["lease", "clock"])(
    "is taken out of %s by a read of what is due, which else would never rest",
    async (index) => {
      await redis.admin.zadd(keyOf(index), 1, await completed(), 2, "a999", 3, "nonsense");
      expect(await store.readDue({ clock: "deadline", max: 10, cursor: null })).toMatchObject({ jobs: [] });
      expect(await store.promoteDue({ max: 10 })).toEqual({ count: 0, more: false, nextDueInMs: null });
      expect(await auditAll(store)).toEqual({});
    },
  );

  test("is taken out by the audit", async () => {
    await submit(10);
    const handle = await completed();
    for (const index of ["lease", "clock", `ready:${route}`, `due:${route}`])
      await redis.admin.zadd(keyOf(index), 1, handle);
    await redis.admin.zadd(keyOf("due"), 5, route);
    await auditAll(store);
    expect(await auditAll(store)).toEqual({});
    expect(await store.promoteDue({ max: 10 })).toEqual({ count: 0, more: false, nextDueInMs: 10 });
  });

  test("of a live job does not let retention take the job", async () => {
    await submit();
    await redis.admin.zadd(keyOf("keep"), 1, await handleOf("c"));
    expect(await store.prune({ what: "kept", max: 10 })).toMatchObject({ pruned: 0 });
    expect(await findAll(store)).toHaveLength(5);
  });
});

test.each([
  [5, "spec"],
  [5, "state"],
  [100, "spec"],
  [100, "state"],
])("a claim of %i that cannot read the hash of all %ss leaves every job where it was", async (max, name) => {
  await submit();
  const [key, moved] = [keyOf(name), keyOf("moved")];
  await redis.admin.hset(key, "other", "");
  await redis.admin.rename(key, moved);
  await redis.admin.set(key, "another program's");
  await expect(store.claim(aClaim({ max }))).rejects.toMatchObject({ code: "not-a-store" });
  await redis.admin.rename(moved, key);
  expect((await store.claim(aClaim({ max }))).jobs.map(({ id }) => id)).toEqual(ids);
});

describe("beside jobs", () => {
  test("a unique key whose holder is gone or is no record can be taken", async () => {
    const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
    await store.submit([{ jobs: [aJob({ id: "c", unique })] }]);
    await specFaults["a spec that is garbage"]!("c");
    expect(await store.submit([{ jobs: [aJob({ id: "d", unique })] }])).toMatchObject([
      { hows: ["created"] },
    ]);
    await redis.admin.hset(keyOf("uniq"), "k", "garbage");
    expect(await store.submit([{ jobs: [aJob({ id: "e", unique })] }])).toMatchObject([
      { hows: ["created"] },
    ]);
  });

  test("a document that is no record is absent, and is kept as unreadable by the next put", async () => {
    const put = { kind: "kv", id: "x", body: "1", guard: "any" } as const;
    await store.putDocs([put, { ...put, id: "y" }]);
    await redis.admin.hset(keyOf("doc"), `kv${fieldEnd}x`, "garbage");
    expect((await store.readDocs({ kind: "kv", prefix: "", after: null, max: 9 })).docs).toMatchObject([
      { id: "y" },
    ]);
    expect(await store.putDocs([{ ...put, guard: "absent" }])).toMatchObject([{ kind: "ok" }]);
    expect((await store.readUnreadable({ after: null, max: 9 })).records).toMatchObject([
      { text: "garbage" },
    ]);
  });

  test("many unreadable records are read by pages, in the order of their refs", async () => {
    await submit();
    for (const id of ids) await specFaults["a spec that is garbage"]!(id);
    expect((await store.claim(aClaim({ max: 10 }))).jobs).toEqual([]);
    const first = await store.readUnreadable({ after: null, max: 3 });
    const second = await store.readUnreadable({ after: first.cursor, max: 3 });
    expect([...first.records, ...second.records].map(({ ref }) => ref)).toEqual([
      "a1",
      "a2",
      "a3",
      "a4",
      "a5",
    ]);
    expect(second.cursor).toBeNull();
    expect(await store.countJobs()).toEqual([]);
  });
});

test.each(["garbage", ""])(
  "a member of a flow whose spec is %j lets the flow come to its end",
  async (spec) => {
    await expectEndWithout(await redis.open({}), (id) => rewrite(id, "spec", () => spec));
  },
);

test("an index of another type stops the promotion of its route alone, and is shown as unreadable", async () => {
  const due = (name: string, inMs: number) => ({ jobs: [aJob({ id: name, name, due: { inMs } })] });
  await store.submit([due("a", 10), due("b", 10), due("c", 90_000)]);
  const [index, head] = [keyOf(`due:${routeText(aRoute({ name: "a" }))}`), keyOf("due")];
  await redis.admin.del(index);
  await redis.admin.set(index, "another program's");
  platform.advance(10);
  const hints: Hint[] = [];
  const unwatch = store.watch((hint) => hints.push(hint));
  expect(await store.promoteDue({ max: 9 })).toEqual({ count: 1, more: false, nextDueInMs: 60_000 });
  expect(hints).toContainEqual({ kind: "unreadable", count: 1 });
  unwatch();
  expect(await store.readJobs(["a", "b"])).toMatchObject([{ state: "scheduled" }, { state: "ready" }]);
  const { records } = await store.readUnreadable({ after: null, max: 9 });
  expect(records).toMatchObject([{ ref: `index:${index}`, id: null, at: platform.now() }]);
  expect(records[0]?.why).toMatch(/WRONGTYPE/);
  const shownAt = platform.now();
  platform.advance(60_000);
  expect(await store.promoteDue({ max: 9 })).toEqual({ count: 0, more: false, nextDueInMs: 29_990 });
  expect((await store.readUnreadable({ after: null, max: 9 })).records).toMatchObject([{ at: shownAt }]);
  expect(await redis.admin.get(index)).toBe("another program's");
  expect(await redis.admin.zcard(head)).toBe(2);
  await redis.admin.del(index);
  await auditAll(store);
  expect(await store.promoteDue({ max: 9 })).toMatchObject({ count: 1 });
  expect((await store.readJobs(["a"]))[0]).toMatchObject({ state: "ready" });
});
