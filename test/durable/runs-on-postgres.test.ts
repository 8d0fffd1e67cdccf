// Durable runs on Postgres: signals from another process's store, and steps that commit with the caller's rows.
import pg from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "../../src/index.ts";
import type { Millrace } from "../../src/client/millrace.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { suspendCases } from "../contract/cases/durable/suspend-cases.ts";
import { createSubject } from "../contract/subject.ts";
import { millOn } from "../support/mill-on.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { until } from "../support/until.ts";

const database = useTestDatabase();
let schemas = 0;
let mill: Millrace;
let other: Millrace;
let pool: pg.Pool;

const pay = job("pay", {
  input: z.object({ id: z.string() }),
  signals: { approved: z.string() },
  durable: { version: 1 },
});

beforeEach(async () => {
  const schema = `runs_${++schemas}`;
  const open = () => openPostgresStore({ url: database.url, platform: nodePlatform, schema });
  mill = millOn(await open());
  other = millOn(await open());
  pool = new pg.Pool({ connectionString: database.url, max: 2 });
  await database.query("CREATE TABLE IF NOT EXISTS orders (id text)");
  await database.query("DELETE FROM orders");
});
afterEach(async () => {
  await mill.close();
  await other.close();
  await pool.end();
});

async function inTransaction<T>(use: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const result = await use(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

test("a run waits for a signal of another process, and its step commits with the caller's rows", async () => {
  await mill.work([
    handler(pay, async ({ input, step }) => {
      const { value } = await step.waitFor("approved");
      return step.runIn("insert", inTransaction, async (client: pg.PoolClient) => {
        await client.query("INSERT INTO orders VALUES ($1)", [input.id]);
        return `${input.id} for ${value}`;
      });
    }),
  ]);
  const handles = await Promise.all(["a", "b"].map((id) => other.enqueue(pay, { id })));
  await until("both runs wait", async () => {
    const jobs = await Promise.all(handles.map(({ id }) => other.jobs.get(id)));
    return jobs.every((each) => each?.state === "suspended");
  });
  expect(await database.query("SELECT id FROM orders")).toEqual([]);
  for (const { id } of handles)
    expect(await other.signal(pay, id, "approved", "ann", { key: "k" })).toEqual({ kind: "delivered" });
  expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(["a for ann", "b for ann"]);
  expect(await database.query("SELECT id FROM orders ORDER BY id")).toEqual([{ id: "a" }, { id: "b" }]);
});

test("a settle that lets a suspend pass a cancel is found by the contract", async () => {
  const title = "a job whose cancel was asked for is not suspended: only its end, or its ending, is applied";
  const keeps = suspendCases.cases.find(([each]) => each === title)?.[1];
  expect(keeps).toBeDefined();
  for (const isPlanted of [false, true]) {
    const schema = `runs_${++schemas}`;
    const platform = createHeldPlatform();
    const store = await openPostgresStore({ url: database.url, platform, schema, clock: "platform" });
    if (isPlanted) await letSuspendsPass(schema);
    const checked = keeps?.(createSubject(store, platform));
    if (isPlanted) await expect(checked).rejects.toThrow(/cancel-asked/);
    else await checked;
    await store.close();
  }
});

async function letSuspendsPass(schema: string): Promise<void> {
  const [found] = await database.query(
    `SELECT pg_get_functiondef(p.oid) AS text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      WHERE n.nspname = $1 AND p.prosrc LIKE '%''scheduled'', ''ready'', ''suspended''%'`,
    [schema],
  );
  const text = String(found?.["text"]);
  const planted = text.replace("IN ('scheduled', 'ready', 'suspended')", "IN ('scheduled', 'ready')");
  expect(planted).not.toBe(text);
  await database.query(planted);
}
