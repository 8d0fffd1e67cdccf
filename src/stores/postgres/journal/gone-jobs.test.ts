// A journal goes with its job, however the job goes where the contract's cases do not look.
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  anAppend,
  anEntry,
  aRecord,
  aSignal,
  leaseOf,
} from "../../../../test/contract/cases/durable/journal-calls.ts";
import { aClaim, aJob, aSettle, finish } from "../../../../test/support/builders.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import type { LeasedJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const platform = createHeldPlatform();
const dayMs = 86_400_000;
let schemas = 0;
let schema: string;
let store: Store;

beforeEach(async () => {
  schema = `gone_${++schemas}`;
  store = await openPostgresStore({
    url: database.url,
    platform,
    schema,
    clock: "platform",
    listenUrl: null,
  });
});
afterEach(async () => store.close());

const query = (text: string): Promise<Record<string, unknown>[]> =>
  database.query(text.replaceAll("@", `${schema}.`));
const rows = async (): Promise<unknown> =>
  (await query("SELECT (SELECT count(*) FROM @entry) AS entries, (SELECT count(*) FROM @slip) AS slips"))[0];
const none = { entries: "0", slips: "0" };

async function claimAll(max: number): Promise<readonly LeasedJob[]> {
  return (await store.claim(aClaim({ max, leaseMs: 1000 }))).jobs;
}

/** A running job with an entry, a signal and a slip. */
async function aRun(id: string): Promise<LeasedJob> {
  await store.submit([{ jobs: [aJob({ id })] }]);
  const [leased] = (await claimAll(1)) as [LeasedJob];
  await store.recordIfLeased([aRecord(leased, anEntry("one"))]);
  await store.changeIf([anAppend(id, aSignal("s"))]);
  const { seq, fence } = leaseOf(leased);
  await query(`INSERT INTO @slip VALUES (${seq}, ${fence}, '${id}', 'pay', '1')`);
  expect(await rows()).toEqual({ entries: "2", slips: "1" });
  return leased;
}

async function repairs(): Promise<Record<string, number>> {
  const repaired: Record<string, number> = {};
  for (let cursor: string | null = null, isFirst = true; isFirst || cursor !== null; isFirst = false) {
    const answer = await store.auditIndexes({ cursor, max: 100 });
    for (const [kind, count] of Object.entries(answer.repaired)) if (count > 0) repaired[kind] = count;
    cursor = answer.cursor;
  }
  return repaired;
}

/** Completed jobs that ended more than a day ago. */
async function pruneAll(): Promise<number> {
  const request = { what: "history", outcome: "completed", queue: null, exceptQueues: [] } as const;
  let count = 0;
  for (let isMore = true, cursor: string | null = null; isMore;) {
    const answer = await store.prune({ ...request, olderThanMs: dayMs, max: 100, cursor });
    count += answer.pruned;
    ({ more: isMore, cursor } = answer);
  }
  return count;
}

test("the journal of a record that cannot be read goes with it", async () => {
  await aRun("a");
  await query("UPDATE @leased SET state = 77");
  expect(await repairs()).toEqual({ unreadable: 1 });
  expect(await rows()).toEqual(none);
  expect(await store.readJournal([{ id: "a", after: 0, max: 9 }])).toEqual([{ kind: "gone" }]);
});

test("entries and slips of no job are found by the audit", async () => {
  await aRun("a");
  await query("DELETE FROM @leased");
  expect(await repairs()).toMatchObject({ entry: 2, slip: 1 });
  expect(await rows()).toEqual(none);
});

test("a day of history that is dropped takes its journals along, and leaves those of jobs that stay", async () => {
  const today = `SELECT to_regclass('@history_${Math.floor(platform.now() / dayMs)}')::text AS day`;
  // Retention makes the partition of the day before jobs end in it.
  expect(await pruneAll()).toBe(0);
  const run = await aRun("a");
  const journal = { seen: null, entries: [] };
  await store.settleIfLeased([aSettle(run, finish(), { journal })]);
  await store.submit([{ jobs: [aJob({ id: "stays" })] }]);
  const [stays] = (await claimAll(1)) as [LeasedJob];
  await store.settleIfLeased([
    aSettle(stays, finish("completed", { keepMs: 30 * dayMs }), {
      journal: { seen: 0, entries: [anEntry("kept")] },
    }),
  ]);
  // Smaller days are emptied row by row.
  const bulk = Array.from({ length: 5000 }, (_, at) => aJob({ id: `j${at}` }));
  for (let at = 0; at < bulk.length; at += 500) {
    await store.submit([{ jobs: bulk.slice(at, at + 500) }]);
    await store.settleIfLeased((await claimAll(500)).map((job) => aSettle(job, finish())));
  }
  expect(await query(today)).toMatchObject([{ day: expect.any(String) as string }]);
  platform.advance(3 * dayMs);
  expect(await pruneAll()).toBe(5001);
  expect(await query(today)).toEqual([{ day: null }]);
  expect(await rows()).toEqual({ entries: "1", slips: "0" });
});
