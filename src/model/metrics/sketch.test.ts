// A sketch is held against exact quantiles, and against another implementation of the same layout.
import { DDSketch } from "@datadog/sketches-js";
import fc from "fast-check";
import { expect, test } from "vitest";
import { packNumbers, unpackNumbers } from "../packed-numbers.ts";
import { relativeError, Sketch } from "./sketch.ts";

const shares = [0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1];
const dayUs = 86_400_000_000;
/** Durations of every size, from a microsecond to a month. */
const anyUs = fc.double({ min: 0, max: Math.log(30 * dayUs), noNaN: true }).map((log) => Math.exp(log));
const manyUs = fc.array(anyUs, { minLength: 1, maxLength: 400 });

function sketchOf(values: readonly number[]): Sketch {
  const sketch = new Sketch();
  for (const value of values) sketch.add(value);
  return sketch;
}

function exact(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor(share * (sorted.length - 1))] as number;
}

test("every quantile is within one percent of the exact one", () => {
  fc.assert(
    fc.property(manyUs, (values) => {
      const sketch = sketchOf(values);
      for (const share of shares) {
        const value = exact(values, share);
        expect(Math.abs(sketch.quantileUs(share) - value)).toBeLessThanOrEqual(
          value * relativeError * (1 + 1e-9) + 1e-6,
        );
      }
    }),
  );
});

test("quantiles of merged sketches are those of one sketch over all values, however they were split", () => {
  fc.assert(
    fc.property(manyUs, manyUs, (some, others) => {
      const merged = sketchOf(some);
      merged.merge(sketchOf(others));
      const whole = sketchOf([...some, ...others]);
      for (const share of shares) expect(merged.quantileUs(share)).toBe(whole.quantileUs(share));
      expect([merged.count, merged.maxUs]).toEqual([whole.count, whole.maxUs]);
      expect(merged.sumUs).toBeCloseTo(whole.sumUs, -2);
    }),
  );
});

test("it answers what the sketch of DataDog answers, within the errors of both", () => {
  fc.assert(
    fc.property(manyUs, (values) => {
      const sketch = sketchOf(values);
      const referee = new DDSketch({ relativeAccuracy: relativeError });
      for (const value of values) referee.accept(value);
      for (const share of [0.5, 0.9, 0.99]) {
        const value = referee.getValueAtQuantile(share);
        expect(Math.abs(sketch.quantileUs(share) - value)).toBeLessThanOrEqual(value * 2.05 * relativeError);
      }
    }),
  );
});

test("its text is the same sketch again, to the microsecond", () => {
  fc.assert(
    fc.property(manyUs, (values) => {
      const sketch = sketchOf(values.map((value) => Math.round(value)));
      const again = new Sketch();
      again.absorb(unpackNumbers(packNumbers(sketch.numbers())));
      expect(again).toEqual(sketch);
      for (const share of shares) expect(again.quantileUs(share)).toBe(sketch.quantileUs(share));
    }),
  );
});

test("a value is counted under every bound that is not below it, and under none that is clearly below", () => {
  fc.assert(
    fc.property(manyUs, anyUs, (values, bound) => {
      const count = sketchOf(values).countUpTo(bound);
      const below = (by: number): number => values.filter((value) => value <= bound * by).length;
      expect(count).toBeGreaterThanOrEqual(below(1));
      expect(count).toBeLessThanOrEqual(below(1 + 2.05 * relativeError));
    }),
  );
});

test("no duration, one of less than a microsecond and one of years are counted, and the greatest is kept exactly", () => {
  const sketch = sketchOf([0, -1, 0.2, 4000 * dayUs]);
  expect(sketch.count).toBe(4);
  expect(sketch.quantileUs(1)).toBeLessThanOrEqual(4000 * dayUs);
  expect(sketch.maxUs).toBe(4000 * dayUs);
  expect(sketch.quantileUs(0)).toBe(1);
  expect(new Sketch().quantileUs(0.5)).toBe(0);
});

test("a few hundred attempts of a usual job take a few hundred letters", () => {
  const values = Array.from({ length: 500 }, (_, at) => 20_000 * Math.exp(Math.sin(at) * 0.8));
  expect(packNumbers(sketchOf(values).numbers()).length).toBeLessThan(300);
});
