/**
 * Virtual time and what stands on it: order, jumps, cancelling, and the repeatability of everything drawn from a seed.
 */
import { describe, expect, test } from "vitest";
import { createSeededRandom } from "./seeded-random.ts";
import { createVirtualPlatform } from "./virtual-platform.ts";
import { VirtualTime } from "./virtual-time.ts";

describe("virtual time", () => {
  test("runs events in order of their time and jumps over the gaps", async () => {
    const time = new VirtualTime({ startAt: 1000 });
    const seen: [string, number][] = [];
    time.after(50_000, () => seen.push(["late", time.now]));
    time.after(10_000, () => seen.push(["early", time.now]));
    time.after(10_000, () => seen.push(["early too", time.now]));
    await time.advance(49_999);
    expect(seen).toEqual([
      ["early", 1010],
      ["early too", 1010],
    ]);
    await time.advance(1);
    expect(seen.at(-1)).toEqual(["late", 1050]);
    expect(time.elapsedUs).toBe(50_000);
  });

  test("an event sees everything that an earlier one caused by promises, however long the chain", async () => {
    const time = new VirtualTime();
    let links = 0;
    time.after(1, () => {
      const link = async (): Promise<void> => {
        await Promise.resolve();
        if (++links < 500) await link();
      };
      void link();
    });
    let seen = 0;
    time.after(2, () => (seen = links));
    await time.advance(10);
    expect(seen).toBe(500);
  });

  test("an event that an event adds inside the span runs in the same advance", async () => {
    const time = new VirtualTime();
    const at: number[] = [];
    const tick = (): void => {
      at.push(time.elapsedUs);
      time.after(1000, tick);
    };
    time.after(0, tick);
    await time.advance(3000);
    expect(at).toEqual([0, 1000, 2000, 3000]);
    expect(time.pending).toBe(1);
  });

  test("a cancelled event neither runs nor counts", async () => {
    const time = new VirtualTime();
    let ran = 0;
    const timer = time.after(10, () => (ran += 1));
    time.after(20, () => (ran += 10));
    timer.cancel();
    timer.cancel();
    expect(time.pending).toBe(1);
    await time.advance(100);
    expect(ran).toBe(10);
    expect(time.pending).toBe(0);
  });

  test("keeps thousands of events in order", async () => {
    const random = createSeededRandom(7);
    const time = new VirtualTime();
    const seen: number[] = [];
    for (let count = 0; count < 3000; count++)
      time.after(random.whole(0, 500), () => seen.push(time.elapsedUs));
    await time.advance(1000);
    expect(seen).toHaveLength(3000);
    expect(seen).toEqual(seen.toSorted((left, right) => left - right));
  });

  test("a tie-break orders the events of one instant", async () => {
    const ties = [3, 1, 2];
    const time = new VirtualTime({ tieBreak: () => ties.shift() ?? 0 });
    const seen: string[] = [];
    for (const name of ["third", "first", "second"]) time.after(5, () => seen.push(name));
    await time.advance(5);
    expect(seen).toEqual(["first", "second", "third"]);
  });
});

describe("the virtual platform", () => {
  test("a timer of no length still lets a millisecond pass, so that a loop of them cannot hold time up", async () => {
    const platform = createVirtualPlatform();
    let rang = 0;
    const again = (): void => {
      rang += 1;
      platform.setTimer(0, again);
    };
    again();
    await platform.time.advance(10_000);
    expect(rang).toBe(11);
  });

  test("real turns end by themselves while the clock stands still", async () => {
    const platform = createVirtualPlatform({ turns: "real" });
    const before = platform.now();
    await new Promise<void>((resolve) => platform.defer(resolve));
    expect(platform.now()).toBe(before);
  });
});

describe("seeded randomness", () => {
  test("repeats for the same seed, differs for another, and forks do not depend on earlier draws", () => {
    const draw = (seed: string | number): number[] => {
      const random = createSeededRandom(seed);
      return Array.from({ length: 5 }, () => random.next());
    };
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
    const used = createSeededRandom(1);
    used.next();
    expect(used.fork("a").next()).toBe(createSeededRandom(1).fork("a").next());
    expect(used.fork("a").next()).not.toBe(used.fork("b").next());
  });

  test("is spread evenly over its range", () => {
    const random = createSeededRandom("spread");
    const drawn = Array.from({ length: 10 }, () => 0);
    for (let count = 0; count < 100_000; count++) {
      const face = random.whole(0, 9);
      drawn[face] = (drawn[face] ?? 0) + 1;
    }
    for (const each of drawn) expect(Math.abs(each - 10_000)).toBeLessThan(500);
  });
});
