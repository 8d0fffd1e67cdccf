import fc from "fast-check";
import { expect, test } from "vitest";
import { packNumbers, unpackNumbers } from "./packed-numbers.ts";

test("whole numbers of every size come back as they were", () => {
  fc.assert(
    fc.property(fc.array(fc.maxSafeNat()), (numbers) => {
      const next = unpackNumbers(packNumbers(numbers));
      expect(numbers.map(() => next())).toEqual(numbers);
      expect(next).toThrow(RangeError);
    }),
  );
});

test("small numbers take one letter", () => {
  expect(packNumbers([0, 1, 31])).toHaveLength(3);
  expect(packNumbers([32, 1023])).toHaveLength(4);
});

test.each(["", "!", "ag", "____________________A"])("text that nobody packed is refused: %j", (text) => {
  const next = unpackNumbers(text);
  expect(() => {
    next();
    next();
  }).toThrow(RangeError);
});
