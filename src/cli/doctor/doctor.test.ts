import { expect, test } from "vitest";
import { aheadMs } from "./doctor.ts";

test("a store's clock is ahead or behind only by what the time of its answer does not explain", () => {
  expect([5000, 6000, 7000].map((now) => aheadMs(now, 5000, 7000))).toEqual([0, 0, 0]);
  expect(aheadMs(7001, 5000, 7000)).toBe(1);
  expect(aheadMs(4000, 5000, 7000)).toBe(-1000);
});
