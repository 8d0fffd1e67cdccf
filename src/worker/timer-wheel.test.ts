import { expect, test } from "vitest";
import { createVirtualPlatform } from "../testing/virtual-platform.ts";
import { TimerWheel } from "./timer-wheel.ts";
import type { WheelItem } from "./timer-wheel.ts";

const item = (rang: () => void): WheelItem => ({ wheelTick: -1, rang });

test("items ring at their time, never before it and within a tick, in order, with one real timer", async () => {
  const platform = createVirtualPlatform();
  const wheel = new TimerWheel(platform);
  const rung: [string, number][] = [];
  const add = (name: string, ms: number): WheelItem => {
    const one = item(() => rung.push([name, platform.time.elapsedUs / 1000]));
    wheel.add(one, ms * 1000);
    return one;
  };
  add("late", 500);
  add("early", 101);
  const gone = add("gone", 50);
  const moved = add("moved", 60);
  wheel.remove(gone);
  wheel.add(moved, 1_000_000);
  expect(platform.time.pending).toBe(1);
  await platform.time.advance(2_000_000);
  expect(rung.map(([name]) => name)).toEqual(["early", "late", "moved"]);
  for (const [index, dueMs] of [101, 500, 1000].entries()) {
    expect(rung[index]![1]).toBeGreaterThanOrEqual(dueMs);
    expect(rung[index]![1]).toBeLessThan(dueMs + 12);
  }
  expect(platform.time.pending).toBe(0);
});

test("a wheel without items has no timer", () => {
  const platform = createVirtualPlatform();
  const wheel = new TimerWheel(platform);
  const one = item(() => {});
  wheel.add(one, 1000);
  wheel.remove(one);
  expect(platform.time.pending).toBe(0);
});
