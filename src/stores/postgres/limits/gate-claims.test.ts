/** Claims through gates are those of the reference model, whatever gates, weights, offers and inputs meet. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { aClaim, aGate, aJob, aRoute, aSettle, finish } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { SchemaPool } from "../../../../test/support/servers/postgres-shared.ts";
import { openReference } from "../../../../test/support/stores/reference-as-store.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { foreverMs, limitGateKey, queueGateKey } from "../../../model/limits/gate.ts";
import type { GateUse } from "../../../model/limits/gate.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const schemas = new SchemaPool(database);
const runs = 40;

const [a, b] = [limitGateKey("a"), limitGateKey("b")];
const kinds: readonly { readonly queue?: string; readonly gates: readonly GateUse[] }[] = [
  { gates: [] },
  { queue: "other", gates: [] },
  { gates: [{ key: a, weight: 1 }] },
  { gates: [{ key: a, weight: 2 }] },
  { gates: [{ key: b, weight: 1 }] },
  {
    gates: [
      { key: a, weight: 1 },
      { key: b, weight: 3 },
    ],
  },
];
const kind = fc.nat(kinds.length - 1);
const someGate = fc.record({
  key: fc.constantFrom(a, b, queueGateKey("mail"), queueGateKey("other")),
  cap: fc.option(fc.nat(6), { freq: 1 }),
  rate: fc.option(
    fc.record({ stepUs: fc.constantFrom(700, 1000, 2500), burstUs: fc.constantFrom(1000, 5000) }),
  ),
  closed: fc.option(fc.constantFrom({ inMs: 3 }, { at: foreverMs }), { freq: 4 }),
  emptiesRate: fc.boolean(),
});
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ put: someGate }) },
  {
    weight: 4,
    arbitrary: fc.record({
      submit: fc.array(
        fc.record({ kind, rankBase: fc.nat(3), inputBytes: fc.integer({ min: 1, max: 40 }) }),
        { maxLength: 8 },
      ),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      offers: fc.array(
        fc.record({ kinds: fc.uniqueArray(kind, { minLength: 1 }), max: fc.nat(6), starts: fc.nat(2) }),
        { minLength: 1, maxLength: 3 },
      ),
      inputBytesMax: fc.option(fc.integer({ min: 1, max: 120 })),
    }),
  },
  { weight: 3, arbitrary: fc.record({ settle: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.record({ passMs: fc.integer({ min: 1, max: 5 }) }) },
);

test("claims through gates hand out what the reference model hands out, and say the same of what is left", async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 30 }), async (steps) => {
    const platform = createHeldPlatform();
    const store = await schemas.openCounted((place) =>
      openPostgresStore({ ...place, platform, clock: "platform" }),
    );
    const reference = openReference(platform, 1);
    try {
      await store.submit([{ jobs: kinds.map((each, at) => aJob({ id: `first${at}`, ...each })) }]);
      await reference.submit([{ jobs: kinds.map((each, at) => aJob({ id: `first${at}`, ...each })) }]);
      let count = 0;
      let running: { id: string; seq: number; fence: number }[] = [];
      for (const each of steps) {
        if ("put" in each) {
          const put = [aGate(each.put.key, each.put)];
          expect(await store.putGates(put)).toEqual(await reference.putGates(put));
        } else if ("submit" in each) {
          const jobs = each.submit.map(({ kind: at, rankBase, inputBytes }) =>
            aJob({ id: `j${++count}`, ...kinds[at], rankBase, input: "x".repeat(inputBytes) }),
          );
          expect(await store.submit([{ jobs }])).toEqual(await reference.submit([{ jobs }]));
        } else if ("offers" in each) {
          const offers = each.offers.map(({ kinds: offered, max, starts }) => ({
            routes: offered.map((at) => aRoute(kinds[at])),
            max,
            starts,
          }));
          const { inputBytesMax } = each;
          const asked = aClaim({
            leaseMs: 1e6,
            offers,
            ...(inputBytesMax === null ? {} : { inputBytesMax }),
          });
          const [answer, expected] = [await store.claim(asked), await reference.claim(asked)];
          expect(answer).toEqual(expected);
          running = [...running, ...answer.jobs];
        } else if ("settle" in each) {
          const settles = running.slice(0, each.settle).map((job) => aSettle(job, finish()));
          running = running.slice(each.settle);
          expect(await store.settleIfLeased(settles)).toEqual(await reference.settleIfLeased(settles));
        } else platform.advance(each.passMs);
        const all = { prefix: "", after: null, max: 10 };
        expect(await store.readGates(all)).toEqual(await reference.readGates(all));
      }
    } finally {
      await store.close();
    }
  });
  await fc.assert(property, { numRuns: runs });
});
