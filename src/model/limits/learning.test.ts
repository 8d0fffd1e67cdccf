import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { learnedByThrottle, learnedByUse, learnedConcurrency, readLearn } from "./learning.ts";
import type { Learn, Learned } from "./learning.ts";

const learns: fc.Arbitrary<Learn> = fc.record({
  from: fc.integer({ min: 1, max: 20 }),
  step: fc.integer({ min: 1, max: 5 }),
  everyMs: fc.integer({ min: 100, max: 10_000 }),
});
const moments = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 8000 }),
    what: fc.constantFrom("throttle", "use", "edit"),
    cooldownMs: fc.integer({ min: 1, max: 5000 }),
    cap: fc.option(fc.integer({ min: 1, max: 100 })),
    used: fc.integer({ min: 0, max: 120 }),
  }),
  { maxLength: 60 },
);

describe("what a limit learns", () => {
  test("stays between the floor and what is set, rises one step at a time and only in full use", () => {
    fc.assert(
      fc.property(learns, fc.integer({ min: 20, max: 100 }), moments, (learn, first, history) => {
        let [cap, learned, now, raisedAt]: [number | null, Learned | null, number, number] = [
          first,
          null,
          0,
          -Infinity,
        ];
        for (const { afterMs, what, cooldownMs, used, cap: next } of history) {
          now += afterMs;
          const known = { learn, cap, learned };
          const before = learnedConcurrency(known);
          if (what === "edit") cap = next;
          else if (what === "throttle") {
            learned = learnedByThrottle(known, now + cooldownMs);
            const floor = Math.min(learn.from, cap ?? Infinity);
            expect(learnedConcurrency({ learn, cap, learned })).toBe(Math.max(floor, Math.floor(before / 2)));
            raisedAt = now + cooldownMs;
          } else {
            const after = learnedByUse(known, used, now);
            if (after !== null) {
              const rise = learnedConcurrency({ learn, cap, learned: after }) - before;
              expect(used).toBeGreaterThanOrEqual(before);
              expect(rise).toBeGreaterThanOrEqual(0);
              expect(rise).toBeLessThanOrEqual(learn.step);
              if (rise > 0) expect(now - raisedAt).toBeGreaterThanOrEqual(learn.everyMs);
              raisedAt = now;
              learned = after;
            }
          }
          const present = learnedConcurrency({ learn, cap, learned });
          expect(present).toBeLessThanOrEqual(cap ?? Infinity);
          expect(present).toBeGreaterThanOrEqual(Math.min(learn.from, cap ?? Infinity));
        }
      }),
    );
  });

  test("comes to what is set in the end, where nothing is throttled and all of it is used", () => {
    fc.assert(
      fc.property(learns, fc.integer({ min: 20, max: 100 }), (learn, cap) => {
        let learned: Learned | null = null;
        for (let now = 0; now <= 200 * learn.everyMs; now += learn.everyMs)
          learned = learnedByUse({ learn, cap, learned }, cap, now) ?? learned;
        expect(learnedConcurrency({ learn, cap, learned })).toBe(cap);
      }),
    );
  });

  test("is set by options that make sense together", () => {
    expect(readLearn({}, 50, "learn")).toEqual({ from: 1, step: 1, everyMs: 10_000 });
    expect(readLearn({ from: 5, step: 2, every: "1s" }, 50, "learn")).toEqual({
      from: 5,
      step: 2,
      everyMs: 1000,
    });
    for (const [options, cap] of [
      [{}, null],
      [{ from: 51 }, 50],
      [{ from: 0 }, 50],
      [{ step: 0 }, 50],
      [{ every: 0 }, 50],
      [{ rate: 1 }, 50],
      [true, 50],
    ] as const)
      expect(() => readLearn(options, cap, "learn")).toThrow(
        expect.objectContaining({ code: "invalid-option" }),
      );
  });
});
