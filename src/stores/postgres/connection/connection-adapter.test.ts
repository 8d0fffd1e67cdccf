/**
 * The caller's own transaction through the real libraries on a real server: a rollback leaves no job, a commit exactly
 * one.
 */
import type { CallersConnection } from "../../../store/callers-connection.ts";
import { sql as drizzleSql } from "drizzle-orm";
import { drizzle as drizzleOverPg } from "drizzle-orm/node-postgres";
import { drizzle as drizzleOverPostgresJs } from "drizzle-orm/postgres-js";
import knex from "knex";
import { CamelCasePlugin, CompiledQuery, Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { aClaim, aDoc, aJob, aRoute, aSettle, finish } from "../../../../test/support/builders.ts";
import { SchemaPool } from "../../../../test/support/servers/postgres-shared.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import type { Millrace } from "../../../client/millrace.ts";
import { job } from "../../../engine/submit/job-definition.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { Store } from "../../../store/store.ts";
import { handler } from "../../../worker/handler.ts";
import { adaptConnection } from "./connection-adapter.ts";
import { openPostgresStore } from "../postgres-store.ts";
import { millOn } from "../../../../test/support/mill-on.ts";
import { hangMs } from "../../../../test/support/hang-ms.ts";

interface Library {
  /** Begins, lets `use` work on the transaction, and commits; whatever `use` throws rolls back and comes out. */
  transact<Answer>(
    use: (tx: CallersConnection, run: (text: string) => Promise<unknown>) => Promise<Answer>,
  ): Promise<Answer>;
  /** Of the same library, without a transaction. */
  readonly outside: readonly CallersConnection[];
  close(): Promise<void>;
}

const quiet = { onnotice: () => undefined, max: 2 };

const libraries: Record<string, (url: string) => Promise<Library>> = {
  async pg(url) {
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    const idle = await pool.connect();
    return {
      async transact(use) {
        const client = await pool.connect();
        try {
          await client.query("BEGIN");
          const answer = await use(client, (text) => client.query(text));
          await client.query("COMMIT");
          return answer;
        } catch (error) {
          await client.query("ROLLBACK");
          throw error;
        } finally {
          client.release();
        }
      },
      outside: [idle, pool],
      async close() {
        idle.release();
        await pool.end();
      },
    };
  },
  async "postgres.js"(url) {
    const sql = postgres(url, { ...quiet, transform: postgres.camel });
    const reserved = await sql.reserve();
    return {
      transact: (use) => sql.begin((tx) => use(tx, (text) => tx.unsafe(text))) as Promise<never>,
      outside: [sql, reserved],
      async close() {
        reserved.release();
        await sql.end();
      },
    };
  },
  async "postgres.js with a reserved connection"(url) {
    const sql = postgres(url, quiet);
    return {
      async transact(use) {
        const reserved = await sql.reserve();
        try {
          await reserved`BEGIN`;
          const answer = await use(reserved, (text) => reserved.unsafe(text));
          await reserved`COMMIT`;
          return answer;
        } catch (error) {
          await reserved`ROLLBACK`;
          throw error;
        } finally {
          reserved.release();
        }
      },
      outside: [sql],
      close: () => sql.end(),
    };
  },
  async "Drizzle over pg"(url) {
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    const db = drizzleOverPg(pool);
    return {
      transact: (use) => db.transaction((tx) => use(tx, (text) => tx.execute(drizzleSql.raw(text)))),
      outside: [db],
      close: () => pool.end(),
    };
  },
  async "Drizzle over postgres.js"(url) {
    const sql = postgres(url, quiet);
    const db = drizzleOverPostgresJs(sql);
    return {
      transact: (use) => db.transaction((tx) => use(tx, (text) => tx.execute(drizzleSql.raw(text)))),
      outside: [db],
      close: () => sql.end(),
    };
  },
  async Kysely(url) {
    const db = new Kysely<Record<string, never>>({
      dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: 2 }) }),
      plugins: [new CamelCasePlugin()],
    });
    return {
      transact: (use) =>
        db.transaction().execute((trx) => use(trx, (text) => trx.executeQuery(CompiledQuery.raw(text)))),
      outside: [db],
      close: () => db.destroy(),
    };
  },
  async Knex(url) {
    const db = knex({ client: "pg", connection: url, pool: { min: 0, max: 2 } });
    return {
      transact: (use) => db.transaction((trx) => use(trx, async (text) => trx.raw(text))),
      outside: [db],
      close: () => db.destroy(),
    };
  },
  async "any client with query(text, values)"(url) {
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    // Rows as objects, parsed by type, and arrays of them without anything around.
    const wrap = (client: pg.PoolClient) => ({
      query: async (text: string, values: readonly (string | null)[]): Promise<unknown[]> =>
        (await client.query(text, [...values])).rows as unknown[],
    });
    return {
      async transact(use) {
        const client = await pool.connect();
        try {
          await client.query("BEGIN");
          const answer = await use(wrap(client), (text) => client.query(text));
          await client.query("COMMIT");
          return answer;
        } catch (error) {
          await client.query("ROLLBACK");
          throw error;
        } finally {
          client.release();
        }
      },
      outside: [{ query: (text: string, values: string[]) => pool.query(text, values) }],
      close: () => pool.end(),
    };
  },
};

/** What people pass by mistake. */
const pools: Record<string, (url: string) => { given: CallersConnection; close(): Promise<void> }> = {
  "a pool of pg"(url) {
    const pool = new pg.Pool({ connectionString: url });
    return { given: pool, close: () => pool.end() };
  },
  "a db of Drizzle over a pool"(url) {
    const pool = new pg.Pool({ connectionString: url });
    return { given: drizzleOverPg(pool), close: () => pool.end() };
  },
  "the sql of postgres.js"(url) {
    const sql = postgres(url, quiet);
    return { given: sql, close: () => sql.end() };
  },
  "a db of Kysely"(url) {
    const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) });
    return { given: db, close: () => db.destroy() };
  },
  "a db of Knex"(url) {
    const db = knex({ client: "pg", connection: url });
    return { given: db, close: () => db.destroy() };
  },
};

describe("what is no transaction", () => {
  test.each(Object.entries(pools))(
    "%s is refused with the advice to pass the transaction",
    async (_, open) => {
      const pool = open(database.url);
      expect(() => adaptConnection(pool.given)).toThrow(/Pass the transaction: the /);
      await pool.close();
    },
  );

  test("a client of Prisma is refused by name with the way to wrap it, and anything else is no connection", () => {
    expect(() => adaptConnection({ $queryRawUnsafe: () => [], $executeRawUnsafe: () => 0 })).toThrow(
      /Prisma.*\$transaction.*\{ query: \(text, values\) => tx\.\$queryRawUnsafe\(text, \.\.\.values\) \}/,
    );
    for (const given of [null, undefined, 5, "sql", {}, { query: 1 }, []])
      expect(adaptConnection(given)).toBeNull();
  });
});

const plain = job<{ text: string; big: bigint }, string>("plain", { retry: { backoff: 0 } });
const hostile = { text: `NUL \0, lone \ud800, "quotes" 'and' \\, ? ?? $1 :name {a,b} (c)`, big: 2n ** 64n };
const big = { text: "x".repeat(5000), big: 1n };
const coded = (code: string) => expect.objectContaining({ code });

const database = useTestDatabase();
const elsewhere = useTestDatabase();
const schemas = new SchemaPool(database);
beforeAll(async () => {
  await database.query("CREATE TABLE users (name text)");
});

describe.each(Object.keys(libraries))("the caller's own transaction through %s", (title) => {
  let mill: Millrace;
  let store: Store;
  let library: Library;
  beforeEach(async () => {
    await database.query("DELETE FROM users");
    const platform = nodePlatform;
    store = await schemas.open((place) => openPostgresStore({ ...place, platform }));
    mill = millOn(store);
    library = await (libraries[title] as (typeof libraries)[string])(database.url);
  });
  afterEach(async () => {
    await library.close();
    await mill.close();
  });
  const users = async (): Promise<number> => (await database.query("SELECT 1 FROM users")).length;

  test("a rollback leaves no job, and a commit exactly one, which runs with its input unchanged", async () => {
    await mill.work([handler(plain, async ({ input }) => (expect(input).toEqual(hostile), "ok"))]);
    const undo = new Error("undo");
    const lost = library.transact(async (tx, run) => {
      await run("INSERT INTO users VALUES ('lost')");
      await mill.in(tx).enqueue(plain, hostile);
      throw undo;
    });
    await expect(lost).rejects.toBe(undo);
    const handle = await library.transact(async (tx, run) => {
      await run("INSERT INTO users VALUES ('kept')");
      return mill.in(tx).enqueue(plain, hostile, { unique: "hostile ? key" });
    });
    expect(await handle.result({ timeout: hangMs })).toBe("ok");
    expect(await users()).toBe(1);
    expect(await mill.jobs.counts()).toEqual({ default: { completed: 1 } });
  });

  test("many are all or nothing, and a job is not seen before the commit", async () => {
    await library.transact(async (tx) => {
      await mill
        .in(tx)
        .enqueueMany([plain.with(hostile), plain.with(big, { tags: ["a, 'b'"], delay: "1h" })]);
      expect(await mill.jobs.counts()).toEqual({});
    });
    expect(await mill.jobs.counts()).toEqual({ default: { ready: 1, scheduled: 1 } });
    const [found] = (await mill.jobs.list({ state: "scheduled" })).jobs;
    expect(found).toMatchObject({ input: big, tags: ["a, 'b'"] });
  });

  test("a handler completes its job in the same transaction as its rows", async () => {
    await mill.work([
      handler(plain, async ({ completeIn, attempt }) => {
        await library.transact(async (tx, run) => {
          await run("INSERT INTO users VALUES ('once')");
          await completeIn(tx, `attempt ${attempt}`);
          if (attempt === 1) throw new Error("rolled back");
        });
        return `attempt ${attempt}`;
      }),
    ]);
    const handle = await mill.enqueue(plain, hostile);
    expect(await handle.result({ timeout: hangMs })).toBe("attempt 2");
    expect(await users()).toBe(1);
  });

  test("without an open transaction it is refused, and nothing is enqueued", async () => {
    for (const outside of library.outside) {
      const refused = (async () => mill.in(outside).enqueue(plain, hostile))();
      await expect(refused).rejects.toThrow(coded("not-in-transaction"));
    }
    let ended = {} as CallersConnection;
    await library.transact(async (tx) => void (ended = tx));
    const late = (async () => mill.in(ended).enqueue(plain, hostile))();
    await expect(late).rejects.toThrow(coded("not-in-transaction"));
    expect(await mill.jobs.counts()).toEqual({});
  });

  test("what travels as JSON beside the lists is encoded once, whatever it holds", async () => {
    const [input, key] = [JSON.stringify(hostile.text), `q7:default:k "1" \\ ' ? $1`];
    const unique = { key, hold: "end", onHeld: "keep" } as const;
    const job = aJob({ id: "a", queue: "default", input, unique, tags: ['"t"'], digest: "d" });
    const doc = aDoc("note", '{"said":"\\"yes\\""}');
    const [submitted] = await library.transact((tx) =>
      store.inTransaction(tx).submit([{ jobs: [job], docs: [doc] }]),
    );
    expect(submitted).toEqual({ kind: "ok", ids: ["a"], hows: ["created"] });
    const [leased] = (await store.claim(aClaim({ offers: [{ routes: [aRoute(job)], max: 1 }] }))).jobs;
    const effects = { jobs: [{ ...job, id: "b" }], docs: [{ ...doc, id: "other" }] };
    const settle = aSettle(leased!, finish("completed", { result: input }), { effects });
    expect(await library.transact((tx) => store.inTransaction(tx).settleIfLeased([settle]))).toEqual([
      { kind: "ok" },
    ]);
    expect(await store.readJobs(["a", "b"])).toMatchObject([
      { state: "completed", input, uniqueKey: key, tags: ['"t"'], result: input },
      { state: "ready", input, uniqueKey: key, tags: ['"t"'] },
    ]);
    const { docs } = await store.readDocs({ kind: doc.kind, ids: ["note", "other"] });
    expect(docs.map((each) => each?.body)).toEqual([doc.body, doc.body]);
  });

  test("a transaction of another database is refused, and goes on", async () => {
    const astray = await (libraries[title] as (typeof libraries)[string])(elsewhere.url);
    await astray.transact(async (tx, run) => {
      const refused = (async () => mill.in(tx).enqueue(plain, hostile))();
      await expect(refused).rejects.toThrow(coded("not-in-transaction"));
      await run("SELECT 1");
    });
    await astray.close();
    expect(await mill.jobs.counts()).toEqual({});
  });
});
