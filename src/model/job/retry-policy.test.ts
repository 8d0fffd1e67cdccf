import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { durationMaxMs } from "../duration.ts";
import {
  attemptsMax,
  backoffDelayMs,
  defaultAttempts,
  defaultBackoff,
  isRetryable,
  plannedDelayMs,
  readAttempts,
  readBackoff,
  readRetryIf,
} from "./retry-policy.ts";
import type { Backoff } from "./retry-policy.ts";

const invalid = (code = "invalid-option"): unknown => expect.objectContaining({ code });
const error = { name: "Error" };
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const delayMs = fc.integer({ min: 0, max: durationMaxMs });
const jitter = fc.constantFrom("full", "half", "none");
const failures = fc.integer({ min: 1, max: attemptsMax });
const spread = fc.tuple(delayMs, delayMs).map(([a, b]) => ({ fromMs: Math.min(a, b), toMs: Math.max(a, b) }));
const factor = fc.double({ min: 1, max: 100, noNaN: true });
const plannedBackoff: fc.Arbitrary<Exclude<Backoff, { kind: "custom" }>> = fc.oneof(
  fc.record({ kind: fc.constant("fixed"), delayMs, jitter }),
  fc.tuple(spread, jitter).map(([range, jitter]) => ({ kind: "linear" as const, ...range, jitter })),
  fc
    .tuple(spread, factor, jitter)
    .map(([range, factor, jitter]) => ({ kind: "exponential" as const, ...range, factor, jitter })),
  fc.record({
    kind: fc.constant("list"),
    delaysMs: fc.array(delayMs, { minLength: 1, maxLength: 5 }),
    jitter,
  }),
) as fc.Arbitrary<Exclude<Backoff, { kind: "custom" }>>;

describe("the delay before the next try", () => {
  test.each<[Exclude<Backoff, { kind: "custom" }>, number[]]>([
    [{ kind: "fixed", delayMs: 700, jitter: "none" }, [700, 700, 700]],
    [{ kind: "linear", fromMs: 100, toMs: 250, jitter: "none" }, [100, 200, 250, 250]],
    [
      { kind: "exponential", fromMs: 1000, toMs: 5000, factor: 2, jitter: "none" },
      [1000, 2000, 4000, 5000, 5000],
    ],
    [{ kind: "list", delaysMs: [5, 50, 10], jitter: "none" }, [5, 50, 10, 10, 10]],
  ])("of %j grows as its kind says and stops at its end", (backoff, expected) => {
    expect(expected.map((_, index) => plannedDelayMs(backoff, index + 1))).toEqual(expected);
  });

  test("the default is one second, doubled up to ten minutes, between half and all of it, ten attempts in all", () => {
    expect(defaultBackoff).toEqual({
      kind: "exponential",
      fromMs: 1000,
      toMs: 600_000,
      factor: 2,
      jitter: "half",
    });
    expect(defaultAttempts).toBe(10);
    expect([1, 2, 9, 10, 1000].map((n) => plannedDelayMs(defaultBackoff as never, n))).toEqual([
      1000, 2000, 256_000, 512_000, 600_000,
    ]);
  });

  test("is exactly the planned one without jitter and never above it with jitter", () => {
    fc.assert(
      fc.property(plannedBackoff, failures, random, (backoff, count, value) => {
        const planned = plannedDelayMs(backoff, count);
        const delay = backoffDelayMs(backoff, count, error, { random: () => value });
        expect(Number.isInteger(delay) && delay >= 0 && delay <= planned, `${delay} of ${planned}`).toBe(
          true,
        );
        if (backoff.jitter === "none") expect(delay).toBe(planned);
      }),
      { numRuns: 1000 },
    );
  });

  test("stays inside the policy's own bounds after any number of failures", () => {
    fc.assert(
      fc.property(plannedBackoff, failures, (backoff, count) => {
        const planned = plannedDelayMs(backoff, count);
        if (backoff.kind === "fixed") expect(planned).toBe(backoff.delayMs);
        else if (backoff.kind === "list") expect(backoff.delaysMs).toContain(planned);
        else expect(planned >= backoff.fromMs && planned <= backoff.toMs, `${planned}`).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  test("a backoff from zero stays zero however often it was multiplied", () => {
    const backoff: Backoff = { kind: "exponential", fromMs: 0, toMs: 5000, factor: 100, jitter: "none" };
    expect(backoffDelayMs(backoff, attemptsMax, error, { random: () => 0 })).toBe(0);
  });

  test("half jitter reaches half of the planned delay and all of it, never less", () => {
    const backoff: Backoff = { kind: "fixed", delayMs: 11, jitter: "half" };
    expect(backoffDelayMs(backoff, 1, { name: "E" }, { random: () => 0 })).toBe(6);
    expect(backoffDelayMs(backoff, 1, { name: "E" }, { random: () => 0.999_999 })).toBe(11);
  });

  test("the default outlives an outage of four minutes, however the dice fall", () => {
    let waitedMs = 0;
    for (let failures = 1; failures < defaultAttempts; failures++)
      waitedMs += backoffDelayMs(defaultBackoff, failures, { name: "E" }, { random: () => 0 });
    expect(waitedMs).toBeGreaterThan(4 * 60_000);
  });

  test("full jitter reaches both ends", () => {
    const backoff: Backoff = { kind: "fixed", delayMs: 10, jitter: "full" };
    expect(backoffDelayMs(backoff, 1, error, { random: () => 0 })).toBe(0);
    expect(backoffDelayMs(backoff, 1, error, { random: () => 1 - 2 ** -53 })).toBe(10);
  });
});

describe("a custom backoff", () => {
  const backoff: Backoff = { kind: "custom", name: "mine" };

  test("is asked with the failures so far and the error", () => {
    const custom = { mine: (count: number, { name }: { name: string }) => count * 10 + name.length };
    expect(backoffDelayMs(backoff, 4, { name: "Oops" }, { random: () => 0, custom })).toBe(44);
  });

  test.each<[string, (() => unknown) | undefined]>([
    ["is missing", undefined],
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["answers a negative delay", () => -5],
    ["answers no number", () => "soon"],
    ["answers nothing", () => undefined],
    ["answers NaN", () => Number.NaN],
    ["answers eternity", () => Number.POSITIVE_INFINITY],
  ])("that %s falls back to the default, so that the job is not lost, and says so", (_, mine) => {
    const custom: Record<string, () => number> = mine === undefined ? {} : { mine: mine as () => number };
    const problems: string[] = [];
    const warn = (problem: string) => problems.push(problem);
    expect(backoffDelayMs(backoff, 2, error, { random: () => 0.999999, custom, warn })).toBe(2000);
    expect(problems).toEqual([expect.stringContaining('The backoff "mine"')]);
  });

  test("is not found in what every object inherits", () => {
    const inherited: Backoff = { kind: "custom", name: "toString" };
    expect(backoffDelayMs(inherited, 1, error, { random: () => 0, custom: {} })).toBe(500);
  });
});

describe("retryIf", () => {
  test.each([
    [undefined, { name: "Any" }, true],
    [{}, { name: "Any" }, true],
    [{ names: ["A"] }, { name: "A" }, true],
    [{ names: ["A"] }, { name: "B" }, false],
    [{ names: ["A"] }, { name: "B", code: "A" }, false],
    [{ codes: ["E1"] }, { name: "B", code: "E1" }, true],
    [{ codes: ["E1"] }, { name: "E1" }, false],
    [{ names: ["A"], codes: ["E1"] }, { name: "X", code: "E1" }, true],
    [{ never: ["A"] }, { name: "A" }, false],
    [{ never: ["E1"] }, { name: "A", code: "E1" }, false],
    [{ never: ["A"] }, { name: "B" }, true],
    [{ names: ["A"], never: ["A"] }, { name: "A" }, false],
    [{ names: [] }, { name: "A" }, false],
  ])("%j with %j: tried again is %j", (retryIf, thrown, expected) => {
    expect(isRetryable(retryIf, thrown)).toBe(expected);
  });
});

describe("reading what people write", () => {
  test.each<[unknown, Backoff]>([
    ["10s", { kind: "fixed", delayMs: 10_000, jitter: "none" }],
    [250, { kind: "fixed", delayMs: 250, jitter: "none" }],
    [
      { kind: "fixed", delay: "1s" },
      { kind: "fixed", delayMs: 1000, jitter: "half" },
    ],
    [
      { kind: "linear", from: "1s" },
      { kind: "linear", fromMs: 1000, toMs: 600_000, jitter: "half" },
    ],
    [
      { kind: "linear", from: "10m" },
      { kind: "linear", fromMs: 600_000, toMs: 600_000, jitter: "half" },
    ],
    [{ kind: "exponential" }, defaultBackoff],
    [
      { kind: "exponential", from: 5, to: "1m", factor: 3, jitter: "none" },
      { kind: "exponential", fromMs: 5, toMs: 60_000, factor: 3, jitter: "none" },
    ],
    [
      { kind: "list", delays: ["1s", 5] },
      { kind: "list", delaysMs: [1000, 5], jitter: "half" },
    ],
    [
      { kind: "custom", name: "mine" },
      { kind: "custom", name: "mine" },
    ],
  ])("the backoff %j is understood", (given, backoff) => {
    expect(readBackoff(given, "backoff")).toEqual(backoff);
  });

  test.each<[unknown, string]>([
    [null, "invalid-option"],
    [{}, "invalid-option"],
    [{ kind: "random" }, "invalid-option"],
    [{ kind: "fixed", delay: 1, factor: 2 }, "invalid-option"],
    [{ kind: "fixed", delay: 1, jitter: "some" }, "invalid-option"],
    [{ kind: "fixed" }, "invalid-duration"],
    [{ kind: "fixed", delay: -1 }, "invalid-duration"],
    ["soon", "invalid-duration"],
    [{ kind: "linear", from: "1m", to: "1s" }, "invalid-option"],
    [{ kind: "exponential", factor: 0.5 }, "invalid-option"],
    [{ kind: "exponential", factor: 101 }, "invalid-option"],
    [{ kind: "exponential", factor: Number.NaN }, "invalid-option"],
    [{ kind: "list", delays: [] }, "invalid-option"],
    [{ kind: "list", delays: "1s" }, "invalid-option"],
    [{ kind: "list", delays: [1, -1] }, "invalid-duration"],
    [{ kind: "custom", name: "" }, "invalid-name"],
    [{ kind: "custom", name: "mine", jitter: "none" }, "invalid-option"],
  ])("the backoff %j is refused as %s", (given, code) => {
    expect(() => readBackoff(given, "backoff")).toThrow(invalid(code) as Error);
  });

  test("attempts are a whole number from 1 to 1000", () => {
    expect([readAttempts(1, "attempts"), readAttempts(1000, "attempts")]).toEqual([1, 1000]);
    for (const value of [0, 1001, 2.5, "3", null]) {
      expect(() => readAttempts(value, "attempts")).toThrow(invalid() as Error);
    }
  });

  test("retryIf is lists of names and nothing else", () => {
    const given = { names: ["A"], codes: ["E1"], never: [] };
    expect(readRetryIf(given, "retryIf")).toEqual(given);
    for (const value of [
      null,
      [],
      { names: "A" },
      { only: ["A"] },
      { names: Array.from({ length: 101 }, () => "A") },
    ]) {
      expect(() => readRetryIf(value, "retryIf")).toThrow(invalid() as Error);
    }
    expect(() => readRetryIf({ names: [""] }, "retryIf")).toThrow(invalid("invalid-name") as Error);
  });
});
