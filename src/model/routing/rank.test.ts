import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultStrideMs, levelMax, levelOf, levels, orderOf, rankingOf, strictStrideMs } from "./rank.ts";
import type { Order } from "./rank.ts";

const year2100 = Date.UTC(2100, 11, 31, 23, 59, 59, 999);
const anyLevel = fc.integer({ min: -levelMax, max: levelMax });
const anyTime = fc.integer({ min: 0, max: year2100 });
const rankOf = (level: number, dueAt: number, strideMs: number, order: Order = "fifo"): number => {
  const { rankBase, rankSlope } = rankingOf({ level, order }, strideMs);
  return rankBase + rankSlope * dueAt;
};

describe("levels", () => {
  test("named levels stand in their order, normal is 0", () => {
    expect(levels).toEqual({ critical: -20, high: -10, normal: 0, low: 10, lowest: 20 });
    expect(Object.keys(levels).map((name) => levelOf(name))).toEqual([-20, -10, 0, 10, 20]);
  });

  test("whole numbers from -1023 to 1023 are levels", () => {
    for (const level of [-1023, -1, 0, 1, 1023]) expect(levelOf(level)).toBe(level);
  });

  test.each([
    [-1024],
    [1024],
    [0.5],
    [Number.NaN],
    ["urgent"],
    ["__proto__"],
    ["5"],
    [null],
    [undefined],
    [{}],
  ])("%j is refused as invalid-option", (priority) => {
    expect(() => levelOf(priority)).toThrow(expect.objectContaining({ code: "invalid-option" }));
  });
});

describe("ranks", () => {
  test("with the strict stride a better level always goes first, whatever the due times up to the year 2100", () => {
    fc.assert(
      fc.property(anyLevel, anyLevel, anyTime, anyTime, (a, b, dueA, dueB) => {
        fc.pre(a < b);
        return rankOf(a, dueA, strictStrideMs) < rankOf(b, dueB, strictStrideMs);
      }),
    );
  });

  test("inside a level the earlier due time goes first", () => {
    fc.assert(
      fc.property(
        anyLevel,
        anyTime,
        anyTime,
        fc.constantFrom(defaultStrideMs, strictStrideMs, 1),
        (level, a, b, strideMs) => {
          fc.pre(a < b);
          return rankOf(level, a, strideMs) < rankOf(level, b, strideMs);
        },
      ),
    );
  });

  test("with a finite stride a worse level goes first once it has waited a stride per level longer", () => {
    fc.assert(
      fc.property(
        anyLevel,
        anyLevel,
        anyTime,
        fc.integer({ min: 1, max: 86_400_000 }),
        (a, b, due, strideMs) => {
          fc.pre(a < b);
          const waitMs = (b - a) * strideMs;
          expect(rankOf(b, due, strideMs)).toBeLessThan(rankOf(a, due + waitMs + 1, strideMs));
          expect(rankOf(a, due + waitMs - 1, strideMs)).toBeLessThan(rankOf(b, due, strideMs));
        },
      ),
    );
  });

  test("every rank is a whole number below 2^53 for due times up to the year 2100, at the extremes too", () => {
    const isExact = (rank: number): boolean => Number.isSafeInteger(rank);
    for (const level of [-levelMax, 0, levelMax]) {
      for (const due of [0, year2100]) expect(isExact(rankOf(level, due, strictStrideMs))).toBe(true);
    }
    fc.assert(fc.property(anyLevel, anyTime, (level, due) => isExact(rankOf(level, due, strictStrideMs))));
  });

  test("in LIFO order the later due time goes first inside a level, and a better level always, at any stride", () => {
    fc.assert(
      fc.property(anyLevel, anyLevel, anyTime, anyTime, (a, b, dueA, dueB) => {
        fc.pre(a < b || (a === b && dueA > dueB));
        const [first, second] = [rankOf(a, dueA, 1, "lifo"), rankOf(b, dueB, defaultStrideMs, "lifo")];
        return first < second && Number.isSafeInteger(first) && Number.isSafeInteger(second);
      }),
    );
    expect(() => orderOf("random")).toThrow(expect.objectContaining({ code: "invalid-option" }));
  });
});
