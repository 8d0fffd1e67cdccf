/** A claim of many jobs leaves the rows that as many claims of one job each leave: of plain routes, and by lanes. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { aClaim, aGate, aJob, aRoute } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { SchemaPool } from "../../../../test/support/servers/postgres-shared.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { limitGateKey } from "../../../model/limits/gate.ts";
import { groupGateKey, keyedGate, laneStepOf, writeKeyUse } from "../../../model/routing/lane.ts";
import type { NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const schemas = new SchemaPool(database);
const slack = limitGateKey("slack");
const ofGroup = writeKeyUse({ key: keyedGate(groupGateKey("mail"), "k"), weight: 1, cap: 2 });
const ofLimit = writeKeyUse({ key: keyedGate(slack, "k"), weight: 1, cap: null });

/** Where a gate waits, and how far the feed is cut into records, differs and is seen by nobody. */
const queries = [
  ..."waiting leased payload uniq"
    .split(" ")
    .map((table) => `SELECT * FROM @${table} ORDER BY ${table === "uniq" ? "key" : "seq"}`),
  "SELECT key, seq, weight, is_own FROM @permit ORDER BY seq, key",
  "SELECT key, queue, route, pos, seq, turn FROM @lane ORDER BY key",
  "SELECT * FROM @lane_turn ORDER BY queue",
  "SELECT key, tat_us FROM @gate ORDER BY key",
  "SELECT route, state, sum(count) AS count FROM @state_count GROUP BY 1, 2 HAVING sum(count) <> 0 ORDER BY 1, 2",
];

const shape = fc.record({
  name: fc.constantFrom("send", "print"),
  lane: fc.constantFrom("a", "b", "c"),
  rankBase: fc.integer({ min: -3, max: 3 }),
  isGated: fc.boolean(),
  hold: fc.constantFrom(null, null, "started" as const),
});
const ways: Readonly<Record<string, (each: { lane: string; isGated: boolean }) => Partial<NewJob>>> = {
  "of plain routes": ({ isGated }) => ({ gates: isGated ? [{ key: slack, weight: 1 }] : [] }),
  "by lanes, by rank": ({ lane, isGated }) => ({ laneKey: lane, laneGates: isGated ? [ofGroup] : null }),
  "by lanes, by turn": ({ lane, isGated }) => ({
    ...{ laneKey: `${lane} ${isGated}`, laneStep: laneStepOf(isGated ? 1 : 2) },
    laneGates: isGated ? [ofLimit] : null,
  }),
};

test.each(Object.entries(ways))("%s", async (_, of) => {
  let taken = 0;
  const property = fc.asyncProperty(
    fc.array(shape, { minLength: 2, maxLength: 12 }),
    fc.integer({ min: 2, max: 8 }),
    fc.nat(4),
    async (shapes, max, starts) => {
      const jobs = shapes.map(({ name, rankBase, hold, ...each }, at) =>
        aJob({
          ...{ id: `j${at}`, name, rankBase },
          unique: hold === null ? null : { key: `u${at}`, hold, onHeld: "keep" },
          ...of(each),
        }),
      );
      const routes = [...new Set(jobs.map((job) => aRoute(job)))];
      const platform = createHeldPlatform();
      const claimed: object[] = [];
      const left: object[] = [];
      for (const atOnce of [max, 1]) {
        let schema = "";
        const store: Store = await schemas.openCounted((place) => {
          ({ schema } = place);
          return openPostgresStore({ ...place, platform, clock: "platform" });
        });
        await store.putGates([aGate(slack, { cap: 3, perKey: { cap: 1, rate: null } })]);
        await store.submit([{ jobs }]);
        const found = [];
        for (let begun = 0; begun < max; begun += atOnce) {
          const offers = [{ routes, max: atOnce, starts: Math.min(atOnce, Math.max(0, starts - begun)) }];
          found.push(...(await store.claim(aClaim({ offers }))).jobs);
        }
        const rows = queries.map((text) => database.query(text.replaceAll("@", `${schema}.`)));
        left.push(await Promise.all(rows));
        claimed.push(found);
        await store.close();
      }
      taken += (claimed[0] as unknown[]).length;
      expect(claimed[1]).toEqual(claimed[0]);
      expect(left[1]).toEqual(left[0]);
    },
  );
  await fc.assert(property, { numRuns: 15 });
  expect(taken).toBeGreaterThan(30);
});
