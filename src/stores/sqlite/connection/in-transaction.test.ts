import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import BetterSqlite from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import knex from "knex";
import { Kysely, SqliteDialect } from "kysely";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isMillraceError } from "../../../model/error.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { aJob as buildJob, aRoute } from "../../../../test/support/builders.ts";
import type { LeasedJob, LeaseRef, NewJob } from "../../../store/records.ts";
import type { Hint, Store } from "../../../store/store.ts";
import { openSqliteStore } from "../sqlite-store.ts";

let folder = "";
let path = "";
let store: Store;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-tx-"));
  path = join(folder, "jobs.db");
  store = await openSqliteStore({ path, platform: nodePlatform });
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const aJob = (id: string, given: Partial<NewJob> = {}): NewJob => buildJob({ id, ...given });

const finish = { to: "completed", event: "completed", reason: null, result: "1", keepMs: null } as const;
const claimAll = () =>
  store.claim({ owner: "w", leaseMs: 60_000, offers: [{ routes: [aRoute()], max: 10 }] });
const codeOf = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    return isMillraceError(error) ? error.code : String(error);
  }
  return "none";
};

const drivers = {
  "node:sqlite": () => new DatabaseSync(path),
  "better-sqlite3": () => new BetterSqlite(path),
};

for (const [driver, connect] of Object.entries(drivers)) {
  describe(`inside the caller's transaction, ${driver}`, () => {
    it("commits the result of a step together with the caller's rows, once and only under its lease", async () => {
      const own = connect();
      own.exec("CREATE TABLE orders (id TEXT)");
      await store.submit([{ jobs: [aJob("run")] }]);
      const [lease] = (await claimAll()).jobs as [LeasedJob];
      const { id, seq, fence } = lease;
      await store.recordIfLeased([{ id, seq, fence, entries: [{ key: "version", body: "{}" }] }]);
      const slip = { key: "pay#0", body: '"paid"' };
      const commit = async (given: LeaseRef, end: "COMMIT" | "ROLLBACK") => {
        own.exec("BEGIN; INSERT INTO orders VALUES ('o-1')");
        const answer = await store.inTransaction(own).commitSlip(given, slip);
        own.exec(end);
        return answer;
      };
      const slips = async () => {
        const [journal] = await store.readJournal([{ id: "run", after: 0, max: 9, lease }]);
        return journal?.kind === "ok" ? journal.slips : null;
      };
      expect(await commit(lease, "ROLLBACK")).toEqual({ kind: "ok" });
      expect(await slips()).toEqual([]);
      expect(await commit({ ...lease, fence: lease.fence - 1 }, "ROLLBACK")).toEqual({ kind: "stale" });
      expect(await commit(lease, "COMMIT")).toEqual({ kind: "ok" });
      expect(await slips()).toEqual([slip]);
      expect(await commit(lease, "ROLLBACK")).toEqual({ kind: "recorded", body: slip.body });
      const journal = { seen: 1, entries: [] };
      await store.settleIfLeased([{ ...lease, next: { ...finish, keepMs: 0 }, attempts: null, journal }]);
      expect(own.prepare("SELECT count(*) AS slips FROM millrace_slip").get()).toEqual({ slips: 0 });
      own.close();
    });

    it("makes jobs and the caller's rows true together", async () => {
      const own = connect();
      own.exec("CREATE TABLE orders (id TEXT); BEGIN; INSERT INTO orders VALUES ('o-1')");
      const inside = store.inTransaction(own);
      const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
      const [answer] = await inside.submit([
        { jobs: [aJob("one", { tags: ["a"], digest: "d" }), aJob("two", { unique })] },
      ]);
      expect(answer).toEqual({ kind: "ok", ids: ["one", "two"], hows: ["created", "created"] });
      expect(await store.readJobs(["one"])).toEqual([null]);
      own.exec("COMMIT");
      expect((await store.readJobs(["one", "two"])).map((job) => job?.state)).toEqual(["ready", "ready"]);
      expect(await store.countJobs()).toEqual([{ queue: "mail", name: "send", state: "ready", count: 2 }]);
      own.close();
    });

    it("settles with the caller's rows, or not at all", async () => {
      await store.submit([{ jobs: [aJob("one")] }]);
      const [lease] = (await claimAll()).jobs;
      if (lease === undefined) throw new Error("nothing was claimed");
      const { id, seq, fence } = lease;
      const own = connect();
      own.exec("BEGIN");
      expect(
        await store.inTransaction(own).settleIfLeased([{ id, seq, fence, next: finish, attempts: null }]),
      ).toEqual([{ kind: "ok" }]);
      own.exec("ROLLBACK");
      expect((await store.readJobs(["one"]))[0]?.state).toBe("running");
      own.exec("BEGIN");
      const follow = {
        jobs: [aJob("next")],
        docs: [{ kind: "kv", id: "x", body: "1", guard: "absent" as const }],
      };
      await store
        .inTransaction(own)
        .settleIfLeased([{ id, seq, fence, next: finish, attempts: null, effects: follow }]);
      own.exec("COMMIT");
      expect((await store.readJobs(["one", "next"])).map((job) => job?.state)).toEqual([
        "completed",
        "ready",
      ]);
      own.close();
    });

    it("forgets routes that were rolled back", async () => {
      const own = connect();
      own.exec("BEGIN");
      await store.inTransaction(own).submit([{ jobs: [aJob("one", { queue: "other" })] }]);
      own.exec("ROLLBACK");
      await store.submit([{ jobs: [aJob("two", { queue: "third" })] }]);
      const third = { queue: "third", name: "send" };
      expect(await store.readRoutes()).toEqual([
        { ...third, number: aRoute(third), requires: [], gates: [] },
      ]);
      own.close();
    });

    it("waits for the caller's transaction instead of blocking the thread that must end it", async () => {
      const own = connect();
      own.exec("BEGIN IMMEDIATE");
      const submitted = store.submit([{ jobs: [aJob("late")] }]);
      await new Promise((resolve) => setImmediate(resolve));
      own.exec("COMMIT");
      expect((await submitted)[0]?.kind).toBe("ok");
      own.close();
    });

    it("refuses a connection without a transaction, or to another file", async () => {
      const own = connect();
      expect(codeOf(() => store.inTransaction(own))).toBe("not-in-transaction");
      own.exec("BEGIN");
      const inside = store.inTransaction(own);
      own.exec("COMMIT");
      await expect(inside.submit([{ jobs: [aJob("one")] }])).rejects.toMatchObject({
        code: "not-in-transaction",
      });
      own.close();
      const other = new DatabaseSync(join(folder, "other.db"));
      other.exec("BEGIN");
      expect(codeOf(() => store.inTransaction(other))).toBe("not-in-transaction");
      other.close();
      expect(codeOf(() => store.inTransaction({}))).toBe("not-in-transaction");
    });
  });
}

describe("inside the transaction of a library", () => {
  const enqueueIn = async (connection: unknown): Promise<void> => {
    await store.inTransaction(connection).submit([{ jobs: [aJob("one")] }]);
  };
  const stateOfOne = async () => (await store.readJobs(["one"]))[0]?.state ?? null;

  it("takes Drizzle as it is, and rolls back with it", async () => {
    const db = drizzle(new BetterSqlite(path));
    expect(codeOf(() => store.inTransaction(db))).toBe("not-in-transaction");
    db.run("BEGIN");
    await enqueueIn(db);
    db.run("ROLLBACK");
    expect(await stateOfOne()).toBe(null);
    db.run("BEGIN");
    await enqueueIn(db);
    db.run("COMMIT");
    expect(await stateOfOne()).toBe("ready");
    db.$client.close();
  });

  it("names Kysely, and takes the database beneath it", async () => {
    const database = new BetterSqlite(path);
    const db = new Kysely<unknown>({ dialect: new SqliteDialect({ database }) });
    const failing = db.transaction().execute(async (trx) => {
      expect(() => store.inTransaction(trx)).toThrow(/Kysely.*SqliteDialect/);
      await enqueueIn(database);
      throw new Error("rolled back");
    });
    await expect(failing).rejects.toThrow("rolled back");
    expect(await stateOfOne()).toBe(null);
    await db.transaction().execute(() => enqueueIn(database));
    expect(await stateOfOne()).toBe("ready");
    await db.destroy();
  });

  it("names Knex, and takes the connection of its transaction", async () => {
    const db = knex({ client: "better-sqlite3", connection: { filename: path }, useNullAsDefault: true });
    await db.transaction(async (trx) => {
      expect(() => store.inTransaction(trx)).toThrow(/Knex.*acquireConnection/);
      await enqueueIn(await (trx.client as { acquireConnection(): Promise<unknown> }).acquireConnection());
    });
    expect(await stateOfOne()).toBe("ready");
    await db.destroy();
  });

  it("names Prisma, and what to do instead", () => {
    const prisma = { $queryRawUnsafe: () => Promise.resolve([]) };
    expect(() => store.inTransaction(prisma)).toThrow(/Prisma.*after its commit with an id/);
  });
});

it("hears of what the caller's connection committed", async () => {
  const heard: Hint[] = [];
  const hint = new Promise<void>((resolve) => {
    store.watch((given) => {
      heard.push(given);
      resolve();
    });
  });
  await store.describe();
  const own = new DatabaseSync(path);
  own.exec("BEGIN");
  await store.inTransaction(own).submit([{ jobs: [aJob("one")] }]);
  own.exec("COMMIT");
  await hint;
  expect(heard).toEqual([{ kind: "ready", routes: [aRoute()] }]);
  own.close();
});
