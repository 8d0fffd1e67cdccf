/** The arithmetic of the clock, on marks whose rate is known. */
import { describe, expect, it } from "vitest";
import { MarkBook, jobsToDrain, rateOf, warmUpJobs } from "./marks.ts";
import type { Mark } from "./marks.ts";

describe("the rate of a drain", () => {
  it("starts its clock where the warm-up ends", () => {
    const slowStart: Mark[] = [
      [10_000, 100],
      [10_100, 100],
      [10_200, 100],
    ];
    expect(rateOf(slowStart, 100)).toBe(1000);
  });

  it("counts the marks of several processes in order of time", () => {
    const one: Mark[] = [
      [0, 100],
      [200, 100],
    ];
    const other: Mark[] = [
      [100, 100],
      [300, 100],
    ];
    expect(rateOf([...one, ...other], 100)).toBe(1000);
  });

  it("is refused when nothing lies behind the warm-up", () => {
    expect(() => rateOf([[0, 100]], 100)).toThrow("Too few");
    expect(() => rateOf([], 0)).toThrow("Too few");
  });

  it("has all the jobs asked for inside the clock, also when a batch ends the warm-up late", () => {
    const jobs = 100_000;
    const largestBatch = 1000;
    expect(jobsToDrain(jobs) - (warmUpJobs(jobs) + largestBatch - 1)).toBeGreaterThan(jobs);
  });
});

describe("a mark book", () => {
  it("marks every hundred jobs, however they come", () => {
    const book = new MarkBook();
    for (let job = 0; job < 250; job++) book.add(1);
    book.add(500);
    expect(book.total).toBe(750);
    expect(book.marks.map(([, count]) => count)).toEqual([100, 100, 550]);
  });
});
