/** Real processes that open one empty database: many at once, and one that is killed while it makes the tables. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { aJob } from "../support/builders.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { Supervisor } from "./supervisor.ts";
import type { ChaosProcess } from "./supervisor.ts";
import { until } from "../support/until.ts";

const database = useTestDatabase();
let supervisor: Supervisor;
beforeEach(() => void (supervisor = new Supervisor()));
afterEach(() => supervisor.killAll());

/** A process that opens the schema, enqueues its one job and ends. */
function startOpening(schema: string, number: number): ChaosProcess {
  const url = `${database.url}?schema=${schema}`;
  const shared = { leaseMs: 1000, concurrency: 1, everyMs: 0, from: number, to: number };
  return supervisor.start({ role: "producer", name: `opener-${number}`, url, ...shared });
}

async function whatIsThere(schema: string): Promise<unknown> {
  const [row] = await database.query(
    `SELECT (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid)::int AS relations,
      (SELECT count(*) FROM pg_proc p WHERE p.pronamespace = n.oid)::int AS functions FROM pg_namespace n WHERE nspname = $1`,
    [schema],
  );
  return row;
}

const isEnqueued = ({ operations }: ChaosProcess): boolean =>
  operations.some(({ kind, seen }) => kind === "enqueue" && seen === "ok");

test("ten processes open an empty database at once: one schema, no error, no job lost", async () => {
  const plain = await openPostgresStore({ url: database.url, schema: "plain", platform: nodePlatform });
  await plain.close();
  const openers = Array.from({ length: 10 }, (_, index) => startOpening("crowd", index + 1));
  await Promise.all(openers.map(({ exited }) => exited));
  expect(openers.map(({ complaints }) => complaints).join("")).toBe("");
  expect(openers.every(isEnqueued)).toBe(true);
  expect(await whatIsThere("crowd")).toEqual(await whatIsThere("plain"));
  expect(
    await database.query("SELECT name, value FROM crowd.meta WHERE name = 'schema_version'"),
  ).toHaveLength(1);
  expect(await database.query("SELECT 1 FROM crowd.waiting")).toHaveLength(10);
});

test("a migration killed half-way leaves nothing, and the next process makes the whole schema", async () => {
  const gate = `gate_${randomBytes(4).toString("hex")}`;
  const holder = new pg.Client({ connectionString: database.url });
  await holder.connect();
  // Every function that is made in the schema "torn" first waits for a lock that this connection holds.
  await holder.query(`CREATE FUNCTION public.${gate}() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    IF to_regclass('torn.waiting') IS NOT NULL THEN PERFORM pg_advisory_xact_lock(1234); END IF; END $$;
    SELECT pg_advisory_lock(1234);
    CREATE EVENT TRIGGER ${gate} ON ddl_command_end WHEN TAG IN ('CREATE FUNCTION') EXECUTE FUNCTION public.${gate}()`);
  try {
    const victim = startOpening("torn", 1);
    const isHalfWay = async (): Promise<boolean> => {
      const text =
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND application_name = 'millrace' AND datname = current_database()";
      return (await holder.query(text)).rowCount === 1;
    };
    await until("the migration is half-way", isHalfWay);
    victim.send("SIGKILL");
    await victim.exited;
    expect(await whatIsThere("torn")).toBeUndefined();
    const next = startOpening("torn", 2);
    await holder.query("SELECT pg_advisory_unlock(1234)");
    await next.exited;
    expect([next.complaints, isEnqueued(next)]).toEqual(["", true]);
  } finally {
    await holder.query(`DROP EVENT TRIGGER ${gate}`);
    await holder.end();
  }
  const plain = await openPostgresStore({ url: database.url, schema: "torn", platform: nodePlatform });
  expect(await plain.submit([{ jobs: [aJob({ id: "a" })] }])).toMatchObject([{ kind: "ok" }]);
  await plain.close();
});

test("an opening that waits too long for another's migration says so, and nothing is half-made", async () => {
  const holder = new pg.Client({ connectionString: database.url });
  await holder.connect();
  await holder.query("SELECT pg_advisory_lock(hashtextextended('millrace migration of waits', 0))");
  const opening = openPostgresStore({
    url: database.url,
    schema: "waits",
    platform: nodePlatform,
    migrateWaitMs: 200,
  });
  await expect(opening).rejects.toMatchObject({ code: "migration-running", retryable: true });
  await holder.end();
  expect(await whatIsThere("waits")).toBeUndefined();
});
