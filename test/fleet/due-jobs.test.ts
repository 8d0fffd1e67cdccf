/**
 * Eight processes (here: eight Millraces, each with a store of its own) that have nothing to do, while another one has
 * a due job now and then: one of them promotes it, and all of them hear of it, on every store. That who hears of it
 * asks the store for nothing is checked on the virtual clock, with a holder that dies, in
 * src/engine/fleet/clock-answers.test.ts and test/simulation/promptness.test.ts.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { hangMs } from "../support/hang-ms.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";

const platform = nodePlatform;
const processes = 8;
const dueJobs = 8;

const postgres = useTestDatabase();
const redis = useSharedRedis();
const closeLater = closeAfterEach();

/** What a process did and heard. */
interface Seen {
  /** Jobs that it promoted. */
  promoted: number;
  /** Hints that told of a promotion, its own included. */
  told: number;
}

function watched(store: Store, seen: Seen): Store {
  return {
    ...store,
    async promoteDue(request) {
      const answer = await store.promoteDue(request);
      seen.promoted += answer.count;
      return answer;
    },
    watch: (listener) =>
      store.watch((hint) => {
        if (hint.kind === "promoted") seen.told += 1;
        listener(hint);
      }),
  };
}

async function onSqlite(): Promise<() => Promise<Store>> {
  const folder = await mkdtemp(join(tmpdir(), "millrace-fleet-"));
  closeLater({ close: () => rm(folder, { recursive: true }) });
  return () => openSqliteStore({ path: join(folder, "jobs.db"), platform });
}

async function onPostgres(): Promise<() => Promise<Store>> {
  return () => openPostgresStore({ url: postgres.url, platform });
}

const onRedis = (partitions: number) => async (): Promise<() => Promise<Store>> => {
  const { prefixes } = redis;
  const prefix = prefixes.next();
  closeLater({ close: () => prefixes.clear(prefix) });
  return () => openRedisStore({ url: prefixes.url, prefix, platform, partitions });
};

describe.each([
  ["SQLite", onSqlite],
  ["Postgres", onPostgres],
  ["Redis", onRedis(1)],
  ["Redis with four partitions", onRedis(4)],
])("a fleet on %s", (_title, prepare) => {
  test("promotes a due job once, and every process hears of it", async () => {
    const open = await prepare();
    const fleet = Array.from({ length: processes }, (): Seen => ({ promoted: 0, told: 0 }));
    for (const seen of fleet) closeLater(millOn(watched(await open(), seen))).duties.start();
    const worker: Millrace = closeLater(millOn(await open(), { duties: false }));
    const quick = job<null>("quick");
    await worker.work([handler(quick, async () => undefined)]);
    const runOne = async (id: string): Promise<unknown> =>
      (await worker.enqueue(quick, null, { id, delay: 400 })).result({ timeout: hangMs });
    // On a busy machine it takes a while until all listen.
    let before = 0;
    await until("all hear", async () => {
      await runOne(`before-${++before}`);
      return fleet.every(({ told }) => told > 0);
    });
    for (let count = 1; count <= dueJobs; count++) {
      const told = fleet.map((seen) => seen.told);
      await runOne(`due-${count}`);
      await until("all have heard", () => fleet.every((seen, at) => seen.told > told[at]!));
    }
    expect(fleet.reduce((sum, { promoted }) => sum + promoted, 0)).toBe(before + dueJobs);
  });
});
