import { expect, test } from "vitest";
import { mergeByTime } from "./merge-by-time.ts";

const record = (partition: number, number: number, at: number) => ({
  partition,
  number,
  at,
  bundles: [],
  count: 0,
});

test("records of several partitions are merged by time, and those of one keep the order of their numbers", () => {
  const zero = [record(0, 1, 10), record(0, 2, 40), record(0, 3, 30)];
  const one = [record(1, 7, 20), record(1, 8, 35)];
  const merged = mergeByTime([zero, one]);
  expect(merged.map(({ partition, number }) => `${partition}:${number}`)).toEqual([
    "0:1",
    "1:7",
    "1:8",
    "0:2",
    "0:3",
  ]);
  // If calls overlap, the times inside a partition may go back; a cursor must never.
  expect(mergeByTime([zero])).toEqual(zero);
});
