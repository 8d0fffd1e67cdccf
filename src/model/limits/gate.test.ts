import fc from "fast-check";
import { expect, test } from "vitest";
import { permitsLeft, shareOf, sharesMax } from "./gate.ts";
import type { GateBounds } from "./gate.ts";

const bounds: fc.Arbitrary<GateBounds> = fc.record({
  cap: fc.option(fc.integer({ min: 1, max: 50 })),
  rate: fc.option(
    fc
      .record({ stepUs: fc.integer({ min: 1, max: 100_000 }), burst: fc.integer({ min: 1, max: 50 }) })
      .map(({ stepUs, burst }) => ({ stepUs, burstUs: stepUs * burst })),
  ),
});

test("the shares of a queue's bounds are never more than the whole, and none is empty where they can be shared", () => {
  fc.assert(
    fc.property(bounds, fc.integer({ min: 1, max: 16 }), (whole, of) => {
      const idle = { tatUs: 0, closedUntil: null, held: 0 };
      const left = (part: GateBounds): number => permitsLeft({ ...part, ...idle }, 1_000_000);
      const parts = Array.from({ length: of }, (_, number) => left(shareOf(whole, number, of)));
      expect(parts.reduce((sum, part) => sum + part, 0)).toBeLessThanOrEqual(left(whole));
      if (of <= sharesMax(whole)) expect(Math.min(...parts)).toBeGreaterThan(0);
    }),
  );
});
