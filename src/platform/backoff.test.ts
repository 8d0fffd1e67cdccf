import { describe, expect, test } from "vitest";
import { Backoff } from "./backoff.ts";

const options = { firstMs: 100, maxMs: 500 };

describe("backoff", () => {
  test("the wait doubles up to its maximum and begins again after a reset", () => {
    const backoff = new Backoff({ random: () => 1 }, options);
    expect([1, 2, 3, 4, 5].map(() => backoff.nextMs())).toEqual([100, 200, 400, 500, 500]);
    backoff.reset();
    expect(backoff.nextMs()).toBe(100);
  });

  test("each wait lies between half of it and all of it", () => {
    const shortest = new Backoff({ random: () => 0 }, options);
    expect([1, 2, 3, 4].map(() => shortest.nextMs())).toEqual([50, 100, 200, 250]);
  });
});
