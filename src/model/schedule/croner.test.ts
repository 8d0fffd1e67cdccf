/**
 * The ticks of cron texts against those of croner, in every zone that the runtime knows, over a century and around each
 * change of offset in the years that are looked at. Another seed looks at other years: PROPERTY_SEED=N.
 */
import { Cron } from "croner";
import { expect, test } from "vitest";
import { readScheduleRule } from "./schedule-rule.ts";
import { nextTick } from "./rule-ticks.ts";

const seed = Number(process.env["PROPERTY_SEED"] ?? 1);
const yearsPerZone = 2;
const hourMs = 3_600_000;
/** The longest fold since 1970: croner 11.0.0 passes over all of it. */
const sevenHoursBack = "Antarctica/Vostok 1994";
/** Texts about whose ticks croner and we say the same: one time of day that is not in the last hours, or every hour. */
const texts = [
  "30 2 * * *",
  "0 0 * * *",
  "*/20 * * * *",
  "15 */3 * * *",
  "0 30 21 L * *",
  "7 1 29 2 *",
  "0 12 * * mon#1",
];

test("a cron text has the ticks that croner finds, in every zone and around every change of its offset", () => {
  const different: string[] = [];
  let compared = 0;
  for (const [at, zone] of Intl.supportedValuesOf("timeZone").entries()) {
    const years = Array.from({ length: yearsPerZone }, (_, nth) => 1971 + ((seed + at * 7 + nth * 61) % 125));
    const instants = years
      .filter((year) => `${zone} ${year}` !== sevenHoursBack)
      .flatMap((year) => [Date.UTC(year, (at * 5) % 12, 28, at % 24), ...aroundChanges(zone, year)]);
    for (const cron of texts) {
      const theirs = new Cron(cron, { timezone: zone, paused: true });
      const rule = readScheduleRule({ cron, zone }, "schedule");
      for (const instant of instants) {
        compared++;
        const found = nextTick(rule, instant);
        const expected = theirs.nextRun(new Date(instant))?.getTime() ?? null;
        if (found !== expected)
          different.push(
            `${cron} in ${zone} after ${shown(instant)}: ${shown(found)}, not ${shown(expected)}`,
          );
      }
    }
  }
  expect(different).toEqual([]);
  expect(compared).toBeGreaterThan(10_000);
});

/** Where croner is known to be wrong, so that nobody takes it for the measure there. */
test("a day that matches day or weekday fires on 1 March, which croner 11.0.0 passes over", () => {
  const after = Date.parse("2026-02-24T00:00:00Z");
  const rule = readScheduleRule({ cron: "0 0 1 * 1", zone: "UTC" }, "schedule");
  expect(shown(nextTick(rule, after))).toBe("2026-03-01T00:00:00.000Z");
  const theirs = new Cron("0 0 1 * 1", { timezone: "UTC", paused: true }).nextRun(new Date(after));
  expect(theirs?.toISOString()).toBe("2026-03-02T00:00:00.000Z");
});

test("a cron for every hour goes through a fold of seven hours, which croner 11.0.0 passes over", () => {
  const after = Date.parse("1994-01-31T16:59:00Z");
  const rule = readScheduleRule({ cron: "0 * * * *", zone: "Antarctica/Vostok" }, "schedule");
  expect(shown(nextTick(rule, after))).toBe("1994-01-31T17:00:00.000Z");
  const theirs = new Cron("0 * * * *", { timezone: "Antarctica/Vostok", paused: true }).nextRun(
    new Date(after),
  );
  expect(theirs?.toISOString()).toBe("1994-02-01T00:00:00.000Z");
});

test("a time in a gap that ends at midnight fires then; croner 11.0.0 loses that day", () => {
  const after = Date.parse("2026-03-28T12:00:00Z");
  const rule = readScheduleRule({ cron: "30 23 * * *", zone: "America/Nuuk" }, "schedule");
  expect(shown(nextTick(rule, after))).toBe("2026-03-29T01:00:00.000Z");
  const theirs = new Cron("30 23 * * *", { timezone: "America/Nuuk", paused: true }).nextRun(new Date(after));
  expect(theirs?.toISOString()).toBe("2026-03-30T00:30:00.000Z");
});

/** Instants before, at and after the changes that make two month's beginnings differ in their offset. */
function aroundChanges(zone: string, year: number): number[] {
  const format = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "longOffset" });
  const offsetAt = (at: number): string => format.format(at).replace(/.*GMT/, "");
  const found: number[] = [];
  for (let month = 0; month < 12; month++) {
    let [before, change] = [Date.UTC(year, month), Date.UTC(year, month + 1)];
    const offset = offsetAt(before);
    if (offset === offsetAt(change)) continue;
    while (change - before > 1000) {
      const middle = Math.floor((before + change) / 2000) * 1000;
      if (offsetAt(middle) === offset) before = middle;
      else change = middle;
    }
    found.push(change - 22 * hourMs, change - 60_000, change, change + hourMs / 2, change + hourMs + 400_000);
  }
  return found;
}

function shown(instant: number | null): string {
  return instant === null ? "never" : new Date(instant).toISOString();
}
