/** How many jobs a pool asks for. */
import { describe, expect, test } from "vitest";
import type { Attempt } from "../run/attempt.ts";
import { Pool } from "./pool.ts";

const claimed = 500;
const runUs = 2000;
const roundTripUs = 8000;

const newPool = (): Pool =>
  new Pool({ queue: "main", slots: 100, names: new Set(["quick"]), jobsPerSlot: 1 });

/** Claims in a row: each brings jobs that are run at once, and the next is sent behind them. */
function takeTurns(pool: Pool, waves: number, waitUs: number): void {
  let nowUs = 1_000_000;
  for (let wave = 0; wave < waves; wave++) {
    for (let each = 0; each < claimed; each++) pool.push({} as Attempt);
    pool.arrived(nowUs);
    while (pool.take() !== undefined) pool.finished(1);
    pool.emptied((nowUs += runUs));
    pool.claimed(runUs + waitUs, (nowUs += waitUs));
  }
}

describe("a pool", () => {
  test("that waited for its claims asks for the next one ahead all the same: waits do not make its jobs slower", () => {
    const pool = newPool();
    takeTurns(pool, 10, roundTripUs);
    expect(pool.wanted(roundTripUs, claimed)).toBe(claimed);
  });

  test("whose jobs last longer than the claims asks for none ahead", () => {
    const pool = newPool();
    takeTurns(pool, 10, roundTripUs);
    expect(pool.wanted(runUs / 4, claimed)).toBe(0);
  });

  test("that is idle for a while asks for what its slots can take", () => {
    const pool = newPool();
    takeTurns(pool, 10, roundTripUs);
    for (let look = 1; look <= 30; look++) pool.claimed(1_000_000, look * 1_000_000);
    expect(pool.wanted(roundTripUs, 0)).toBe(100);
  });

  test("that has jobs all the time measures them by that time", () => {
    const pool = newPool();
    for (let each = 0; each < claimed; each++) pool.push({} as Attempt);
    pool.arrived(0);
    for (let look = 1; look <= 30; look++) {
      for (let each = 0; each < 10; each++) pool.take();
      pool.finished(10);
      pool.claimed(1000, look * 1000);
    }
    pool.takeAll();
    expect(pool.wanted(1000, 0)).toBe(100 + 19);
  });

  test("asks for no more ahead than twice what has finished, however fast that was", () => {
    const pool = new Pool({ queue: "main", slots: 2, names: new Set(["quick"]), jobsPerSlot: 1 });
    pool.arrived(0);
    pool.finished(2);
    pool.emptied(1);
    pool.claimed(roundTripUs, roundTripUs);
    expect(pool.wanted(roundTripUs, 0)).toBe(2 + 4);
  });

  test("asks for half of what permits let through, for no more than they leave, and for all once that is not known", () => {
    const pool = newPool();
    takeTurns(pool, 10, roundTripUs);
    pool.permitsLet(200);
    expect(pool.wanted(roundTripUs, 0)).toBe(100);
    pool.busySlots = 90;
    expect(pool.wanted(roundTripUs, 100)).toBe(0);
    expect(pool.wanted(roundTripUs, 20)).toBe(90);
    pool.busySlots = 0;
    pool.permitsLet(30);
    expect(pool.wanted(roundTripUs, 0)).toBe(30);
    pool.permitsLet(Number.POSITIVE_INFINITY);
    expect(pool.wanted(roundTripUs, 0)).toBe(claimed);
  });
});
