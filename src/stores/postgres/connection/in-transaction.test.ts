import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createTestDatabase, postgresSources } from "../../../../test/support/servers/postgres-shared.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { aClaim, aJob, aRoute, aSettle, finish } from "../../../../test/support/builders.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { Hint, Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
let store: Store;
let client: pg.Client;
let schemas = 0;

beforeEach(async () => {
  store = await openPostgresStore({ url: database.url, platform: nodePlatform, schema: `own_${++schemas}` });
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterEach(async () => {
  await client.end();
  await store.close();
});

const count = async (): Promise<number> =>
  (await store.countJobs()).reduce((sum, { count }) => sum + count, 0);

describe("inside the caller's own transaction", () => {
  test("a commit leaves exactly one job, a rollback none, and each goes with the caller's own rows", async () => {
    await database.query("CREATE TABLE orders (id text)");
    for (const [id, end] of [
      ["kept", "COMMIT"],
      ["dropped", "ROLLBACK"],
    ] as const) {
      await client.query("BEGIN");
      await client.query("INSERT INTO orders VALUES ($1)", [id]);
      const answer = await store.inTransaction(client).submit([{ jobs: [aJob({ id })] }]);
      expect(answer).toEqual([{ kind: "ok", ids: [id], hows: ["created"] }]);
      expect(await store.readJobs([id])).toEqual([null]);
      await client.query(end);
    }
    expect((await store.readJobs(["kept", "dropped"])).map((job) => job?.id ?? null)).toEqual(["kept", null]);
    expect(await count()).toBe(1);
    expect(await database.query("SELECT id FROM orders")).toEqual([{ id: "kept" }]);
    const { jobs } = await store.claim(aClaim());
    expect(jobs.map(({ id }) => id)).toEqual(["kept"]);
  });

  test("a settle with follow-ups becomes true with the commit, or never", async () => {
    await store.submit([{ jobs: [aJob({ id: "a" })] }]);
    const [leased] = (await store.claim(aClaim())).jobs;
    const settle = aSettle(leased!, finish(), { effects: { jobs: [aJob({ id: "next", name: "other" })] } });
    await client.query("BEGIN");
    expect(await store.inTransaction(client).settleIfLeased([settle])).toEqual([{ kind: "ok" }]);
    await client.query("ROLLBACK");
    expect((await store.readJobs(["a", "next"])).map((job) => job?.state ?? null)).toEqual(["running", null]);
    await client.query("BEGIN");
    await store.inTransaction(client).settleIfLeased([settle]);
    await client.query("COMMIT");
    expect((await store.readJobs(["a", "next"])).map((job) => job?.state ?? null)).toEqual([
      "completed",
      "ready",
    ]);
    expect(await store.settleIfLeased([settle])).toEqual([{ kind: "already" }]);
  });

  test("a transaction that stays open holds up no lane, and the permit that it returns is free with its commit", async () => {
    const lane = (key: string) => ({ laneKey: key, laneGates: [`1:1:g:mail\t${key}`] });
    const claimLanes = () => store.claim(aClaim({ offers: [{ routes: [aRoute(lane("any"))], max: 5 }] }));
    const claimedIds = async () => (await claimLanes()).jobs.map(({ id }) => id);
    await store.submit([{ jobs: [aJob({ id: "a", ...lane("k") }), aJob({ id: "b", ...lane("k") })] }]);
    const { jobs } = await claimLanes();
    await client.query("BEGIN");
    await store.inTransaction(client).submit([{ jobs: [aJob({ id: "slow", ...lane("l") })] }]);
    await store.inTransaction(client).settleIfLeased([aSettle(jobs[0]!, finish())]);
    await store.submit([{ jobs: [aJob({ id: "quick", ...lane("l") })] }]);
    expect(await claimedIds()).toEqual(["quick"]);
    await client.query("COMMIT");
    expect(await claimedIds()).toEqual(["b"]);
  });

  test("a transaction that stays open holds up neither claims nor other submits of the same queue", async () => {
    await client.query("BEGIN");
    await store.inTransaction(client).submit([{ jobs: [aJob({ id: "slow", name: "never seen before" })] }]);
    await store.submit([{ jobs: [aJob({ id: "quick", name: "never seen before" })] }]);
    const routes = [aRoute({ name: "never seen before" })];
    const { jobs } = await store.claim(aClaim({ offers: [{ routes, max: 5 }] }));
    expect(jobs.map(({ id }) => id)).toEqual(["quick"]);
    expect(await store.settleIfLeased([aSettle(jobs[0]!, finish())])).toEqual([{ kind: "ok" }]);
    await client.query("COMMIT");
    expect(
      (await store.readFeed({ after: 0, max: 9 })).records.flatMap(({ events }) =>
        events.map(({ id, kind }) => `${id} ${kind}`),
      ),
    ).toEqual(expect.arrayContaining(["slow submitted", "quick submitted", "quick completed"]));
  });

  test.each(["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])(
    "the first jobs of new names in two open transactions neither wait for each other nor fail (%s)",
    async (level) => {
      const second = new pg.Client({ connectionString: database.url });
      await second.connect();
      const begin = async (connection: pg.Client): Promise<void> => {
        await connection.query(`BEGIN ISOLATION LEVEL ${level}`);
        // Its snapshot is from before the other's jobs.
        await connection.query("SELECT count(*) FROM pg_class");
      };
      const put = (connection: pg.Client, id: string, name: string, tags: string[] | null = null) =>
        store.inTransaction(connection).submit([{ jobs: [aJob({ id, name, tags })] }]);
      await begin(client);
      await begin(second);
      await put(client, "a", "first name");
      await put(second, "b", "second name", ["tag"]);
      await put(client, "c", "both", ["tag"]);
      await put(second, "d", "both");
      await client.query("COMMIT");
      await second.query("COMMIT");
      await second.end();
      expect((await store.readJobs(["a", "b", "c", "d"])).map((job) => job?.name)).toEqual([
        "first name",
        "second name",
        "both",
        "both",
      ]);
      expect((await store.readRoutes()).map(({ name }) => name).sort()).toEqual([
        "both",
        "first name",
        "second name",
      ]);
      expect(await count()).toBe(4);
      // What two transactions added twice is there once after a fold.
      await database.query(`SELECT own_${schemas}.fold_v1()`);
      expect(await database.query(`SELECT name FROM own_${schemas}.route ORDER BY name`)).toHaveLength(3);
    },
  );

  test("another content under a route's number is refused before anything is written", async () => {
    const collision = `INSERT INTO own_${schemas}.route VALUES (${aRoute()}, 'other queue', 'other name', '[]', '[]')`;
    await database.query(collision);
    const refused = { code: "route-collision" };
    const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
    for (const unit of [
      { jobs: [aJob({ id: "a" })] },
      { jobs: [aJob({ id: "a" }), aJob({ id: "b", name: "fine" })] },
      { jobs: [aJob({ id: "a", unique })] },
    ])
      await expect(store.submit([unit])).rejects.toMatchObject(refused);
    expect(await count()).toBe(0);
    expect(await database.query(`SELECT name FROM own_${schemas}.route`)).toEqual([{ name: "other name" }]);
  });

  test("those who watch hear of it after the commit", async () => {
    const heard = Promise.withResolvers<Hint>();
    const unwatch = store.watch((hint) => {
      if (hint.kind === "ready") heard.resolve(hint);
    });
    await client.query("BEGIN");
    await store.inTransaction(client).submit([{ jobs: [aJob({ id: "a" })] }]);
    await client.query("COMMIT");
    expect(await heard.promise).toEqual({ kind: "ready", routes: [aRoute()] });
    unwatch();
  });

  test("a connection without a transaction, after its end, a pool and other things are refused", async () => {
    const refused = { code: "not-in-transaction" };
    expect(() => store.inTransaction(client)).toThrow(expect.objectContaining(refused) as Error);
    expect(() => store.inTransaction({})).toThrow(expect.objectContaining(refused) as Error);
    const pool = new pg.Pool({ connectionString: database.url });
    expect(() => store.inTransaction(pool)).toThrow(expect.objectContaining(refused) as Error);
    await pool.end();
    await client.query("BEGIN");
    const inside = store.inTransaction(client);
    await client.query("COMMIT");
    await expect(inside.submit([{ jobs: [aJob({ id: "late" })] }])).rejects.toMatchObject(refused);
    expect(await count()).toBe(0);
  });

  test.each(postgresSources())(
    "a connection to another database, though it has the same tables, is refused before anything is written ($title)",
    async (place) => {
      const elsewhere = await createTestDatabase(place);
      const twin = await openPostgresStore({
        url: elsewhere.url,
        platform: nodePlatform,
        schema: `own_${schemas}`,
      });
      const astray = new pg.Client({ connectionString: elsewhere.url });
      await astray.connect();
      await astray.query("BEGIN");
      const inside = store.inTransaction(astray);
      await expect(inside.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toMatchObject({
        code: "not-in-transaction",
        message: expect.stringContaining(`another database ("${new URL(elsewhere.url).pathname.slice(1)}")`),
      });
      // The caller's transaction is as good as before, and the right store takes it.
      await twin.inTransaction(astray).submit([{ jobs: [aJob({ id: "b" })] }]);
      await astray.query("COMMIT");
      await astray.end();
      expect(await count()).toBe(0);
      expect(await twin.countJobs()).toMatchObject([{ count: 1 }]);
      const routes = await database.query(`SELECT 1 FROM own_${schemas}.route`);
      expect(routes).toEqual([]);
      await twin.close();
      await elsewhere.drop();
    },
  );
});
