// Slips of durable runs: they are committed with the caller's rows, or fail that commit; and the locks of a journal.
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { aRecord, anEntry, leaseOf } from "../../../../test/contract/cases/durable/journal-calls.ts";
import { aChange, aClaim, aJob, aSettle, finish } from "../../../../test/support/builders.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { until } from "../../../../test/support/until.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { handBack } from "../../../model/job/after-run.ts";
import type { LeasedJob, LeaseRef } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const platform = createHeldPlatform();
const leaseMs = 1000;
const slip = { key: "pay#0", body: '"paid"' };
const journal = { seen: null, entries: [] };
const row = "INSERT INTO orders VALUES ('o-1')";
let schemas = 0;
let schema: string;
let store: Store;
let clients: pg.Client[];

beforeEach(async () => {
  schema = `slips_${++schemas}`;
  store = await openPostgresStore({
    url: database.url,
    platform,
    schema,
    clock: "platform",
    listenUrl: null,
  });
  clients = [new pg.Client(database.url), new pg.Client(database.url)];
  await Promise.all(clients.map((client) => client.connect()));
  await database.query("CREATE TABLE IF NOT EXISTS orders (id text)");
  await database.query("DELETE FROM orders");
});
afterEach(async () => {
  await Promise.all(clients.map((client) => client.end()));
  await store.close();
});

async function lease(): Promise<LeasedJob> {
  await store.submit([{ jobs: [aJob({ id: "run", digest: "d" })] }]);
  return claimAgain();
}

async function claimAgain(): Promise<LeasedJob> {
  const [leased] = (await store.claim(aClaim({ owner: "w", leaseMs }))).jobs;
  if (leased === undefined) throw new Error("nothing was claimed");
  return leased;
}

async function begin(client = clients[0] as pg.Client): Promise<pg.Client> {
  await client.query("BEGIN");
  await client.query(row);
  return client;
}

const slips = async (): Promise<unknown> => {
  const [page] = await store.readJournal([{ id: "run", after: 0, max: 9 }]);
  return page?.kind === "ok" ? page.slips : page;
};
const orders = async (): Promise<number> => (await database.query("SELECT id FROM orders")).length;
const renew = async (leased: LeaseRef): Promise<unknown> => {
  const request = { owner: "w", leaseMs, leases: [leaseOf(leased)], wantsOthers: false };
  return (await store.extendIfLeased(request)).answers[0];
};
/** What a duty does once the lease is over. */
const reclaim = async (): Promise<unknown> =>
  store.changeIf([aChange("run", ["running"], handBack, { rang: "lease" })]);

describe("a slip", () => {
  test("is committed with the caller's rows, once per key, and goes with its job", async () => {
    const leased = await lease();
    const commit = async (given: LeaseRef, end: "COMMIT" | "ROLLBACK"): Promise<unknown> => {
      const client = await begin();
      const answer = await store.inTransaction(client).commitSlip(leaseOf(given), slip);
      await client.query(end);
      return answer;
    };
    expect(await commit(leased, "ROLLBACK")).toEqual({ kind: "ok" });
    expect(await slips()).toEqual([]);
    expect(await commit({ ...leased, fence: leased.fence + 1 }, "ROLLBACK")).toEqual({ kind: "stale" });
    expect(await commit(leased, "COMMIT")).toEqual({ kind: "ok" });
    expect(await slips()).toEqual([slip]);
    expect(await commit(leased, "ROLLBACK")).toEqual({ kind: "recorded", body: slip.body });
    expect(await orders()).toBe(1);
    await store.settleIfLeased([aSettle(leased, finish("completed", { keepMs: 0 }), { journal })]);
    expect(await database.query(`SELECT 1 FROM ${schema}.slip`)).toEqual([]);
  });

  test("may take longer than its lease, which is renewed meanwhile", async () => {
    const leased = await lease();
    const client = await begin();
    expect(await store.inTransaction(client).commitSlip(leaseOf(leased), slip)).toEqual({ kind: "ok" });
    for (let time = 0; time < 3 * leaseMs; time += leaseMs / 2) {
      expect(await renew(leased)).toBe("ok");
      platform.advance(leaseMs / 2);
    }
    expect(await store.recordIfLeased([aRecord(leased, anEntry("other"))])).toMatchObject([{ last: 1 }]);
    await client.query("COMMIT");
    expect(await slips()).toEqual([slip]);
    expect(await orders()).toBe(1);
  });

  test.each(["REPEATABLE READ", "SERIALIZABLE"])(
    "is committed under %s, although the lease is renewed meanwhile",
    async (isolation) => {
      const leased = await lease();
      const [client] = clients as [pg.Client];
      await client.query(`BEGIN ISOLATION LEVEL ${isolation}`);
      await client.query(row);
      expect(await store.inTransaction(client).commitSlip(leaseOf(leased), slip)).toEqual({ kind: "ok" });
      platform.advance(leaseMs / 2);
      expect(await renew(leased)).toBe("ok");
      await client.query("COMMIT");
      expect(await slips()).toEqual([slip]);
    },
  );

  test("of a worker that has lost its lease fails the commit, with all rows of the caller", async () => {
    const leased = await lease();
    const client = await begin();
    expect(await store.inTransaction(client).commitSlip(leaseOf(leased), slip)).toEqual({ kind: "ok" });
    platform.advance(leaseMs + 1);
    expect(await reclaim()).toMatchObject([{ kind: "ok" }]);
    const next = await claimAgain();
    await expect(client.query("COMMIT")).rejects.toThrow("the run run is not held by its worker any more");
    expect(await slips()).toEqual([]);
    expect(await orders()).toBe(0);
    const again = await begin();
    expect(await store.inTransaction(again).commitSlip(leaseOf(next), slip)).toEqual({ kind: "ok" });
    await again.query("COMMIT");
    expect(await slips()).toEqual([slip]);
  });

  test.each([
    ["COMMIT", { kind: "recorded", body: slip.body }],
    ["ROLLBACK", { kind: "ok" }],
  ] as const)("waits for the other one under its key, until that one's %s", async (end, answer) => {
    const leased = await lease();
    const client = await begin();
    await store.inTransaction(client).commitSlip(leaseOf(leased), slip);
    const second = await begin(clients[1]);
    const waiting = store.inTransaction(second).commitSlip(leaseOf(leased), { ...slip, body: "other" });
    await until("the second slip waits", async () => {
      const locks = await database.query("SELECT 1 FROM pg_locks WHERE NOT granted");
      return locks.length > 0;
    });
    await client.query(end);
    expect(await waiting).toEqual(answer);
    await second.query(answer.kind === "ok" ? "COMMIT" : "ROLLBACK");
    expect(await slips()).toEqual([{ ...slip, body: end === "COMMIT" ? slip.body : "other" }]);
  });
});

/** Records a step in a transaction that stays open, as a call that is at work. */
async function recordAndStay(client: pg.Client, { id, seq, fence }: LeaseRef): Promise<void> {
  await client.query("BEGIN");
  const lists = `p_routes => NULL, p_queues => NULL, p_names => NULL, p_requires => NULL, p_gates => NULL,
    p_lanes => NULL, p_scopes => NULL, p_resets => NULL, p_marks => NULL, p_unreads => NULL, p_readers => NULL,
    p_reads => NULL, p_singles => NULL`;
  await client.query(
    `SELECT ${schema}.record_v1(p_now => $1, p_commit => NULL, ${lists}, p_ids => $2, p_seqs => $3, p_fences => $4,
      p_writes => '{1}', p_keys => 'slow', p_bodies => '1')`,
    [platform.now(), id, [seq], [fence]],
  );
}

describe("a step that is being recorded", () => {
  test("holds up no renewal, and neither is held up by one", async () => {
    const leased = await lease();
    await store.recordIfLeased([aRecord(leased, anEntry("first"))]);
    const [client] = clients as [pg.Client];
    await recordAndStay(client, leased);
    expect(await renew(leased)).toBe("ok");
    await client.query("COMMIT");
    await client.query("BEGIN");
    await client.query(`UPDATE ${schema}.leased SET timer_at = timer_at + 1`);
    expect(await store.recordIfLeased([aRecord(leased, anEntry("third"))])).toMatchObject([{ last: 3 }]);
    await client.query("ROLLBACK");
  });

  test("holds up the end of its run and what others append to it, and nothing else", async () => {
    const leased = await lease();
    await store.submit([{ jobs: [aJob({ id: "other" })] }]);
    const other = await claimAgain();
    const [client] = clients as [pg.Client];
    await recordAndStay(client, leased);
    const settles = [
      aSettle(leased, finish(), { journal: { seen: 0, entries: [] } }),
      aSettle(other, finish()),
    ];
    expect(await store.settleIfLeased(settles)).toEqual([{ kind: "locked" }, { kind: "ok" }]);
    expect(await reclaimAnyhow()).toEqual([{ kind: "locked" }]);
    await client.query("COMMIT");
    expect(await store.settleIfLeased(settles.slice(0, 1))).toEqual([{ kind: "arrived", last: 1 }]);
  });

  test("is answered as locked while another call of its attempt is at work, and follows that one", async () => {
    const leased = await lease();
    const [client] = clients as [pg.Client];
    await recordAndStay(client, leased);
    const write = aRecord(leased, anEntry("next"));
    expect(await store.recordIfLeased([write])).toEqual([{ kind: "locked" }]);
    await client.query("COMMIT");
    expect(await store.recordIfLeased([write])).toMatchObject([{ kind: "appended", last: 2 }]);
  });

  test("is answered as locked while somebody else holds its run in an open transaction", async () => {
    const leased = await lease();
    await store.submit([{ jobs: [aJob({ id: "other" })] }]);
    const other = await claimAgain();
    const [client] = clients as [pg.Client];
    await client.query("BEGIN");
    await store.inTransaction(client).settleIfLeased([aSettle(leased, finish(), { journal })]);
    const writes = [aRecord(leased, anEntry("one")), aRecord(other, anEntry("one"))];
    expect(await store.recordIfLeased(writes)).toMatchObject([{ kind: "locked" }, { kind: "appended" }]);
    await client.query("ROLLBACK");
    expect(await store.recordIfLeased(writes)).toMatchObject([{ last: 1 }, { last: 1 }]);
  });
});

const reclaimAnyhow = async (): Promise<unknown> => store.changeIf([aChange("run", ["running"], handBack)]);
