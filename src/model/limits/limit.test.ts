import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  afterDefinition,
  afterEdit,
  boundsOf,
  boundsPerKeyOf,
  isBoundedInAll,
  isSame,
  readBody,
  readDefinition,
  readEdit,
  readLimitEdit,
  settingsOf,
  tokenRateOf,
  weightMaxOf,
  writeBody,
} from "./limit.ts";
import { permitsLeft, tatAfter } from "./gate.ts";

const coded = (code: string) => expect.objectContaining({ code });
const define = (options: unknown) => readDefinition(options, "limit");

describe("the definition of a limit", () => {
  test("leaves out what is not limited, and lets a burst be as large as the rate", () => {
    expect(define({})).toEqual({ concurrency: null, rate: null });
    expect(define({ concurrency: 5, rate: { max: 100, per: "1m" } })).toEqual({
      concurrency: 5,
      rate: { max: 100, perMs: 60_000, burst: 100 },
    });
  });

  test.each([
    ["a cap of 0", { concurrency: 0 }, "invalid-option"],
    ["a negative cap", { concurrency: -1 }, "invalid-option"],
    ["a broken cap", { concurrency: 1.5 }, "invalid-option"],
    ["no cap at all", { concurrency: null }, "invalid-option"],
    ["a rate of 0", { rate: { max: 0, per: "1m" } }, "invalid-option"],
    ["a rate without a time", { rate: { max: 5 } }, "invalid-duration"],
    ["a rate per nothing", { rate: { max: 5, per: 0 } }, "invalid-option"],
    ["a burst of 0", { rate: { max: 5, per: "1s", burst: 0 } }, "invalid-option"],
    ["a burst that takes ages", { rate: { max: 1, per: "1d", burst: 1_000_000 } }, "invalid-option"],
    ["a window of another kind", { rate: { max: 5, per: "1s", window: "fixed" } }, "invalid-option"],
    [
      "a burst above a window",
      { rate: { max: 5, per: "1s", burst: 6, window: "sliding" } },
      "invalid-option",
    ],
    ["more than one per microsecond", { rate: { max: 1001, per: 1 } }, "invalid-option"],
    ["an unknown option", { concurency: 1 }, "invalid-option"],
    ["a cap of 0 for each key", { perKey: { concurrency: 0 } }, "invalid-option"],
    ["nothing for each key", { perKey: {} }, "invalid-option"],
    ["keys of keys", { perKey: { concurrency: 1, perKey: { concurrency: 1 } } }, "invalid-option"],
  ])("%s is refused", (_what, options, code) => {
    expect(() => define(options)).toThrow(coded(code));
  });

  test("says what bounds each key, and whether the jobs of its keys are bounded together too", () => {
    const keysOnly = define({ perKey: { rate: { max: 5, per: "1s" } } });
    expect(keysOnly).toEqual({
      concurrency: null,
      rate: null,
      perKey: { concurrency: null, rate: { max: 5, perMs: 1000, burst: 5 } },
    });
    expect(boundsPerKeyOf(keysOnly)).toEqual({ cap: null, rate: { stepUs: 200_000, burstUs: 1_000_000 } });
    expect(boundsPerKeyOf(define({ concurrency: 5 }))).toBeNull();
    const both = define({ concurrency: 5, perKey: { concurrency: 1 } });
    expect([keysOnly, both, define({})].map(isBoundedInAll)).toEqual([false, true, true]);
    expect([isSame(both, define({ concurrency: 5 })), isSame(both, { ...both })]).toEqual([false, true]);
  });

  test("becomes a step that is rounded up, so that never more pass", () => {
    expect(tokenRateOf({ max: 3, perMs: 1000, burst: 3 })).toEqual({ stepUs: 333_334, burstUs: 1_000_002 });
    expect(tokenRateOf({ max: 100, perMs: 60_000, burst: 1 })).toEqual({ stepUs: 600_000, burstUs: 600_000 });
  });

  test("of a sliding window lets never more than its max pass in any span, whatever the weights", () => {
    const rates = fc.record({
      max: fc.integer({ min: 1, max: 20 }),
      perMs: fc.integer({ min: 5, max: 200 }),
    });
    const asks = fc.array(fc.record({ waitMs: fc.nat(40), weight: fc.integer({ min: 1, max: 5 }) }), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(rates, fc.nat(19), asks, ({ max, perMs }, more, asked) => {
        const rate = tokenRateOf({ max, perMs, burst: 1 + (more % max), window: "sliding" });
        const passed: { at: number; weight: number }[] = [];
        let [at, tatUs] = [1_000_000, 0];
        for (const { waitMs, weight } of asked) {
          at += waitMs;
          const gate = { cap: null, rate, tatUs, closedUntil: null, held: 0 };
          if (permitsLeft(gate, at) < weight) continue;
          tatUs = tatAfter(gate, weight, at);
          passed.push({ at, weight });
        }
        for (const { at: from } of passed) {
          const inSpan = passed.filter((each) => each.at >= from && each.at < from + perMs);
          expect(inSpan.reduce((sum, { weight }) => sum + weight, 0)).toBeLessThanOrEqual(max);
        }
      }),
    );
  });

  test("says how heavy a job may be", () => {
    expect(weightMaxOf(define({}))).toBe(Infinity);
    expect(weightMaxOf(define({ concurrency: 5, rate: { max: 100, per: "1m", burst: 3 } }))).toBe(3);
  });
});

describe("an operator's edit of what bounds each key", () => {
  const body = { ...readBody(null), defined: define({ perKey: { concurrency: 5 } }) };
  const edit = (options: unknown) => settingsOf(afterEdit(body, readLimitEdit(options, "edit")));

  test("leaves what it does not name, and null takes all of it away", () => {
    const rate = { max: 1, perMs: 1000, burst: 1 };
    expect(edit({ perKey: { rate: { max: 1, per: "1s" } } }).perKey).toEqual({ concurrency: 5, rate });
    expect(edit({ perKey: { concurrency: null } }).perKey).toEqual({ concurrency: null, rate: null });
    expect(edit({ concurrency: 9, perKey: null })).toEqual({ concurrency: 9, rate: null, perKey: null });
    for (const wrong of [{}, { perKey: {} }, { perKey: 5 }, { keys: 1 }])
      expect(() => edit(wrong)).toThrow(coded("invalid-option"));
  });

  test("is told from that of a queue, which has no keys", () => {
    expect(() => readEdit({ perKey: { concurrency: 1 } }, "queues.set")).toThrow(coded("invalid-option"));
  });
});

describe("an operator's edit", () => {
  const body = { ...readBody(null), defined: define({ concurrency: 5, rate: { max: 10, per: "1s" } }) };

  test("holds for what it names, and null takes a bound away", () => {
    const edited = { ...body, edited: readEdit({ concurrency: 2, rate: null }, "edit") };
    expect(settingsOf(edited)).toEqual({ concurrency: 2, rate: null });
    expect(boundsOf(settingsOf(edited))).toEqual({ cap: 2, rate: null });
    expect(boundsOf(settingsOf(body))).toEqual({ cap: 5, rate: { stepUs: 100_000, burstUs: 1_000_000 } });
  });

  test("outlives the same definition and ends with another one", () => {
    const edited = { ...body, edited: readEdit({ concurrency: 2 }, "edit") };
    expect(afterDefinition(edited, define({ concurrency: 5, rate: { max: 10, per: "1s" } }))).toBeNull();
    const next = afterDefinition(edited, define({ concurrency: 6 }));
    expect(next).toMatchObject({ defined: { concurrency: 6, rate: null }, edited: {} });
  });

  test("must name something", () => {
    expect(() => readEdit({}, "edit")).toThrow(coded("invalid-option"));
  });
});

describe("the body of a gate", () => {
  test("is read as it was written", () => {
    const body = {
      defined: define({ concurrency: 5 }),
      edited: { rate: null },
      throttle: { count: 1, until: 7 },
    };
    expect(readBody(writeBody(body))).toEqual(body);
  });

  test.each([null, "", "{", "null", "7"])("that says nothing (%j) counts as empty", (text) => {
    expect(readBody(text)).toEqual({ defined: null, edited: {}, throttle: null });
  });
});
