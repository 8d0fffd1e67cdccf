/**
 * Eight processes (here: eight Millraces, each with a store of its own) that have nothing to do, while another one has
 * a due job now and then: the fleet answers each clock once, on every store. The virtual clock's part, with a holder
 * that dies, is in test/simulation/promptness.test.ts.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/use-postgres.ts";
import { useSharedRedis } from "../support/use-redis.ts";

const platform = nodePlatform;
const processes = 8;
const dueJobs = 8;
/** The least time between two slow polls of one process. */
const pollMinMs = 1275;

const postgres = useTestDatabase();
const redis = useSharedRedis();
const closeLater = closeAfterEach();

type Counted = "promoteDue" | "readDue";
type Calls = Record<Counted, number>;

function counted(store: Store, calls: Calls): Store {
  const count =
    <Request, Answer>(name: Counted, call: (request: Request) => Answer) =>
    (request: Request): Answer => {
      calls[name] += 1;
      return call(request);
    };
  return {
    ...store,
    promoteDue: count("promoteDue", (request: { max: number }) => store.promoteDue(request)),
    readDue: count("readDue", (request: Parameters<Store["readDue"]>[0]) => store.readDue(request)),
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
  test("promotes a due job once, and reads no other clocks for it", async () => {
    const open = await prepare();
    const calls: Calls = { promoteDue: 0, readDue: 0 };
    for (let process = 1; process <= processes; process++)
      closeLater(millOn(counted(await open(), calls))).startDuties();
    const worker: Millrace = closeLater(millOn(await open(), { duties: false }));
    const quick = job<null, number>("quick");
    await worker.work([handler(quick, async () => platform.now())]);
    await until("every process has looked at all clocks", () => calls.readDue >= processes * 4);

    const before = { ...calls };
    const beganUs = platform.monotonicUs();
    for (let count = 1; count <= dueJobs; count++)
      await (await worker.enqueue(quick, null, { delay: 400 })).result();
    const passedMs = (platform.monotonicUs() - beganUs) / 1000;

    const polls = processes * Math.ceil(passedMs / pollMinMs);
    expect(calls.promoteDue - before.promoteDue).toBeLessThanOrEqual(polls + 2 * dueJobs);
    // None, unless the machine is so busy that a hint is a quarter second late: then each of the others looks at all
    // clocks once. Where all of them looked for every job, there were 25 looks for each.
    expect(calls.readDue - before.readDue).toBeLessThan(processes * dueJobs);
  });
});
