/** Entries that are written as a set leave the rows that the same writes leave one by one, and answer the same. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { anAppend, aSignal } from "../../../../test/contract/cases/durable/journal-calls.ts";
import { aClaim, aJob } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { SchemaPool } from "../../../../test/support/servers/postgres-shared.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import type { LeasedWrite } from "../../../store/operations.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const schemas = new SchemaPool(database);

const queries = [
  "SELECT * FROM @leased ORDER BY seq",
  "SELECT * FROM @entry ORDER BY seq, number",
  "SELECT * FROM @slip ORDER BY seq, key",
  "SELECT body FROM @feed ORDER BY id",
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

/** A list of log lines, even an empty one, sends a write the general way. */
const singly = (write: LeasedWrite): LeasedWrite => ({ ...write, logs: [] });

test("entries leave the same, as a set or one by one", async () => {
  let sets = 0;
  const property = fc.asyncProperty(fc.array(someCall, { minLength: 1, maxLength: 5 }), async (calls) => {
    const run = async (way: (write: LeasedWrite) => LeasedWrite): Promise<unknown> => {
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
        answers.push(await store.recordIfLeased(packed.map(way)));
      }
      const rows = [];
      for (const query of queries) rows.push(await database.query(query.replaceAll("@", `${schema}.`)));
      const reads = leased.map(({ id, seq, fence }) => ({ id, after: 0, max: 99, lease: { seq, fence } }));
      const journals = await store.readJournal(reads);
      await store.close();
      return { answers, rows, journals };
    };
    sets += calls.some(({ writes }) => writes.length > 1) ? 1 : 0;
    expect(await run((write) => write)).toEqual(await run(singly));
  });
  await fc.assert(property, { numRuns: 30, endOnFailure: true });
  expect(sets).toBeGreaterThan(10);
});
