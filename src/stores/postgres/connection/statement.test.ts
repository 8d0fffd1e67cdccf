/** Statements have names where one server process is behind a connection, and a call never fails for a name. */
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase, postgresSources } from "../../../../test/support/servers/postgres-shared.ts";
import type { PostgresSource, TestDatabase } from "../../../../test/support/servers/postgres-shared.ts";
import { aClaim, aJob } from "../../../../test/support/builders.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { PgClient } from "./driver.ts";
import { openPostgresStore } from "../postgres-store.ts";
import { runStatement } from "./statement.ts";

const [source] = postgresSources() as [PostgresSource];
let database: TestDatabase;
const clients: pg.Client[] = [];
beforeAll(async () => {
  database = await createTestDatabase(source);
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.end()));
});
afterAll(() => database.drop());

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(database.url);
  clients.push(client);
  await client.connect();
  return client;
}

const run = (client: pg.Client, text: string, values: Parameters<typeof runStatement>[2] = []) =>
  runStatement(client as unknown as PgClient, text, values, 5000);

async function prepared(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ statement: string }>("SELECT statement FROM pg_prepared_statements");
  return rows.map(({ statement }) => statement);
}

describe("a statement", () => {
  test("gives every value as the text that the server sent, and null as null", async () => {
    const client = await connect();
    const texts = ["x", "", 'a"b\\c,{}', "\u{1f642}"];
    const rows = await run(
      client,
      "SELECT $1::text, $2::int4, $3::bool, $4::text[], $5::text, unnest($4::text[])",
      ["it's", 7, true, texts, null],
    );
    expect(rows.map((row) => row.at(-1))).toEqual(texts);
    expect(rows[0]?.slice(0, 3)).toEqual(["it's", "7", "t"]);
    expect(rows[0]?.[4]).toBeNull();
    expect(await run(client, "SELECT 1 WHERE false")).toEqual([]);
  });

  test("has a name on a connection that leads straight to the server, and is read there once", async () => {
    const client = await connect();
    for (let call = 0; call < 3; call++) await run(client, "SELECT $1::int4 + 1", [call]);
    expect(await prepared(client)).toEqual(["SELECT $1::int4 + 1"]);
  });

  test("has none where the process behind the connection is not the one that was announced", async () => {
    const client = await connect();
    (client as unknown as { processID: number }).processID += 1;
    await run(client, "SELECT 2");
    expect(await prepared(client)).toEqual([]);
  });

  test("that fails leaves the connection in order", async () => {
    const client = await connect();
    const text = "SELECT 1 / $1::int4";
    await expect(run(client, text, [0])).rejects.toMatchObject({ code: "22012" });
    await expect(run(client, "SELECT nonsense")).rejects.toMatchObject({ code: "42703" });
    expect(await run(client, text, [1])).toEqual([["1"]]);
  });

  test("whose values are none leaves the connection in order, also where it had to wait for its turn", async () => {
    const client = await connect();
    const text = "SELECT $1::text[]";
    const wrong = [[undefined]] as unknown as Parameters<typeof runStatement>[2];
    await expect(run(client, text, wrong)).rejects.toThrow(TypeError);
    expect(await run(client, text, [["a"]])).toEqual([["{a}"]]);
    const before = client.query("SELECT 1");
    const refused = run(client, text, wrong);
    await expect(refused).rejects.toThrow(TypeError);
    await before;
    expect(await run(client, text, [["b"]])).toEqual([["{b}"]]);
  });

  test("that the driver cannot put together leaves the connection in order", async () => {
    const client = await connect();
    const { connection } = client as unknown as { connection: { bind: (message: object) => void } };
    const { bind } = connection;
    connection.bind = () => {
      throw new RangeError("no memory for it");
    };
    const asked = [run(client, "SELECT 3"), client.query("SELECT 1")];
    await expect(asked[0]).rejects.toThrow("no memory for it");
    await asked[1];
    connection.bind = bind;
    expect(await run(client, "SELECT 4")).toEqual([["4"]]);
  });

  test("goes without a name to a client that says nothing of the process behind it", async () => {
    const asked: unknown[] = [];
    const other = {
      query: async (query: unknown) => (asked.push(query), { rows: [["1"]] }),
    } as unknown as PgClient;
    expect(await runStatement(other, "SELECT 1", [], 700)).toEqual([["1"]]);
    const [query] = asked;
    expect(query).toMatchObject({ text: "SELECT 1", rowMode: "array", query_timeout: 700 });
    expect(query).not.toHaveProperty("name");
  });
});

describe("a store whose connections somebody else uses too", () => {
  const withPool = async (use: (pool: pg.Pool) => Promise<void>): Promise<void> => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 });
    // The database goes before the last connection has.
    pool.on("error", () => undefined);
    try {
      await use(pool);
    } finally {
      await pool.end();
    }
  };

  test("goes on where its prepared statements were thrown away", () =>
    withPool(async (pool) => {
      const store = await openPostgresStore({
        pool,
        platform: nodePlatform,
        schema: "discarded",
        listenUrl: null,
      });
      await store.submit([{ jobs: [aJob({ id: "a" })] }]);
      await pool.query("DISCARD ALL");
      await store.submit([{ jobs: [aJob({ id: "b" })] }]);
      const { jobs } = await store.claim(aClaim());
      expect(jobs.map(({ id }) => id)).toEqual(["a", "b"]);
      await store.close();
    }));

  test("goes on where another statement has its name", () =>
    withPool(async (pool) => {
      const names = await withNamesOf("learned");
      for (const name of names) await pool.query(`PREPARE ${name} AS SELECT 1`);
      // The same texts, so the same names: of the schema that the names were learned of.
      expect(await claimed(pool, "learned", "b")).toEqual(["b"]);
    }));

  async function claimed(pool: pg.Pool, schema: string, id: string): Promise<string[]> {
    const store = await openPostgresStore({ pool, platform: nodePlatform, schema, listenUrl: null });
    await store.submit([{ jobs: [aJob({ id })] }]);
    const { jobs } = await store.claim(aClaim());
    await store.close();
    return jobs.map((job) => job.id);
  }

  async function withNamesOf(schema: string): Promise<string[]> {
    const names: string[] = [];
    await withPool(async (pool) => {
      await claimed(pool, schema, "a");
      const { rows } = await pool.query<{ name: string }>("SELECT name FROM pg_prepared_statements");
      names.push(...rows.map(({ name }) => name));
    });
    expect(names).toContainEqual(expect.stringMatching(/^millrace_\d+_claim_v1$/));
    return names;
  }
});
