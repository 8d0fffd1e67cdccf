import fc from "fast-check";
import { expect, test } from "vitest";
import { readFreed, writeFreed } from "./freed.ts";
import type { Freed } from "./freed.ts";

test("where a freed job goes is read as it was written", () => {
  const freed: fc.Arbitrary<Freed> = fc.record({
    due: fc.oneof(
      fc.record({ at: fc.nat(), isNamed: fc.constant(true as const) }),
      fc.record({ inMs: fc.nat() }),
    ),
    rankBase: fc.integer(),
    rankSlope: fc.constantFrom(-1, 0, 1),
    ttlMs: fc.option(fc.nat(), { nil: null }),
  });
  fc.assert(
    fc.property(freed, (given) => {
      expect(readFreed(writeFreed(given))).toEqual(given);
    }),
  );
});
