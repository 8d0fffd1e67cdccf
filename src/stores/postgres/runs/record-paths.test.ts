/**
 * Entries, and ends of durable runs, that are written as a set leave the rows that the same writes leave one by one,
 * and answer the same.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { anAppend, aSignal } from "../../../../test/contract/cases/durable/journal-calls.ts";
import { aClaim, aJob, aSettle, finish } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { SchemaPool } from "../../../../test/support/servers/postgres-shared.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { readWholeFeed, sortEvents } from "../../../../test/support/walk.ts";
import type { LeasedWrite, Settle } from "../../../store/operations.ts";
import type { LeasedJob } from "../../../store/records.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const schemas = new SchemaPool(database);

const queries = [
  "SELECT * FROM @leased ORDER BY seq",
  "SELECT * FROM @entry ORDER BY seq, number",
  "SELECT * FROM @slip ORDER BY seq, key",
  "SELECT * FROM @history ORDER BY seq",
  "SELECT * FROM @doc ORDER BY kind, id",
  "SELECT route, state, sum(count) AS count FROM @state_count GROUP BY 1, 2 HAVING sum(count) <> 0 ORDER BY 1, 2",
];

const jobs = 5;
const someEntry = fc.record(
  {
    key: fc.constantFrom("a", "b", "c", "d", "signal", "hard \x1e\x1f\x02\0"),
    body: fc.constantFrom("", "1", "a \x1e body \x1f", "x".repeat(900)),
    marks: fc.constantFrom(2, 4, 8),
    unread: fc.constant(7),
    reads: fc.constantFrom([1], [1, 2], [3, 1, 9]),
  },
  { requiredKeys: ["key", "body"] },
);
const someWrite = fc.record(
  {
    job: fc.nat({ max: jobs }),
    isLost: fc.constantFrom(false, false, false, true),
    entries: fc.array(someEntry, { maxLength: 4 }),
    setsBack: fc.constant(true as const),
  },
  { requiredKeys: ["job", "isLost", "entries"] },
);
const someCall = fc.record({
  signal: fc.option(fc.tuple(fc.nat({ max: jobs - 1 }), fc.constantFrom("a", "s", "t"))),
  writes: fc.uniqueArray(someWrite, { maxLength: 6, selector: ({ job }) => job }),
});

const someEnd = fc.record({
  isDurable: fc.constantFrom(true, true, false),
  isLost: fc.constantFrom(false, false, false, true),
  keepMs: fc.constantFrom(null, 0, 30),
  result: fc.constantFrom(null, "1"),
});

/** Whether a call may write to the journal of this job. */
function concerns(
  { signal, writes }: { signal: readonly [number, string] | null; writes: readonly { job: number }[] },
  at: number,
): boolean {
  return signal?.[0] === at || writes.some(({ job }) => job === at);
}

interface Way {
  readonly write: (write: LeasedWrite) => LeasedWrite;
  readonly settle: (settle: Settle) => Settle;
}
const asSet: Way = { write: (write) => write, settle: (settle) => settle };
/** Log lines and effects, even none, send a write and a settle the general way. */
const singly: Way = {
  write: (write) => ({ ...write, logs: [] }),
  settle: (settle) => ({ ...settle, effects: {} }),
};

test("entries and ends of durable runs leave the same, as a set or one by one", async () => {
  let sets = 0;
  const someCalls = fc.array(someCall, { minLength: 1, maxLength: 5 });
  const someEnds = fc.array(someEnd, { maxLength: jobs });
  const property = fc.asyncProperty(someCalls, someEnds, async (calls, ends) => {
    const run = async (way: Way): Promise<unknown> => {
      const platform = createHeldPlatform();
      let schema = "";
      const store = await schemas.open((place) => {
        schema = place.schema;
        return openPostgresStore({ ...place, platform, clock: "platform", listenUrl: null });
      });
      const answers: unknown[] = [];
      const given = Array.from({ length: jobs }, (_, at) =>
        aJob({ id: `j${at}`, deadline: { inMs: 500 }, digest: "d" }),
      );
      await store.submit([{ jobs: given }]);
      const { jobs: leased } = await store.claim(aClaim());
      for (const { signal, writes } of calls) {
        platform.advance(1);
        if (signal !== null)
          answers.push(await store.changeIf([anAppend(`j${signal[0]}`, aSignal(signal[1]))]));
        const packed = writes.map(({ job, isLost, ...write }): LeasedWrite => {
          const { id, seq, fence } = leased[job] ?? { id: "nobody", seq: 99, fence: 1 };
          return { id, seq, fence: isLost ? fence + 1 : fence, ...write };
        });
        answers.push(await store.recordIfLeased(packed.map(way.write)));
      }
      const settles = ends.map(({ isDurable, isLost, keepMs, result }, at) => {
        const { id, seq, fence } = leased[at] as LeasedJob;
        const journal = { seen: null, entries: [] };
        const lease = { id, seq, fence: isLost ? fence + 1 : fence };
        // Of a run with a journal each settle says so.
        const hasJournal = isDurable || calls.some((call) => concerns(call, at));
        return aSettle(lease, finish("completed", { keepMs, result }), hasJournal ? { journal } : {});
      });
      for (const repeat of [settles, settles.slice(1)])
        answers.push(await store.settleIfLeased(repeat.map(way.settle)));
      const rows: unknown[] = [(await readWholeFeed(store, 100)).map((record) => sortEvents(record))];
      for (const query of queries) rows.push(await database.query(query.replaceAll("@", `${schema}.`)));
      const reads = leased.map(({ id, seq, fence }) => ({ id, after: 0, max: 99, lease: { seq, fence } }));
      const journals = await store.readJournal(reads);
      await store.close();
      return { answers, rows, journals };
    };
    sets += calls.some(({ writes }) => writes.length > 1) ? 1 : 0;
    expect(await run(asSet)).toEqual(await run(singly));
  });
  await fc.assert(property, { numRuns: 30, endOnFailure: true });
  expect(sets).toBeGreaterThan(10);
});
