/**
 * The server's clock was an hour ahead for a moment and is right again. The store's own time goes on from where it was,
 * so leases and delays keep their lengths. What a person or a calendar named comes at the server's time.
 */
import { beforeEach, expect, test } from "vitest";
import { job } from "../../../engine/submit/job-definition.ts";
import { readMeta } from "../../../model/job/job-meta.ts";
import { createPlacement } from "../../../model/routing/placement.ts";
import type { Store } from "../../../store/store.ts";
import { handler } from "../../../worker/handler.ts";
import { aDoc, aJob } from "../../../../test/support/builders.ts";
import { millOn } from "../../../../test/support/mill-on.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { readAllDueDocs } from "../../../../test/support/walk.ts";

const redis = useOwnRedis();
const hourMs = 3_600_000;
const tick = job<null>("tick");
let store: Store;

/** As a call that was made while the clock was ahead leaves it: its time is in the newest record of the feed. */
async function beAnHourAhead(prefix = redis.prefix, partition = 0): Promise<void> {
  const feed = `{${prefix}:${partition}}:feed`;
  const [[entry, fields]] = (await redis.admin.xrevrange(feed, "+", "-", "COUNT", 1)) as [[string, string[]]];
  const [, at, , events, , seq] = fields as [string, string, string, string, string, string];
  const next = `${Number.parseInt(entry, 10) + 1}-1`;
  await redis.admin.xadd(feed, next, "a", String(Number(at) + hourMs), "b", events, "s", seq);
  await redis.admin.call("FUNCTION", "FLUSH");
}

beforeEach(async () => {
  store = await redis.open();
  await store.submit([{ jobs: [aJob({ id: "first" })] }]);
  await beAnHourAhead();
});

const stateOf = async (id: string): Promise<string | undefined> => {
  await store.promoteDue({ max: 9 });
  return (await store.readJobs([id]))[0]?.state;
};

test("the store says both times, and a delay counts from its own", async () => {
  const { now, serverNow = now, aheadMs = 0 } = await store.describe();
  expect(now - serverNow).toBe(aheadMs);
  expect(Math.abs(aheadMs - hourMs)).toBeLessThan(60_000);
  expect((await store.readDueDocs({ max: 1, cursor: null })).serverNow).toBeGreaterThanOrEqual(serverNow);
  await store.submit([{ jobs: [aJob({ id: "soon", due: { inMs: 30 } })] }]);
  await expect.poll(() => stateOf("soon")).toBe("ready");
});

test("a named instant comes at the server's time: of a job, of a document, of a deadline", async () => {
  const { serverNow = 0 } = await store.describe();
  const named = (inMs: number) => ({ at: serverNow + inMs, isNamed: true }) as const;
  const jobs = [
    aJob({ id: "past", due: named(-hourMs / 2) }),
    aJob({ id: "later", due: named(hourMs / 2) }),
    aJob({ id: "soon", due: named(400) }),
    aJob({ id: "bounded", deadline: named(hourMs / 2) }),
  ];
  await store.submit([{ jobs }]);
  await store.putDocs([aDoc("d", "x", { due: named(hourMs / 2) }), aDoc("e", "x", { due: named(-1) })]);
  expect(await stateOf("past")).toBe("ready");
  await expect.poll(() => stateOf("soon")).toBe("ready");
  expect((await store.describe()).serverNow).toBeGreaterThanOrEqual(serverNow + 400);
  expect(await stateOf("later")).toBe("scheduled");
  expect((await store.readDue({ clock: "deadline", max: 9, cursor: null })).jobs).toEqual([]);
  expect((await readAllDueDocs(store)).map(({ id }) => id)).toEqual(["e"]);
});

test.each([1, 2])(
  "ticks of a schedule come at the server's time in %i partitions, none early",
  async (partitions) => {
    const prefix = `${redis.prefix}:ticks`;
    const own = await redis.open({ prefix, partitions });
    const mill = millOn(own);
    for (let partition = 0; partition < partitions; partition++) {
      const at = Array.from({ length: 50 }, (_, n) => `job-${n}`).find(
        (id) => partitions === 1 || createPlacement(partitions).ofId(id) === partition,
      );
      await own.submit([{ jobs: [aJob({ id: at as string })] }]);
      await beAnHourAhead(prefix, partition);
    }
    const ran: string[] = [];
    await mill.work([handler(tick, ({ id }) => void ran.push(id))]);
    const { serverNow: before = 0 } = await store.describe();
    const view = await mill.schedule("often", tick, null, { every: "1s" });
    expect(view.next?.getTime()).toBeLessThan(before + 60_000);
    await expect.poll(() => ran.length, { timeout: 30_000 }).toBeGreaterThan(1);
    const records = await own.readJobs(ran);
    await mill.close();
    const { now, serverNow = now } = await store.describe();
    for (const record of records) {
      const { tick: at = 0 } = readMeta(record?.meta ?? null).schedule ?? {};
      expect(at).toBeLessThanOrEqual(serverNow);
      expect(at).toBeGreaterThan(serverNow - 60_000);
    }
  },
);
