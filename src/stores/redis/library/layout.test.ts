/**
 * What the layout promises beyond the contract: lists that look at few jobs, and a memory of the library that can be
 * lost at any time.
 */
import { describe, expect, test } from "vitest";
import type { JobState } from "../../../model/job/job-state.ts";
import type { Store } from "../../../store/store.ts";
import {
  aChange,
  aClaim,
  aJob,
  aRoute,
  aSettle,
  finish,
  remove,
  replay,
} from "../../../../test/support/builders.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { auditAll } from "../../../../test/support/walk.ts";
import { routeText } from "../packing/route-text.ts";
import { handleOf } from "../packing/value-text.ts";

const redis = useOwnRedis();
const send = routeText(aRoute());
const other = routeText(aRoute({ name: "other" }));

const idOf = (number: number): string => `j${String(number).padStart(6, "0")}`;

/** Jobs `from` to `to`, in one call. */
async function submit(store: Store, from: number, to: number): Promise<void> {
  const jobs = Array.from({ length: to - from + 1 }, (_, index) => aJob({ id: idOf(from + index) }));
  await store.submit([{ jobs }]);
}

async function end(store: Store, max: number, to: "completed" | "failed"): Promise<void> {
  const { jobs } = await store.claim(aClaim({ max }));
  await store.settleIfLeased(jobs.map((job) => aSettle(job, finish(to))));
}

async function list(
  store: Store,
  states: readonly JobState[],
  scanMax = 10_000,
): Promise<{ ids: string[]; scanned: number }> {
  const ids: string[] = [];
  let scanned = 0;
  let cursor: string | null = null;
  do {
    const page = await store.findJobs({ filter: { states }, max: 100, scanMax, cursor });
    ids.push(...page.jobs.map(({ id }) => id));
    scanned += page.scanned;
    cursor = page.cursor;
  } while (cursor !== null);
  return { ids, scanned };
}

describe("lists", () => {
  test("find few failed or live jobs among many completed ones by looking at no others", async () => {
    const store = await redis.open();
    await submit(store, 1, 3);
    await end(store, 3, "failed");
    await submit(store, 4, 1003);
    await end(store, 1000, "completed");
    await submit(store, 1004, 1006);
    await store.claim(aClaim({ max: 1 }));
    expect(await list(store, ["failed"])).toEqual({ ids: [idOf(3), idOf(2), idOf(1)], scanned: 3 });
    expect(await list(store, ["ready"])).toEqual({ ids: [idOf(1006), idOf(1005)], scanned: 2 });
    expect(await list(store, ["running", "failed"])).toMatchObject({
      ids: [idOf(1004), idOf(3), idOf(2), idOf(1)],
    });
  });

  test("know a failed job no longer once it was replayed, removed or pruned", async () => {
    const store = await redis.open();
    await submit(store, 1, 4);
    await end(store, 4, "failed");
    await store.changeIf([
      aChange(idOf(1), ["failed"], replay()),
      aChange(idOf(2), ["failed"], remove),
      aChange(idOf(3), ["failed"], replay(60_000)),
    ]);
    expect((await list(store, ["failed"])).ids).toEqual([idOf(4)]);
    const history = { what: "history", outcome: "failed", queue: null, exceptQueues: [] } as const;
    await store.prune({ ...history, olderThanMs: 0, max: 10, cursor: null });
    expect((await list(store, ["failed"])).ids).toEqual([]);
    expect(await redis.admin.keys(`{${redis.prefix}:0}:bad:*`)).toEqual([]);
    expect(await auditAll(store)).toEqual({});
  });

  test("know no time of a result whose job was pruned before", async () => {
    const store = await redis.open();
    await submit(store, 1, 2);
    const { jobs } = await store.claim(aClaim({ max: 2 }));
    const ending = finish("completed", { result: "42", keepResultMs: 60_000 });
    await store.settleIfLeased(jobs.map((job) => aSettle(job, ending)));
    const history = { what: "history", outcome: "completed", queue: null, exceptQueues: [] } as const;
    await store.prune({ ...history, olderThanMs: 0, max: 10, cursor: null });
    expect(await redis.admin.keys(`{${redis.prefix}:0}:results`)).toEqual([]);
  });

  test("are whole again after the audit where a hand took entries away", async () => {
    const store = await redis.open();
    await store.submit([{ jobs: [aJob({ id: "a", tags: ["red"] })] }]);
    await end(store, 1, "failed");
    await redis.admin.del(`{${redis.prefix}:0}:bad:6`, `{${redis.prefix}:0}:tag:red`);
    expect((await list(store, ["failed"])).ids).toEqual([]);
    expect(await auditAll(store)).toEqual({ timer: 2 });
    expect((await list(store, ["failed"])).ids).toEqual(["a"]);
    const tagged = await store.findJobs({ filter: { tag: "red" }, max: 10, scanMax: 10, cursor: null });
    expect(tagged.jobs.map(({ id }) => id)).toEqual(["a"]);
  });

  test("are counted right again after the audit where a hand changed the state counts", async () => {
    const store = await redis.open();
    await submit(store, 1, 300);
    await end(store, 200, "completed");
    await end(store, 10, "failed");
    await store.claim(aClaim({ max: 5 }));
    const right = await store.countJobs();
    expect(await auditAll(store)).toEqual({});
    for (const [field, by] of [
      [`${send}:5`, -1],
      [`${send}:6`, 2],
      [`${send}:1`, 1],
      [`${send}:t`, 7],
    ] as const) {
      await redis.admin.hincrby(`{${redis.prefix}:0}:counts`, field, by);
      expect(Object.values(await auditAll(store))).toEqual([1]);
      expect(await store.countJobs()).toEqual(right);
    }
  });

  test("are counted right again where a job is counted with another route, which adds up over all", async () => {
    const store = await redis.open();
    await store.submit([{ jobs: [aJob({ id: "a" }), aJob({ id: "b", name: "other" })] }]);
    const right = await store.countJobs();
    for (const [field, by] of [
      [`${send}:t`, 1],
      [`${other}:t`, -1],
    ] as const)
      await redis.admin.hincrby(`{${redis.prefix}:0}:counts`, field, by);
    expect(Object.values(await auditAll(store))).toEqual([2]);
    expect(await store.countJobs()).toEqual(right);
  });

  test("reach every job across pages that are full, emptied and still being filled", async () => {
    const store = await redis.open();
    await submit(store, 1, 900);
    await store.changeIf(
      Array.from({ length: 300 }, (_, index) => aChange(idOf(200 + index), ["ready"], remove)),
    );
    await submit(store, 901, 905);
    const { ids } = await list(store, ["ready", "completed"]);
    const wanted = Array.from({ length: 905 }, (_, index) => index + 1)
      .filter((number) => number < 200 || number >= 500)
      .map(idOf);
    expect(ids).toEqual(wanted.reverse());
    // Page 1 is seqs 256 to 511; page 3 is still being filled.
    expect(await redis.admin.zrange(`{${redis.prefix}:0}:pages`, "0", "-1")).toEqual(["0", "1", "2"]);
  });
});

test("an index to which many jobs come at once is a tree from the beginning, and has nothing else in it", async () => {
  const store = await redis.open();
  const ready = `{${redis.prefix}:0}:ready:${send}`;
  await submit(store, 1, 3);
  expect(await redis.admin.object("ENCODING", ready)).toBe("listpack");
  await submit(store, 4, 103);
  expect(await redis.admin.object("ENCODING", ready)).toBe("skiplist");
  expect(await redis.admin.zcard(ready)).toBe(103);
  const { jobs } = await store.claim(aClaim({ max: 200 }));
  expect(jobs.map(({ id }) => id)).toEqual(Array.from({ length: 103 }, (_, index) => idOf(index + 1)));
  expect(await redis.admin.exists(ready)).toBe(0);
});

describe("what the library remembers", () => {
  test("is read again after the library was lost: no seq and no feed number comes twice", async () => {
    const store = await redis.open();
    await submit(store, 1, 300);
    await redis.admin.call("FUNCTION", "FLUSH");
    await submit(store, 301, 600);
    const { jobs } = await store.claim(aClaim({ max: 600 }));
    expect(jobs.map(({ seq }) => seq)).toEqual(Array.from({ length: 600 }, (_, index) => index + 1));
    const { records } = await store.readFeed({ after: 0, max: 10 });
    const [first = 0] = records.map(({ number }) => number);
    expect(records.map(({ number }) => number - first)).toEqual([0, 1, 2]);
    expect(await auditAll(store)).toEqual({});
  });

  test("is that of the newest record of the feed, which stays whatever is pruned, also after an entry", async () => {
    const store = await redis.open();
    await submit(store, 1, 2);
    // As if another server process had written this.
    await redis.admin.hset(`{${redis.prefix}:0}:meta`, "token", "another");
    await store.describe();
    await store.prune({ what: "feed", olderThanMs: 0, max: 10 });
    expect(await redis.admin.xlen(`{${redis.prefix}:0}:feed`)).toBe(1);
    await redis.admin.call("FUNCTION", "FLUSH");
    await submit(store, 3, 3);
    expect((await store.readJobs([idOf(3)])).map((job) => job?.seq)).toEqual([3]);
  });

  test("names jobs by their seqs in the order of numbers, wherever these get one more digit", async () => {
    const store = await redis.open();
    const [feed, ids] = [`{${redis.prefix}:0}:feed`, `{${redis.prefix}:0}:ids`];
    let made = 0;
    for (const before of [7, 996, 1997, 9_996, 999_996, 12_345_998, 2 ** 53 - 10]) {
      await submit(store, made + 1, made + 1);
      const [[entry]] = (await redis.admin.xrevrange(feed, "+", "-", "COUNT", 1)) as [[string, string[]]];
      const next = `${Number.parseInt(entry, 10) + 1}-1`;
      await redis.admin.xadd(feed, next, "a", "1", "b", "", "s", String(before));
      await redis.admin.call("FUNCTION", "FLUSH");
      await submit(store, made + 2, made + 7);
      const wanted = Array.from({ length: 6 }, (_, at) => handleOf(before + 1 + at));
      expect(await redis.admin.hmget(ids, ...wanted.map((_, at) => idOf(made + 2 + at)))).toEqual(wanted);
      expect(wanted.toSorted()).toEqual(wanted);
      made += 7;
    }
  });

  test("is rebuilt where a hand took the feed away: every job stays in its lists, and new ones come behind", async () => {
    const store = await redis.open();
    await submit(store, 1, 300);
    await redis.admin.del(`{${redis.prefix}:0}:feed`);
    await redis.admin.call("FUNCTION", "FLUSH");
    await submit(store, 301, 302);
    const { ids } = await list(store, ["ready", "completed"]);
    expect(ids).toEqual(Array.from({ length: 302 }, (_, index) => idOf(302 - index)));
    expect(await auditAll(store)).toEqual({});
  });

  test("is also the time: what was written while the clock was ahead is in the past, and time goes on from there", async () => {
    const store = await redis.open();
    await submit(store, 1, 1);
    const feed = `{${redis.prefix}:0}:feed`;
    const [[entry, fields]] = (await redis.admin.xrevrange(feed, "+", "-", "COUNT", 1)) as [
      [string, string[]],
    ];
    const [, at, , events, , seq] = fields as [string, string, string, string, string, string];
    const later = Number(at) + 3_600_000;
    const next = `${Number.parseInt(entry, 10) + 1}-1`;
    await redis.admin.xadd(feed, next, "a", String(later), "b", events, "s", seq);
    await redis.admin.call("FUNCTION", "FLUSH");
    const { now, aheadMs = 0 } = await store.describe();
    expect(now).toBeGreaterThanOrEqual(later);
    expect(aheadMs).toBeGreaterThan(3_500_000);
    expect(aheadMs).toBeLessThanOrEqual(3_600_000);
    await expect.poll(async () => (await store.describe()).now).toBeGreaterThan(now + 20);
    expect((await store.describe()).aheadMs).toBe(aheadMs);
    await store.submit([{ jobs: [aJob({ id: "soon", due: { inMs: 20 } })] }]);
    await expect.poll(async () => (await store.promoteDue({ max: 1 })).count).toBe(1);
  });

  test("keeps stores of one prefix in two databases of a server apart", async () => {
    const inDatabase = (number: number): Promise<Store> =>
      redis.open({ url: `${redis.server.url}/${number}` });
    const [one, other] = [await inDatabase(0), await inDatabase(1)];
    for (let number = 1; number <= 3; number++) {
      await submit(one, number, number);
      await submit(other, number, number);
    }
    for (const store of [one, other]) {
      const { jobs } = await store.claim(aClaim({ max: 10 }));
      expect(jobs.map(({ seq }) => seq)).toEqual([1, 2, 3]);
    }
  });
});
