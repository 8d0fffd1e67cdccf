import { expect, test } from "vitest";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { SharedTimer } from "./shared-timer.ts";
import type { Timed } from "./shared-timer.ts";

const item = (rang: () => void): Timed => ({ dueTick: -1, rang });

test("items ring at their time, never before it and within a tick, in order, with one real timer", async () => {
  const platform = createVirtualPlatform();
  const timer = new SharedTimer(platform);
  const rung: [string, number][] = [];
  const add = (name: string, ms: number): Timed => {
    const one = item(() => rung.push([name, platform.time.elapsedUs / 1000]));
    timer.set(one, ms * 1000);
    return one;
  };
  add("late", 500);
  add("early", 101);
  const gone = add("gone", 50);
  const moved = add("moved", 60);
  timer.clear(gone);
  timer.set(moved, 1_000_000);
  expect(platform.time.pending).toBe(1);
  await platform.time.advance(2_000_000);
  expect(rung.map(([name]) => name)).toEqual(["early", "late", "moved"]);
  for (const [index, dueMs] of [101, 500, 1000].entries()) {
    expect(rung[index]![1]).toBeGreaterThanOrEqual(dueMs);
    expect(rung[index]![1]).toBeLessThan(dueMs + 12);
  }
  expect(platform.time.pending).toBe(0);
});

test("without items there is no real timer", () => {
  const platform = createVirtualPlatform();
  const timer = new SharedTimer(platform);
  const one = item(() => {});
  timer.set(one, 1000);
  timer.clear(one);
  expect(platform.time.pending).toBe(0);
});
