/** The audit repairs what a hand in the database has made wrong of lanes, and then finds nothing more to repair. */
import { expect, test } from "vitest";
import { aClaim, aJob, aRoute, aSettle, finish } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { SchemaPool } from "../../../../test/support/servers/postgres-shared.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { groupGateKey, keyedGate, writeKeyUse } from "../../../model/routing/lane.ts";
import type { NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const schemas = new SchemaPool(database);

/** One at a time. */
const one = (id: string, key: string, weight = 1): NewJob =>
  aJob({
    ...{ id, laneKey: `fifo ${key}` },
    laneGates: [writeKeyUse({ key: keyedGate(groupGateKey("mail"), key), weight, cap: weight })],
  });
const twoOfEach = (weight: number): NewJob[] =>
  ["a", "b", "c"].flatMap((key) => [one(`${key}1`, key, weight), one(`${key}2`, key, weight)]);
const routes = [aRoute({ laneKey: "any" })];

async function audit(store: Store): Promise<Record<string, number>> {
  const repaired: Record<string, number> = {};
  for (let cursor: string | null = null; ;) {
    const answer = await store.auditIndexes({ cursor, max: 2 });
    for (const [kind, count] of Object.entries(answer.repaired))
      repaired[kind] = (repaired[kind] ?? 0) + count;
    cursor = answer.cursor;
    if (cursor === null) return repaired;
  }
}

const damages = {
  "a permit that nobody holds": [
    "INSERT INTO @permit SELECT key, 4711, 1, true FROM @permit LIMIT 1",
    { permit: 1 },
    1,
  ],
  "a permit that is gone": ["DELETE FROM @permit", { permit: 3 }, 1],
  "lanes that are gone": ["DELETE FROM @lane", { lane: 3 }, 2],
  "lanes that show another job than their first": ["UPDATE @lane SET seq = 4711", { lane: 3 }, 2],
  "a lane that waits where nobody keeps it": [
    "UPDATE @lane SET waits_at = E'g:mail\\tnone' WHERE key = 'fifo b'",
    { "waiting-lane": 1 },
    2,
  ],
} as const;

test.each(Object.entries(damages))(
  "%s: repaired, and each job still runs once",
  async (_, [damage, repaired, weight]) => {
    let schema = "";
    const platform = createHeldPlatform();
    const store = await schemas.open((place) => {
      ({ schema } = place);
      return openPostgresStore({ ...place, platform, clock: "platform" });
    });
    try {
      await store.submit([{ jobs: twoOfEach(weight) }]);
      const { jobs } = await store.claim(aClaim({ offers: [{ routes, max: 10 }] }));
      expect(jobs.map(({ id }) => id)).toEqual(["a1", "b1", "c1"]);
      await database.query(damage.replaceAll("@", `${schema}.`));
      expect(await audit(store)).toEqual(repaired);
      expect(await audit(store)).toEqual({});
      expect((await store.claim(aClaim({ offers: [{ routes, max: 10 }] }))).jobs).toEqual([]);
      await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
      const next = await store.claim(aClaim({ offers: [{ routes, max: 10 }] }));
      expect(next.jobs.map(({ id }) => id)).toEqual(["a2", "b2", "c2"]);
    } finally {
      await store.close();
    }
  },
);
