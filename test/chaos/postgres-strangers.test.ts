/**
 * A caller's transaction that stays open holds what it has written: a unique key, an id, the job that it settles.
 * Whoever needs the same waits for it, alone: plain enqueues, settles, renewals, reports and changes that merely share
 * a call or a process with the one that waits go on as if nothing were held.
 */
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { aChange, aClaim, aJob, aSettle, finish, remove } from "../support/builders.ts";
import { millOn } from "../support/mill-on.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { hangMs } from "../support/hang-ms.ts";

const database = useTestDatabase();
let schemas = 0;
let store: Store;
let mill: Millrace;
let client: pg.Client;

beforeEach(async () => {
  const schema = `strangers_${++schemas}`;
  store = await openPostgresStore({ url: database.url, schema, platform: nodePlatform, poolMax: 5 });
  mill = millOn(store);
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query("BEGIN");
});
afterEach(async () => {
  await client.end();
  await mill.close();
});

const plain = job<number>("plain");
const charge = job<number>("charge");
const unique = { key: "k", hold: "end", onHeld: "keep" } as const;

/** Whether the promise is still open behind everything that the strangers did meanwhile. */
async function isOpen(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol("open");
  return (await Promise.race([promise, Promise.resolve(open)])) === open;
}

describe("while a caller's transaction is open", () => {
  test.each([
    ["holds a unique key", { unique: "k" }],
    ["holds a given id", { id: "given" }],
  ] as const)(
    "that %s, plain enqueues of a process that asked for it too do not wait",
    async (_, options) => {
      const own = await mill.in(client).enqueue(charge, 1, options);
      const held = Array.from({ length: 20 }, () => mill.enqueue(charge, 1, options));
      for (let round = 0; round < 20; round++)
        await Promise.all([1, 2, 3].map((input) => mill.enqueue(plain, input)));
      expect(await isOpen(Promise.any(held))).toBe(true);
      await client.query("COMMIT");
      expect(new Set((await Promise.all(held)).map(({ id }) => id))).toEqual(new Set([own.id]));
      expect(await mill.jobs.counts()).toEqual({ default: { ready: 61 } });
    },
  );

  test("that holds a unique key, a follow-up with that key holds up no settle but its own", async () => {
    await mill.in(client).enqueue(charge, 1, { unique: "k" });
    const follows = job<number>("follows");
    await mill.work(
      [
        handler(plain, async () => undefined),
        handler(follows, async ({ enqueue }) => enqueue(charge, 1, { unique: "k" })),
      ],
      { concurrency: 4 },
    );
    const held = await mill.enqueue(follows, 1);
    const strangers = await mill.enqueueMany(Array.from({ length: 190 }, (_, at) => plain.with(at)));
    await Promise.all(strangers.map((handle) => handle.result({ timeout: hangMs })));
    expect(await mill.jobs.get(held.id)).toMatchObject({ state: "running" });
    await client.query("COMMIT");
    await held.result({ timeout: hangMs });
    expect(await mill.jobs.counts()).toEqual({ default: { completed: 191, ready: 1 } });
  });

  test("that settles a job, other leases are extended, other reports written and other jobs changed", async () => {
    await store.submit([{ jobs: ["a", "b", "c"].map((id) => aJob({ id })) }]);
    const { jobs } = await store.claim(aClaim());
    const [a, b, c] = jobs as [(typeof jobs)[0], (typeof jobs)[0], (typeof jobs)[0]];
    await store.inTransaction(client).settleIfLeased([aSettle(a, finish())]);
    const { answers } = await store.extendIfLeased({
      ...{ owner: "w1", leaseMs: 5000, wantsOthers: false },
      leases: [a, b, c],
    });
    expect(answers).toEqual(["unknown", "ok", "ok"]);
    expect(await store.recordIfLeased([a, b].map((lease) => ({ ...lease, progress: "1" })))).toEqual([
      { kind: "locked" },
      "ok",
    ]);
    const cancel = { to: "same", event: "cancel-asked", cancelAsked: true } as const;
    expect(await store.changeIf(["a", "b"].map((id) => aChange(id, ["running"], cancel)))).toMatchObject([
      { kind: "locked" },
      { kind: "ok" },
    ]);
    expect(await store.settleIfLeased([a, b, c].map((lease) => aSettle(lease, finish())))).toEqual([
      { kind: "locked" },
      { kind: "ok" },
      { kind: "ok" },
    ]);
    await client.query("ROLLBACK");
    expect(await store.settleIfLeased([aSettle(a, finish())])).toEqual([{ kind: "ok" }]);
    expect((await store.readJobs(["a", "b", "c"])).map((record) => record?.state)).toEqual([
      "completed",
      "completed",
      "completed",
    ]);
  });

  test("a unit that is held up leaves nothing, and the units beside it are done", async () => {
    await store.inTransaction(client).submit([{ jobs: [aJob({ id: "theirs", unique })] }]);
    const units = [
      { jobs: [aJob({ id: "before", unique: { ...unique, key: "free" } })] },
      { jobs: [aJob({ id: "beside" }), aJob({ id: "held", unique })] },
      { jobs: [aJob({ id: "after" })] },
    ];
    expect(await store.submit(units)).toMatchObject([{ kind: "ok" }, { kind: "locked" }, { kind: "ok" }]);
    const found = await store.readJobs(["before", "beside", "held", "after"]);
    expect(found.map((record) => record?.id ?? null)).toEqual(["before", null, null, "after"]);
    await client.query("ROLLBACK");
    expect(await store.submit([units[1]!])).toMatchObject([{ kind: "ok" }]);
    expect(await store.changeIf([aChange("held", ["ready"], remove)])).toMatchObject([{ kind: "ok" }]);
  });
});
