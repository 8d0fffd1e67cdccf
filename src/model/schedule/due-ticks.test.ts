import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dueTicks, onTimeMs, readMissed } from "./due-ticks.ts";
import type { DueTicks, Missed } from "./due-ticks.ts";
import { firingDue } from "./firing.ts";
import { readScheduleRule } from "./schedule-rule.ts";
import { ticksBetween } from "./rule-ticks.ts";

const hourly = readScheduleRule({ cron: "0 * * * *" }, "schedule");
const everySecond = readScheduleRule({ every: "1s" }, "schedule");
const at = (hour: number, second = 0): number => Date.UTC(2026, 0, 5, hour, 0, second);

describe("the ticks that fire", () => {
  const table: [
    title: string,
    missed: Missed,
    position: number,
    now: number,
    fire: number[],
    skipped: number,
  ][] = [
    ["skip: one on time", "skip", at(5), at(6), [at(6)], 0],
    ["skip: one that is late but not missed", "skip", at(5), at(6, 10), [at(6)], 0],
    ["skip: one that was missed", "skip", at(5), at(6, 11), [], 1],
    ["skip: four that were missed", "skip", at(5), at(9, 30), [], 4],
    ["skip: three that were missed and one on time", "skip", at(5), at(9, 5), [at(9)], 3],
    ["once: one on time", "once", at(5), at(6), [at(6)], 0],
    ["once: one that was missed", "once", at(5), at(6, 11), [at(6)], 0],
    ["once: the newest of four", "once", at(5), at(9, 30), [at(9)], 3],
    ["once: the one on time stands for the missed", "once", at(5), at(9, 5), [at(9)], 3],
    ["all up to 10: all four", { all: 10 }, at(5), at(9, 30), [at(6), at(7), at(8), at(9)], 0],
    ["all up to 2: the newest two of four", { all: 2 }, at(5), at(9, 30), [at(8), at(9)], 2],
    [
      "all up to 2: the newest two of three, and the one on time",
      { all: 2 },
      at(5),
      at(9, 5),
      [at(7), at(8), at(9)],
      1,
    ],
  ];

  test.each(table)("%s", (_title, missed, position, now, fire, skipped) => {
    const due = dueTicks({ name: "a", rule: hourly, missed }, position, now) as DueTicks;
    expect({ fire: due.fire, skipped: due.skipped }).toEqual({ fire, skipped });
    expect(dueTicks({ name: "a", rule: hourly, missed }, due.position, now)).toBeNull();
  });

  test("no tick is due before its time, nor once all are decided", () => {
    expect(dueTicks({ name: "a", rule: hourly, missed: "once" }, at(5), at(6) - 1)).toBeNull();
    expect(dueTicks({ name: "a", rule: hourly, missed: "once" }, at(6), at(6))).toBeNull();
  });

  test("a clock that went back fires nothing again", () => {
    expect(dueTicks({ name: "a", rule: hourly, missed: { all: 9 } }, at(6), at(3))).toBeNull();
  });

  test("decades of missed seconds are decided in one look, though a walk over all of them would take hours", () => {
    const now = Date.UTC(2099, 0);
    const seconds = { name: "a", rule: everySecond, missed: { all: 3 } } as const;
    const due = dueTicks(seconds, 0, now) as DueTicks;
    const last = 3 + onTimeMs / 1000;
    expect(due.fire).toEqual(Array.from({ length: last + 1 }, (_, nth) => now - (last - nth) * 1000));
    expect(due.skipped).toBe(1000);
  });

  test("a rare rule that was missed for decades is decided in one look", () => {
    const rule = readScheduleRule({ cron: "0 0 29 2 *", zone: "Europe/Berlin" }, "schedule");
    const due = dueTicks({ name: "a", rule, missed: "once" }, 0, Date.UTC(2099, 0));
    expect(due).toMatchObject({ fire: [Date.parse("2096-02-28T23:00:00Z")], skipped: 31 });
  });

  test("with looks that come in time every tick fires once and in order, whatever the jitter", () => {
    const rules = fc.constantFrom(
      readScheduleRule({ cron: "*/5 * * * * *" }, "schedule"),
      readScheduleRule({ cron: "*/5 * * * * *", jitter: "1m" }, "schedule"),
      readScheduleRule({ cron: "0 * * * *", zone: "Europe/Berlin", jitter: "10m" }, "schedule"),
      readScheduleRule({ every: "7s", jitter: "6s" }, "schedule"),
    );
    const missed = fc.constantFrom<Missed>("skip", "once", { all: 5 });
    const looks = fc.array(fc.integer({ min: 1, max: onTimeMs }), { minLength: 10, maxLength: 300 });
    fc.assert(
      fc.property(rules, missed, looks, (rule, policy, delays) => {
        const from = at(3);
        let [now, position] = [from, from];
        const fired: number[] = [];
        for (const delayMs of delays) {
          now += delayMs;
          const due = dueTicks({ name: "a", rule, missed: policy }, position, now);
          if (due === null) continue;
          expect(due.skipped).toBe(0);
          for (const tick of due.fire) expect(firingDue(rule, "a", tick)).toBeLessThanOrEqual(now);
          fired.push(...due.fire);
          position = due.position;
        }
        const { ticks } = ticksBetween(rule, { from: from + 1, to: now + 1, max: 10_000 });
        expect(fired).toEqual(ticks.slice(0, fired.length));
        const next = ticks[fired.length];
        if (next !== undefined) expect(firingDue(rule, "a", next)).toBeGreaterThan(now);
      }),
    );
  });
});

describe("the option missed", () => {
  test("is skip, once or all up to a number", () => {
    for (const value of ["skip", "once", { all: 1 }, { all: 500 }])
      expect(readMissed(value, "missed")).toEqual(value);
  });

  test.each(["all", null, undefined, 5, {}, { all: 0 }, { all: 501 }, { all: "5" }, { some: 1 }, []])(
    "is not %j",
    (value) => {
      expect(() => readMissed(value, "Schedule: missed")).toThrow(/^Schedule: missed/);
    },
  );
});
