import { describe, expect, test } from "vitest";
import { afterThrottle } from "./throttle.ts";
import type { Throttle } from "./throttle.ts";

const open = (throttle: Throttle | null) => ({ throttle, closedUntil: null });

/** The lengths of cooldowns that nobody named, each throttle so long after the end of the one before. */
function cooldowns(count: number, quietMs: number): number[] {
  const lengths: number[] = [];
  let [throttle, now]: [Throttle | null, number] = [null, 1000];
  for (let at = 0; at < count; at++) {
    const next = afterThrottle(open(throttle), null, now);
    lengths.push(next!.closedMs);
    throttle = next!.throttle;
    now = throttle.until + quietMs;
  }
  return lengths;
}

describe("a throttle", () => {
  test("cools down for as long as upstream said, and counts nothing then", () => {
    expect(afterThrottle(open(null), 7000, 100)).toEqual({
      closedMs: 7000,
      throttle: { count: 0, until: 7100 },
    });
  });

  test("that names no time at all counts like one that says nothing: its job must not spin", () => {
    expect(afterThrottle(open(null), 0, 100)).toEqual(afterThrottle(open(null), null, 100));
  });

  test("without a time doubles from 1 s to 5 min", () => {
    expect(cooldowns(11, 0).map((ms) => ms / 1000)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  });

  test("counts once with all the others of its cooldown", () => {
    const known = { throttle: { count: 1, until: 2000 }, closedUntil: 2000 };
    expect(afterThrottle(known, null, 1500)).toBeNull();
    expect(afterThrottle(known, 400, 1500)).toBeNull();
    expect(afterThrottle(known, 900, 1500)).toEqual({ closedMs: 900, throttle: { count: 1, until: 2400 } });
    expect(afterThrottle({ ...known, closedUntil: 2000 }, null, 2000)?.closedMs).toBe(2000);
  });

  test("is forgotten step by step: each 120 s of quiet take one doubling back", () => {
    const known = open({ count: 4, until: 1000 });
    expect(afterThrottle(known, null, 1000 + 119_999)?.closedMs).toBe(16_000);
    expect(afterThrottle(known, null, 1000 + 120_000)?.closedMs).toBe(8000);
    expect(afterThrottle(known, null, 1000 + 10 * 120_000)?.closedMs).toBe(1000);
    expect(cooldowns(5, 120_000)).toEqual([1000, 1000, 1000, 1000, 1000]);
  });
});
