/** Postgres behind a real pgbouncer in transaction mode: no call may count on the session of the last one. */
import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { postgresFindings } from "../../src/cli/doctor/postgres-findings.ts";
import type { Millrace } from "../../src/client/millrace.ts";
import { openMillrace } from "../../src/open.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { examinePostgres } from "../../src/stores/postgres/connection/examine.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { startPgbouncer } from "../support/servers/pgbouncer.ts";
import type { Pgbouncer } from "../support/servers/pgbouncer.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { until } from "../support/until.ts";
import { millOn } from "../support/mill-on.ts";
import { hangMs } from "../support/hang-ms.ts";

describe("Postgres behind pgbouncer", () => {
  const database = useTestDatabase();
  let pooler: Pgbouncer;
  beforeAll(async () => {
    pooler = await startPgbouncer(database.url, 3);
    return () => pooler.stop();
  });

  const closeLater = closeAfterEach();

  /** `listenUrl`: as the store takes it. */
  async function openMill(schema: string, listenUrl?: string | null): Promise<Millrace> {
    const options = { url: pooler.url, schema, platform: nodePlatform, poolMax: 8 };
    const store = await openPostgresStore(listenUrl === undefined ? options : { ...options, listenUrl });
    return closeLater(millOn(store));
  }

  const plain = job<number, number>("plain");
  const double = handler(plain, async ({ input }) => input * 2);

  test("more connections than the pooler has to the server: tables are made, and every job runs once", async () => {
    const runs: number[] = [];
    const counted = handler(plain, async ({ input }) => (runs.push(input), input * 2));
    const [one, other] = [await openMill("crowd", database.url), await openMill("crowd", database.url)];
    await one.work([counted], { concurrency: 20 });
    await other.work([counted], { concurrency: 20 });
    const numbers = Array.from({ length: 300 }, (_, index) => index);
    const handles = await Promise.all(
      numbers.map((number) => (number % 2 === 0 ? one : other).enqueue(plain, number)),
    );
    const results = await Promise.all(handles.map((handle) => handle.result({ timeout: hangMs })));
    expect(results).toEqual(numbers.map((number) => number * 2));
    expect(runs.toSorted((left, right) => left - right)).toEqual(numbers);
  });

  test("nothing is prepared on the server's processes, which belong to nobody", async () => {
    const mill = await openMill("unnamed", null);
    await mill.enqueueMany([1, 2, 3].map((number) => plain.with(number)));
    const client = new pg.Client(pooler.url);
    await client.connect();
    const { rows } = await client.query(
      "SELECT name FROM pg_prepared_statements WHERE name LIKE 'millrace%'",
    );
    await client.end();
    expect(rows).toEqual([]);
  });

  test.each([
    ["over a direct connection", "wake_direct", (): string => database.url],
    ["nowhere", "wake_unheard", () => null],
    ["through the pooler, which swallows it", "wake_pooled", () => undefined],
  ])("a worker that listens %s starts the job of another process", async (_where, schema, listenUrl) => {
    const worker = await openMill(schema, listenUrl());
    await worker.work([double]);
    const producer = await openMill(schema, listenUrl());
    const handle = await producer.enqueue(plain, 21);
    expect(await handle.result({ timeout: hangMs })).toBe(42);
  });

  test("the direct address may stand in the URL", async () => {
    const url = new URL(pooler.url);
    url.searchParams.set("schema", "named");
    url.searchParams.set("listenUrl", database.url);
    const mill = closeLater(await openMillrace(url.href, { log: false }));
    await mill.work([double]);
    const listening = (): Promise<unknown[]> =>
      database.query(
        "SELECT client_port FROM pg_stat_activity WHERE application_name = 'millrace listener' AND query LIKE 'LISTEN \"named_hint\"%'",
      );
    await until("somebody listens past the pooler", async () => (await listening()).length > 0);
    expect(await listening()).toHaveLength(1);
  });

  test("doctor says that nothing is heard through the pooler, and what to do", async () => {
    const condition = await examinePostgres({ url: pooler.url, platform: nodePlatform, olderThanMs: 60_000 });
    expect(condition.hears).toBe(false);
    expect(postgresFindings(condition)).toContainEqual(expect.objectContaining({ check: "wake-ups" }));
    const named = `${pooler.url}?listenUrl=${encodeURIComponent(database.url)}`;
    expect(await examinePostgres({ url: named, platform: nodePlatform, olderThanMs: 0 })).toMatchObject({
      hears: true,
    });
  });

  test("the caller's own transaction through the pooler commits or rolls back with its job", async () => {
    const mill = await openMill("own", null);
    const client = new pg.Client({ connectionString: pooler.url });
    await client.connect();
    for (const end of ["ROLLBACK", "COMMIT"]) {
      await client.query("BEGIN");
      await mill.in(client).enqueue(plain, 1);
      await client.query(end);
    }
    await expect((async () => mill.in(client).enqueue(plain, 2))()).rejects.toMatchObject({
      code: "not-in-transaction",
    });
    await client.end();
    expect(await mill.jobs.counts()).toEqual({ default: { ready: 1 } });
  });
});
