/**
 * What the layout of journals promises beyond the contract: nothing of a journal outlives its job, other jobs have not
 * a byte more, and suspended jobs are in no index that a claim reads.
 */
import { describe, expect, onTestFinished, test } from "vitest";
import {
  anAppend,
  anEntry,
  aRecord,
  aSignal,
  leaseOf,
  suspend,
} from "../../../../test/contract/cases/durable/journal-calls.ts";
import {
  aChange,
  aClaim,
  aJob,
  aSettle,
  finish,
  remove,
  schedule,
} from "../../../../test/support/builders.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { auditAll } from "../../../../test/support/walk.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { LeasedJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import { readMessage } from "../feed/hint-text.ts";
import { stateFields } from "../packing/packed-fields.ts";
import { fieldEnd } from "../packing/value-text.ts";
import { examineRedis } from "../upkeep/examine.ts";

const redis = useOwnRedis();
const keyOf = (name: string): string => `{${redis.prefix}:0}:${name}`;

/** The keys of journals, without the handles of their jobs. */
const journalKeys = async (): Promise<readonly string[]> => {
  const kinds = ["journal", "known", "others"].map((kind) => redis.admin.keys(`${keyOf(kind)}:*`));
  return (await Promise.all(kinds)).flat().map((key) => key.split(":")[2] as string);
};

const claimOne = async (store: Store): Promise<LeasedJob> =>
  (await store.claim(aClaim({ max: 1 }))).jobs[0] as LeasedJob;

/** A running job with an entry of its own and a signal. */
async function aRun(store: Store, id = "a"): Promise<LeasedJob> {
  await store.submit([{ jobs: [aJob({ id })] }]);
  const leased = await claimOne(store);
  await store.recordIfLeased([aRecord(leased, anEntry("step"))]);
  await store.changeIf([anAppend(id, aSignal("paid"))]);
  expect(await journalKeys()).toEqual(["journal", "known", "others"]);
  return leased;
}

const atEnd = (entries = [anEntry("end")]): { journal: { seen: null; entries: typeof entries } } => ({
  journal: { seen: null, entries },
});

describe("a journal leaves with its job", () => {
  test("that is kept for no time", async () => {
    const store = await redis.open();
    const leased = await aRun(store);
    await store.settleIfLeased([aSettle(leased, finish("completed", { keepMs: 0 }), atEnd())]);
    expect(await journalKeys()).toEqual([]);
  });

  test("that is deleted, and that is pruned by its age, as one too many or at its own time", async () => {
    const platform = createHeldPlatform();
    const store = await redis.open({ platform, clock: "platform" });
    const history = { outcome: "completed", queue: null, exceptQueues: [], cursor: null } as const;
    const surplus = { outcome: "completed", queue: "mail", keep: 0, cursor: null } as const;
    const leave: readonly [keepMs: number | null, leave: () => Promise<unknown>][] = [
      [null, () => store.changeIf([aChange("a", ["completed"], remove)])],
      [null, () => store.prune({ what: "history", ...history, olderThanMs: 0, max: 10 })],
      [null, () => store.prune({ what: "surplus", ...surplus, max: 10 })],
      [5, () => store.prune({ what: "kept", max: 10 })],
    ];
    for (const [keepMs, leaves] of leave) {
      await store.settleIfLeased([
        aSettle(await aRun(store), finish("completed", { keepMs, reason: null }), atEnd()),
      ]);
      expect(await journalKeys()).toEqual(["journal", "known", "others"]);
      platform.advance(10);
      await leaves();
      expect(await journalKeys()).toEqual([]);
    }
  });

  test("that cannot be read", async () => {
    const store = await redis.open();
    const { seq } = await aRun(store);
    const [handle] = await redis.admin.hkeys(keyOf("state"));
    const state = (await redis.admin.hget(keyOf("state"), handle as string)) as string;
    const spoilt = state.split(fieldEnd).with(stateFields.indexOf("flags"), "9").join(fieldEnd);
    await redis.admin.hset(keyOf("state"), handle as string, spoilt);
    expect(await store.readJournal([{ id: "a", after: 0, max: 5 }])).toEqual([{ kind: "gone" }]);
    expect(await journalKeys()).toEqual([]);
    expect((await store.readUnreadable({ after: null, max: 5 })).records).toMatchObject([{ id: "a" }]);
    expect(seq).toBe(1);
  });

  test("and a hand that took only the job away leaves keys that doctor names", async () => {
    const store = await redis.open();
    await aRun(store);
    await redis.admin.hdel(keyOf("spec"), "a1");
    const { servers } = await examineRedis({
      url: `${redis.server.url}?prefix=${redis.prefix}`,
      platform: nodePlatform,
    });
    const kinds = ["journal", "known", "others"];
    expect(servers[0]?.partitions[0]?.orphans).toEqual(kinds.map((kind) => `${keyOf(kind)}:a1`));
  });
});

test("a job that is not durable has no byte more: what a run needs stands before its flags", async () => {
  const store = await redis.open();
  await store.submit([{ jobs: [aJob({ id: "a" })] }]);
  const leased = await claimOne(store);
  const state = async (): Promise<readonly string[]> =>
    ((await redis.admin.hget(keyOf("state"), "a1")) as string).split(fieldEnd);
  const before = await state();
  expect(stateFields).not.toContain("durable");
  expect(before).toHaveLength(stateFields.length);
  expect(before[stateFields.indexOf("flags")]).toBe("");
  await store.recordIfLeased([aRecord(leased, anEntry("step", { marks: 2 }))]);
  await store.changeIf([anAppend("a", aSignal("paid", { unread: 20 }))]);
  expect(await state()).toEqual(before.with(stateFields.indexOf("flags"), "3,2,2:20."));
});

test("a new round keeps the unread entries, and keys of others alone", async () => {
  const store = await redis.open();
  const leased = await aRun(store);
  await store.settleIfLeased([
    aSettle(leased, schedule(0, { newRound: true }), atEnd([anEntry("read", { reads: [2] })])),
  ]);
  expect(await journalKeys()).toEqual(["known", "others"]);
  expect(await redis.admin.hgetall(`${keyOf("known")}:a1`)).toEqual({ paid: "o" });
});

describe("a suspended job that wakes", () => {
  test("is in no index that claims read, so that one that is due slows none of them", async () => {
    const platform = createHeldPlatform();
    const store = await redis.open({ platform, clock: "platform" });
    const leased = await aRun(store);
    await store.settleIfLeased([
      aSettle(leased, suspend({ wake: { inMs: 5 } }), { journal: { seen: 2, entries: [] } }),
    ]);
    expect(await redis.admin.exists(keyOf("clock"))).toBe(0);
    expect(await redis.admin.zrange(keyOf("wake"), 0, "-1")).toEqual(["a1"]);
    expect((await store.claim(aClaim())).nextDueInMs).toBe(5);
    // What the library remembers of such jobs is read again.
    await redis.admin.call("FUNCTION", "FLUSH");
    expect((await store.claim(aClaim())).nextDueInMs).toBe(5);
  });

  test("is found again after the audit where a hand took its time away", async () => {
    const platform = createHeldPlatform();
    const store = await redis.open({ platform, clock: "platform" });
    const leased = await aRun(store);
    const settle = aSettle(leased, suspend({ wake: { inMs: 5 } }), { journal: { seen: 2, entries: [] } });
    await store.settleIfLeased([settle]);
    await redis.admin.del(keyOf("wake"));
    platform.advance(10);
    const due = async (): Promise<readonly string[]> =>
      (await store.readDue({ clock: "wake", max: 5, cursor: null })).jobs.map(({ id }) => id);
    expect(await due()).toEqual([]);
    expect(await auditAll(store)).toEqual({ timer: 1 });
    expect(await due()).toEqual(["a"]);
  });
});

test("a signal to running jobs is published with their owner, and one to a ready job is not", async () => {
  const store = await redis.open();
  const listener = redis.admin.duplicate();
  onTestFinished(() => listener.disconnect());
  const signals = new Promise<Hints["signals"]>((resolve) =>
    listener.on("message", (_, message) => {
      const hints = readMessage(message);
      if (hints.signals.length > 0) resolve(hints.signals);
    }),
  );
  await listener.subscribe(keyOf("hint"));
  const ids = ["hard \x1e\x1f", "b", "c"];
  await store.submit([{ jobs: ids.map((id) => aJob({ id })) }]);
  const owner = "of \x1f w1";
  expect((await store.claim(aClaim({ owner, max: 2 }))).jobs.map(({ id }) => id)).toEqual(ids.slice(0, 2));
  await store.changeIf(ids.map((id) => anAppend(id, aSignal("paid"))));
  expect(await signals).toEqual(ids.slice(0, 2).map((id) => ({ id, owner })));
});

test("a page ends before a call gets large, and what it did not come to is read by another call", async () => {
  const store = await redis.open();
  await store.submit([{ jobs: ["a", "b", "c"].map((id) => aJob({ id })) }]);
  const { jobs } = await store.claim(aClaim());
  const body = "x".repeat(100_000);
  const entries = Array.from({ length: 12 }, (_, at) => anEntry(`${at}`, { body }));
  await store.recordIfLeased(jobs.map((leased) => ({ ...leaseOf(leased), entries })));
  await redis.admin.call("CONFIG", "RESETSTAT");
  const pages = await store.readJournal(jobs.map(({ id }) => ({ id, after: 0, max: 100 })));
  for (const page of pages) {
    expect(page).toMatchObject({ kind: "ok", last: 12 });
    const { length } = page.kind === "ok" ? page.entries : [];
    expect(length).toBeGreaterThan(1);
    expect(length).toBeLessThan(12);
  }
  const stats = (await redis.admin.call("INFO", "commandstats")) as string;
  expect(stats).toMatch(/cmdstat_fcall:calls=3,/);
});

test("without memory an entry is refused whole, and a run can still be cancelled", async () => {
  const store = await redis.open();
  const leased = await aRun(store);
  await store.settleIfLeased([aSettle(leased, suspend(), { journal: { seen: 2, entries: [] } })]);
  await redis.admin.call("CONFIG", "SET", "maxmemory", "1");
  try {
    await expect(store.changeIf([anAppend("a", aSignal("more"))])).rejects.toMatchObject({
      code: "store-full",
    });
    expect(await store.changeIf([aChange("a", ["suspended"], finish("cancelled"))])).toMatchObject([
      { kind: "ok" },
    ]);
  } finally {
    await redis.admin.call("CONFIG", "SET", "maxmemory", "0");
  }
  expect(await store.readJournal([{ id: "a", after: 0, max: 5 }])).toMatchObject([{ last: 2 }]);
});
