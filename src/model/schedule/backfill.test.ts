import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { backfillTicksMax, readBackfill, stepBackfill } from "./backfill.ts";
import { readScheduleRule } from "./schedule-rule.ts";
import { ticksBetween } from "./rule-ticks.ts";

const hourly = readScheduleRule({ cron: "0 * * * *", zone: "Europe/Berlin" }, "schedule");
const from = Date.UTC(2026, 2, 28);
const to = Date.UTC(2026, 2, 30);

describe("a backfill", () => {
  test("counts the ticks of its range, the end of the range left out", () => {
    expect(readBackfill({ from: new Date(from), to }, hourly, "backfill")).toEqual({
      from,
      to,
      atOnce: 10,
      next: from,
      done: 0,
      total: 48,
    });
  });

  test("fires every tick of its range once and in order, never more at once than it may", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.infiniteStream(fc.integer({ min: 0, max: 80 })),
        (atOnce, ends) => {
          let backfill = readBackfill({ from, to, atOnce }, hourly, "backfill");
          let alive = 0;
          const fired: number[] = [];
          for (let step = 0; backfill.next !== null && step < 10_000; step++) {
            const taken = stepBackfill(backfill, hourly, alive);
            fired.push(...taken.fire);
            alive += taken.fire.length;
            expect(alive).toBeLessThanOrEqual(atOnce);
            backfill = taken.backfill;
            expect(backfill.done).toBe(fired.length);
            alive = Math.max(0, alive - (ends.next().value as number));
          }
          expect(fired).toEqual(ticksBetween(hourly, { from, to, max: 1000 }).ticks);
          expect(backfill).toMatchObject({ next: null, done: 48, total: 48 });
        },
      ),
    );
  });

  test("that is done fires no more", () => {
    const done = { ...readBackfill({ from, to }, hourly, "backfill"), next: null };
    expect(stepBackfill(done, hourly, 0)).toEqual({ fire: [], backfill: done });
  });

  test("of a range without ticks is done at once", () => {
    expect(readBackfill({ from: from + 1, to: from + 2 }, hourly, "backfill")).toMatchObject({
      next: null,
      total: 0,
    });
  });

  test("of more ticks than anybody can have meant is refused, though a walk over all of them would take hours", () => {
    const rule = readScheduleRule({ cron: "* * * * * *", zone: "Europe/Berlin" }, "schedule");
    expect(() => readBackfill({ from: 0, to: from }, rule, "Backfill")).toThrow(
      `Backfill: the range has more than ${backfillTicksMax} ticks`,
    );
  });

  test.each<[string, object, RegExp]>([
    ["without a range", {}, /from must be a Date/],
    ["that ends before it begins", { from: to, to: from }, /to must come after from/],
    ["of nothing at once", { from, to, atOnce: 0 }, /atOnce must be a whole number from 1 to 500/],
    ["with an unknown option", { from, to, speed: 1 }, /unknown option "speed"/],
  ])("%s is refused", (_title, options, message) => {
    expect(() => readBackfill(options, hourly, "backfill")).toThrow(message);
  });
});
