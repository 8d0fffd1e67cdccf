import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { duration, durationMaxMs, durationMs, durationText } from "./duration.ts";
import type { Duration } from "./duration.ts";
import { isMillraceError } from "./error.ts";

const units: readonly (readonly [string, number])[] = [
  ["w", 604_800_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
];

function written(ms: number): string {
  let rest = ms;
  let text = "";
  for (const [unit, size] of units) {
    if (rest >= size) text += `${Math.floor(rest / size)}${unit}`;
    rest %= size;
  }
  return text === "" ? "0ms" : text;
}

describe("durations", () => {
  test.each([
    [0, 0],
    [1500, 1500],
    [1.4, 1],
    ["250ms", 250],
    ["10m", 600_000],
    ["1h30m", 5_400_000],
    ["7d", 604_800_000],
    ["2w", 1_209_600_000],
    ["1.5s", 1500],
    ["0.5ms", 1],
    [durationMaxMs, durationMaxMs],
  ])("%j means %d ms", (value, ms) => {
    expect(durationMs(value, "delay")).toBe(ms);
  });

  test.each([
    [-1],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [durationMaxMs + 1],
    [Date.UTC(2026, 0)],
    [""],
    ["10"],
    ["-5m"],
    ["5 m"],
    ["5m "],
    ["m"],
    ["5M"],
    ["1e3ms"],
    ["1h,30m"],
    ["521w1000d"],
    ["1ms".repeat(22)],
    [null],
    [undefined],
    [true],
    [10n],
    [[5]],
    [{ ms: 5 }],
    [Symbol("5m")],
    [Object.create(null)],
  ])("%o is refused as invalid-duration", (value) => {
    expect(() => durationMs(value, "delay")).toThrow(expect.objectContaining({ code: "invalid-duration" }));
  });

  test("the refusal names the option and shows what was given, cut short", () => {
    expect(() => durationMs("x".repeat(10_000), "retry.backoff")).toThrow(
      /^retry\.backoff: "x{80}" is not a duration/,
    );
  });

  test("a duration written out in units reads back as the same number", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: durationMaxMs }),
        (ms) => durationMs(written(ms), "delay") === ms,
      ),
    );
  });

  test("whatever is given, the answer is a whole number inside the bounds or an invalid-duration error", () => {
    const text = fc.string({ unit: fc.constantFrom(..."0123456789.mshdw -+e".split("")) });
    fc.assert(
      fc.property(
        fc.oneof(fc.anything({ withNullPrototype: true, withBigInt: true }), fc.double(), text),
        (value) => {
          try {
            const ms = durationMs(value, "delay");
            return Number.isInteger(ms) && ms >= 0 && ms <= durationMaxMs;
          } catch (error) {
            return isMillraceError(error, "invalid-duration");
          }
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe("a duration for people", () => {
  test.each([
    [0, "0ms"],
    [999, "999ms"],
    [1000, "1s"],
    [3250, "3.2s"],
    [59_999, "59.9s"],
    [60_000, "1m"],
    [125_000, "2m 5s"],
    [3_600_000, "1h"],
    [90_061_000, "1d 1h"],
    [400 * 86_400_000, "400d"],
  ])("of %d ms is %s", (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });
});

describe("the type of a duration", () => {
  test("takes numbers and texts with units, and no other text", () => {
    const taken: Duration[] = [500, "250ms", "1.5h", "1h30m", "1d12h30m", duration("2w")];
    // @ts-expect-error a minute is "m"
    const minutes: Duration = "10min";
    // @ts-expect-error a text needs a unit
    const bare: Duration = "10";
    expect(taken.map((each) => durationMs(each, "delay"))).toHaveLength(6);
    for (const refused of [minutes, bare])
      expect(() => durationMs(refused, "delay")).toThrow("is not a duration");
  });

  test("is made of any text by a function, which refuses what is none", () => {
    const given: string = "90s";
    expect(duration(given)).toBe(90_000);
    expect(() => duration("soon")).toThrow(expect.objectContaining({ code: "invalid-duration" }));
  });
});
