import fc from "fast-check";
import { expect, test } from "vitest";
import { mintedPartition } from "../job/job-id.ts";
import { firingDue, firingId } from "./firing.ts";
import { readScheduleRule } from "./schedule-rule.ts";

const names = fc.string({ minLength: 1, maxLength: 30 });
const ticks = fc.integer({ min: 0, max: Date.UTC(2100, 0) });

test("the id of a firing is the same in every process and version", () => {
  // Stored data: an id that changed would fire ticks a second time.
  expect(firingId("nightly", Date.UTC(2026, 10, 16, 3))).toBe("0Q7YJ1U0000p6mMWU3ty6");
  expect(firingId("nightly", Date.UTC(2026, 10, 16, 3), 3)).toBe("0Q7YJ1U0003p6mMWU3ty6");
});

test("firings of other schedules, of other ticks and in other partitions have other ids of the minted form", () => {
  fc.assert(
    fc.property(names, names, ticks, fc.nat(1023), (one, other, tick, partition) => {
      const id = firingId(one, tick, partition);
      expect(mintedPartition(id)).toBe(partition);
      expect(firingId(one, tick + 1, partition)).not.toBe(id);
      if (one !== other) expect(firingId(other, tick, partition)).not.toBe(id);
    }),
  );
});

test("ids of firings sort by their ticks", () => {
  fc.assert(
    fc.property(names, names, ticks, ticks, (one, other, early, late) => {
      if (early < late) expect(firingId(one, early) < firingId(other, late)).toBe(true);
    }),
  );
});

test("a hundred thousand names have a hundred thousand ids", () => {
  const ids = new Set(Array.from({ length: 100_000 }, (_, at) => firingId(`tenant-${at}`, 0)));
  expect(ids.size).toBe(100_000);
});

test("a jitter lies between the tick and its bound, and follows from name and tick alone", () => {
  const rule = readScheduleRule({ cron: "0 * * * *", jitter: "5m" }, "schedule");
  fc.assert(
    fc.property(names, ticks, (name, tick) => {
      const due = firingDue(rule, name, tick);
      expect(due).toBeGreaterThanOrEqual(tick);
      expect(due).toBeLessThanOrEqual(tick + 300_000);
      expect(firingDue(rule, name, tick)).toBe(due);
    }),
  );
});

test("a jitter takes every millisecond up to its bound, and none beyond", () => {
  const rule = readScheduleRule({ cron: "0 * * * *", jitter: 3 }, "schedule");
  const dues = new Set(Array.from({ length: 1000 }, (_, at) => firingDue(rule, `tenant-${at}`, 0)));
  expect(dues).toEqual(new Set([0, 1, 2, 3]));
});

test("jitters spread evenly over schedules of one tick, and over ticks of one schedule", () => {
  const rule = readScheduleRule({ cron: "0 * * * *", jitter: "10m" }, "schedule");
  const spread = (dues: number[]): number[] => {
    const tenths = Array.from({ length: 10 }, () => 0);
    for (const due of dues) tenths[Math.min(9, Math.floor(due / 60_000))]! += 1;
    return tenths;
  };
  const byName = spread(Array.from({ length: 10_000 }, (_, at) => firingDue(rule, `tenant-${at}`, 0)));
  const byTick = spread(
    Array.from({ length: 10_000 }, (_, at) => firingDue(rule, "tenant", at * 3_600_000) - at * 3_600_000),
  );
  for (const count of [...byName, ...byTick]) {
    expect(count).toBeGreaterThan(850);
    expect(count).toBeLessThan(1150);
  }
});

test("without a jitter a firing is due at its tick", () => {
  expect(firingDue(readScheduleRule({ cron: "0 * * * *" }, "schedule"), "a", 3_600_000)).toBe(3_600_000);
});
