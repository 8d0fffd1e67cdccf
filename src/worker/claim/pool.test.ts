/** How many jobs a pool asks for. */
import { describe, expect, test } from "vitest";
import type { Attempt } from "../run/attempt.ts";
import { Pool } from "./pool.ts";

const claimed = 500;
const runUs = 2000;
const roundTripUs = 8000;

function newPool(slots = 100): Pool {
  const pool = new Pool({ queue: "main", slots, names: new Set(["quick"]), jobsPerSlot: 1 });
  pool.addDemand(null);
  return pool;
}

/** What the pool asks for while a claim is coming in. */
function wanted(pool: Pool, arriving: number): number {
  pool.arriving = arriving;
  return pool.wanted();
}

/** Claims in a row: each brings jobs that are run at once, and the next is sent behind them. */
function takeTurns(pool: Pool, waves: number, waitUs: number, claimUs = waitUs): void {
  let nowUs = 1_000_000;
  for (let wave = 0; wave < waves; wave++) {
    for (let each = 0; each < claimed; each++) pool.push({} as Attempt);
    pool.arrived(nowUs);
    while (pool.take() !== undefined) pool.finished(1);
    pool.emptied((nowUs += runUs));
    pool.claimed(runUs + waitUs, (nowUs += waitUs), claimUs);
  }
}

describe("a pool", () => {
  test("that waited for its claims asks for the next one ahead all the same: waits do not make its jobs slower", () => {
    const pool = newPool();
    takeTurns(pool, 10, roundTripUs);
    expect(wanted(pool, claimed)).toBe(claimed);
  });

  test("whose jobs last longer than the claims asks for none ahead", () => {
    const pool = newPool();
    takeTurns(pool, 10, roundTripUs, runUs / 4);
    expect(wanted(pool, claimed)).toBe(0);
  });

  test("that is idle for a while asks for what its slots can take", () => {
    const pool = newPool();
    takeTurns(pool, 10, roundTripUs);
    for (let look = 1; look <= 30; look++) pool.claimed(1_000_000, look * 1_000_000, roundTripUs);
    expect(wanted(pool, 0)).toBe(100);
  });

  test("that has jobs all the time measures them by that time", () => {
    const pool = newPool();
    for (let each = 0; each < claimed; each++) pool.push({} as Attempt);
    pool.arrived(0);
    for (let look = 1; look <= 30; look++) {
      for (let each = 0; each < 10; each++) pool.take();
      pool.finished(10);
      pool.claimed(1000, look * 1000, 1000);
    }
    pool.takeAll();
    expect(wanted(pool, 0)).toBe(100 + 19);
  });

  test("asks for no more ahead than twice what has finished, however fast that was", () => {
    const pool = newPool(2);
    pool.arrived(0);
    pool.finished(2);
    pool.emptied(1);
    pool.claimed(roundTripUs, roundTripUs, roundTripUs);
    expect(wanted(pool, 0)).toBe(2 + 4);
  });

  test("asks for half of what permits let through, for no more than they leave, and for all once that is not known", () => {
    const pool = newPool();
    takeTurns(pool, 10, roundTripUs);
    pool.givesPermits = true;
    pool.cameShort(100, 100);
    expect(wanted(pool, 0)).toBe(100);
    pool.busySlots = 90;
    expect(wanted(pool, 100)).toBe(0);
    expect(wanted(pool, 20)).toBe(90);
    pool.busySlots = 0;
    pool.cameShort(10, 20);
    expect(wanted(pool, 0)).toBe(30);
    pool.addDemand();
    expect(wanted(pool, 0)).toBe(claimed);
  });
});

test("attempts that were sent ahead to busy slots have not started", () => {
  const names = new Set(["job"]);
  const pool = new Pool({ queue: "default", slots: 2, names, jobsPerSlot: 1, attemptsPerSlot: () => 3 });
  pool.busySlots = 5;
  expect(pool.sentAhead).toBe(3);
  pool.busySlots = 1;
  expect(pool.sentAhead).toBe(0);
  const plain = new Pool({ queue: "default", slots: 2, names, jobsPerSlot: 1 });
  plain.slots = 1;
  plain.busySlots = 2;
  expect(plain.sentAhead).toBe(0);
});
