import pg from "pg";
import { describe, expect, test } from "vitest";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { aClaim, aJob } from "../../../../test/support/builders.ts";
import type { MillraceError } from "../../../model/error.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { openStore } from "../../../open.ts";
import { openPostgresStore } from "../postgres-store.ts";
import type { PostgresOptions } from "../postgres-store.ts";

const database = useTestDatabase();

const open = (options: Partial<PostgresOptions> = {}) =>
  openPostgresStore({ url: database.url, platform: nodePlatform, ...options });

async function refusal(options: Partial<PostgresOptions>): Promise<MillraceError> {
  const store = await open(options).catch((error: unknown) => error as MillraceError);
  if (!(store instanceof Error)) {
    await store.close();
    throw new Error("the store was opened");
  }
  return store;
}

const urlWith = (change: (url: URL) => void): string => {
  const url = new URL(database.url);
  change(url);
  return url.href;
};

describe("opening a store on Postgres", () => {
  test("makes its schema, and finds it the next time", async () => {
    const first = await open({ schema: "first" });
    await first.submit([{ jobs: [aJob({ id: "a" })] }]);
    await first.close();
    const again = await openStore(nodePlatform, `${database.url}?schema=first`);
    expect((await again.readJobs(["a"]))[0]?.id).toBe("a");
    expect(await again.describe()).toMatchObject({
      kind: "postgres",
      durability: "strict",
      schemaVersion: 1,
    });
    await again.close();
  });

  test("ten processes at once migrate once, and all of them work", async () => {
    const stores = await Promise.all(Array.from({ length: 10 }, () => open({ schema: "ten", poolMax: 2 })));
    await Promise.all(stores.map((store, at) => store.submit([{ jobs: [aJob({ id: `j${at}` })] }])));
    const { jobs } = await (stores[0] as (typeof stores)[0]).claim(aClaim({ max: 20 }));
    expect(jobs.length).toBe(10);
    await Promise.all(stores.map((store) => store.close()));
  });

  test("a migration that another process holds up is reported as running", async () => {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(
      "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('millrace migration of held', 0))",
    );
    expect(await refusal({ schema: "held", migrateWaitMs: 50 })).toMatchObject({
      code: "migration-running",
      retryable: true,
    });
    await client.query("ROLLBACK");
    await client.end();
    await (await open({ schema: "held" })).close();
  });

  test("a schema of a newer version is refused and left as it is", async () => {
    await (await open({ schema: "newer" })).close();
    await database.query("UPDATE newer.meta SET value = '99' WHERE name = 'schema_version'");
    expect(await refusal({ schema: "newer" })).toMatchObject({
      code: "schema-newer",
      outcome: "did-not-happen",
    });
  });

  test("a server that is not there, a database that is not there and a user that is not known are told apart", async () => {
    const away = urlWith((url) => void (url.port = "1"));
    expect(await refusal({ url: away })).toMatchObject({ code: "store-unavailable", retryable: true });
    const missing = urlWith((url) => void (url.pathname = "/nowhere"));
    expect(await refusal({ url: missing })).toMatchObject({ code: "store-missing" });
    const nobody = urlWith((url) => void (url.username = "stranger"));
    expect(await refusal({ url: nobody })).toMatchObject({ code: "store-denied" });
  });

  test("an error never shows the password", async () => {
    const url = urlWith((each) => {
      each.port = "1";
      each.password = "secret-word";
    });
    expect(String(await refusal({ url }))).not.toContain("secret-word");
  });

  test("a user without rights is refused and no half-made schema is left", async () => {
    await database.query("CREATE ROLE poor LOGIN");
    const url = urlWith((each) => void (each.username = "poor"));
    expect(await refusal({ url, schema: "poor_schema" })).toMatchObject({ code: "store-denied" });
    expect(await database.query("SELECT to_regnamespace('poor_schema') AS there")).toEqual([{ there: null }]);
    await database.query("DROP ROLE poor");
  });

  test("settings under which promises would break are refused by name", async () => {
    await database.query(
      "CREATE ROLE serial LOGIN SUPERUSER; ALTER ROLE serial SET default_transaction_isolation = 'serializable'",
    );
    const serial = urlWith((url) => void (url.username = "serial"));
    expect(await refusal({ url: serial })).toMatchObject({ code: "store-misconfigured" });
    await database.query(
      "ALTER ROLE serial RESET default_transaction_isolation; ALTER ROLE serial SET default_transaction_read_only = on",
    );
    expect(await refusal({ url: serial })).toMatchObject({ code: "store-read-only" });
    await database.query("DROP ROLE serial");
  });

  test("bad options are refused before anything is asked of a server", async () => {
    expect(await refusal({ url: "http://localhost/x" })).toMatchObject({ code: "unknown-store" });
    expect(await refusal({ schema: 'a"b' })).toMatchObject({ code: "invalid-option" });
    expect(await refusal({ pool: {} })).toMatchObject({ code: "invalid-option" });
    expect(await refusal({ callTimeoutMs: 0 })).toMatchObject({ code: "invalid-option" });
    await expect(
      openStore(nodePlatform, database.url, { sqlite: { executor: "thread" } }),
    ).rejects.toMatchObject({
      code: "invalid-option",
    });
  });

  test("a pool of the caller's is used and stays open", async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 2 });
    const store = await openPostgresStore({ pool, platform: nodePlatform, schema: "pooled" });
    await store.submit([{ jobs: [aJob({ id: "a" })] }]);
    await store.close();
    expect((await pool.query("SELECT id FROM pooled.waiting")).rows).toEqual([{ id: "a" }]);
    await expect(store.countJobs()).rejects.toMatchObject({ code: "closed" });
    await pool.end();
  });

  test("relaxed durability does not wait for the disk, strict does even where the user's default does not", async () => {
    const commitOf = async (options: Partial<PostgresOptions>): Promise<string> => {
      const seen: string[] = [];
      const pool = new pg.Pool({ connectionString: options.url ?? database.url, max: 1 });
      const store = await openPostgresStore({
        pool,
        platform: nodePlatform,
        schema: "durable",
        ...options,
        url: undefined,
      } as PostgresOptions);
      const client = await pool.connect();
      const query = client.query.bind(client);
      await query("BEGIN");
      client.release();
      await store.promoteDue({ max: 1 });
      const { rows } = await pool.query<{ synchronous_commit: string }>("SHOW synchronous_commit");
      seen.push(rows[0]?.synchronous_commit ?? "");
      await pool.query("ROLLBACK");
      await store.close();
      await pool.end();
      return seen.join();
    };
    expect(await commitOf({ durability: "relaxed" })).toBe("off");
    expect(await commitOf({ durability: "strict" })).toBe("on");
    await database.query("CREATE ROLE lazy LOGIN SUPERUSER; ALTER ROLE lazy SET synchronous_commit = off");
    expect(
      await commitOf({ durability: "strict", url: urlWith((url) => void (url.username = "lazy")) }),
    ).toBe("on");
    await database.query("DROP OWNED BY lazy; DROP ROLE lazy");
  });

  test("a database that lost its memory gives fences that were never given", async () => {
    const store = await open({ schema: "crashed" });
    await store.submit([{ jobs: [aJob({ id: "a" }), aJob({ id: "b" })] }]);
    const [before] = (await store.claim(aClaim({ max: 1 }))).jobs;
    // What a crash, a failover or a restore does to an unlogged table.
    await database.query("TRUNCATE crashed.alive");
    const [after] = (await store.claim(aClaim({ max: 1 }))).jobs;
    expect(Math.floor((after?.fence ?? 0) / 2 ** 32)).toBe(Math.floor((before?.fence ?? 0) / 2 ** 32) + 1);
    expect((await store.describe()).epoch).toBe(2);
    const mine = { owner: "w1", leaseMs: 1000, leases: [], wantsOthers: true };
    expect((await store.extendIfLeased(mine)).others.map(({ id }) => id)).toEqual([after?.id]);
    await store.close();
  });
});
