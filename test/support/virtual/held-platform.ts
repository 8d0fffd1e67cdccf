/**
 * A platform whose clock stands still until the test moves it, for tests of one store. Timers and flushes are the real
 * ones: a store may need them to wait for a lock or a thread, and nothing that these tests observe depends on how long
 * that takes.
 */
import { nodePlatform } from "../../../src/platform/node-platform.ts";
import type { Platform } from "../../../src/platform/platform.ts";

export const startAt = 1_000_000;

export interface HeldPlatform extends Platform {
  /** Moves the clock to this time, forward or back. */
  setNow(at: number): void;
  advance(ms: number): void;
}

export function createHeldPlatform(): HeldPlatform {
  let now = startAt;
  let drawn = 1;
  return {
    ...nodePlatform,
    now: () => now,
    monotonicUs: () => now * 1000,
    random: () => {
      drawn = (drawn * 48_271) % 2_147_483_647;
      return drawn / 2_147_483_647;
    },
    bootId: () => "held",
    setNow: (at) => void (now = at),
    advance: (ms) => void (now += ms),
  };
}
