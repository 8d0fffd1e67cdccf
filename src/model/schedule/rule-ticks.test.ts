import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readScheduleRule } from "./schedule-rule.ts";
import type { ScheduleRule, ScheduleRuleOptions } from "./schedule-rule.ts";
import { lastTick, nextTick, ticksBetween } from "./rule-ticks.ts";

const zones = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "Australia/Lord_Howe",
  "Asia/Kathmandu",
  "Pacific/Apia",
  "America/Nuuk",
  "America/Sao_Paulo",
  "Africa/Casablanca",
  "Asia/Tokyo",
];

const rules: fc.Arbitrary<ScheduleRule> = fc
  .oneof(
    fc.record({
      cron: fc.constantFrom(
        "30 2 * * *",
        "*/15 * * * *",
        "*/15 2 * * *",
        "0 0 29 2 *",
        "0 0 L * *",
        "59 23 31 12 *",
        "0 0 13 * fri",
        "*/7 30 1-3 * * *",
        "15 10 2 * * sun#1",
        "0 */5 * * *",
        "0 0 * * *",
      ),
      zone: fc.constantFrom(...zones),
    }),
    fc.record({
      calendar: fc.record({
        at: fc.constantFrom<string | string[]>("02:30", ["00:00", "12:15:30", "23:59:59"]),
        pick: fc.constantFrom(null, -1, [1, 3]),
        weekdays: fc.constantFrom(null, ["mon" as const], ["sat" as const, "sun" as const]),
        every: fc.constantFrom(null, { weeks: 2, from: "2026-01-07" }, { days: 3, from: "2026-01-01" }),
      }),
      zone: fc.constantFrom(...zones),
    }),
    fc.record({
      every: fc.integer({ min: 1000, max: 10_000_000_000 }),
      anchor: fc.integer({ min: 0, max: 4e12 }),
    }),
  )
  .map((options) => readScheduleRule(options, "schedule"));

const instant = fc.integer({ min: 0, max: Date.UTC(2105, 0) });

describe("ticks", () => {
  test("the next tick comes after the instant, and none lies between them", () => {
    fc.assert(
      fc.property(rules, instant, fc.double({ min: 0, max: 1, noNaN: true }), (rule, after, part) => {
        const tick = nextTick(rule, after) as number;
        expect(tick).toBeGreaterThan(after);
        const between = after + Math.floor((tick - 1 - after) * part);
        expect(nextTick(rule, between)).toBe(tick);
      }),
      { numRuns: 500 },
    );
  });

  test("the ticks of a range are those of asking for the next one again and again", () => {
    fc.assert(
      fc.property(rules, instant, fc.integer({ min: 1, max: 40 }), (rule, from, max) => {
        const walked: number[] = [];
        for (let tick = nextTick(rule, from - 1); walked.length <= max; tick = nextTick(rule, tick as number))
          walked.push(tick as number);
        const to = walked.at(-1) as number;
        expect(ticksBetween(rule, { from, to, max: 1000 })).toEqual({
          ticks: walked.slice(0, -1),
          next: null,
        });
        expect(ticksBetween(rule, { from, to: to + 1, max })).toEqual({
          ticks: walked.slice(0, -1),
          next: to,
        });
      }),
      { numRuns: 100 },
    );
  });

  test("the last tick up to an instant is the one after which none comes until then", () => {
    fc.assert(
      fc.property(rules, instant, fc.integer({ min: 0, max: 30 * 86_400_000 }), (rule, after, lengthMs) => {
        const upTo = after + lengthMs;
        const last = lastTick(rule, { after, upTo });
        const next = nextTick(rule, last ?? after) as number;
        expect(next).toBeGreaterThan(upTo);
        if (last !== null) {
          expect(last).toBeGreaterThan(after);
          expect(last).toBeLessThanOrEqual(upTo);
          expect(nextTick(rule, last - 1)).toBe(last);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("a cron for every hour has exactly the seconds whose wall clock matches, in a century of days with a change", () => {
    for (const zone of zones) {
      const rule = readScheduleRule({ cron: "*/10 */2 * * *", zone }, "schedule");
      for (const day of daysWithChange(zone)) {
        const to = day + 86_400_000;
        const expected: number[] = [];
        for (let at = day; at < to; at += 60_000) {
          const { hour, minute } = clockOf(zone, at);
          if (hour % 2 === 0 && minute % 10 === 0) expected.push(at);
        }
        expect({ zone, ticks: ticksBetween(rule, { from: day, to, max: 1000 }).ticks }).toEqual({
          zone,
          ticks: expected,
        });
      }
    }
  });
});

describe("where a zone changes its offset", () => {
  const cases: [title: string, options: ScheduleRuleOptions, after: string, ticks: string[]][] = [
    [
      "a time of day in the gap comes at its end",
      { cron: "30 2 * * *", zone: "Europe/Berlin" },
      "2026-03-28T12:00Z",
      ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    ],
    [
      "asked just before the end of the gap, a time of day in it comes at its end",
      { cron: "30 2 * * *", zone: "Europe/Berlin" },
      "2026-03-29T00:59:59.999Z",
      ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    ],
    [
      "several times of day in the gap come once, at its end",
      { cron: "*/15 2,3 * * *", zone: "Europe/Berlin" },
      "2026-03-28T12:00Z",
      ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z", "2026-03-29T01:45:00Z"],
    ],
    [
      "a time of day that comes twice fires the first time",
      { cron: "30 2 * * *", zone: "Europe/Berlin" },
      "2026-10-24T12:00Z",
      ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
    ],
    [
      "several times of day that come twice fire the first time",
      { cron: "0,30 2,3 * * *", zone: "Europe/Berlin" },
      "2026-10-24T12:00Z",
      ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"],
    ],
    [
      "asked in the second of two equal hours, times of day wait for the hour after",
      { cron: "* 2,3 * * *", zone: "Europe/Berlin" },
      "2026-10-25T01:20Z",
      ["2026-10-25T02:00:00Z", "2026-10-25T02:01:00Z"],
    ],
    [
      "asked in the second of two equal hours, every second of a named hour waits as well",
      { cron: "* * 2,3 * * *", zone: "Europe/Berlin" },
      "2026-10-25T01:00Z",
      ["2026-10-25T02:00:00Z", "2026-10-25T02:00:01Z"],
    ],
    [
      "a cron for every hour of a day months away has that day's offset",
      { cron: "0 * 1 7 *", zone: "Europe/Berlin" },
      "2026-01-15T00:00Z",
      ["2026-06-30T22:00:00Z", "2026-06-30T23:00:00Z"],
    ],
    [
      "a cron for every hour of a day shortly after a change has that day's offset",
      { cron: "0 * * * mon", zone: "Europe/Berlin" },
      "2026-10-23T23:30Z",
      ["2026-10-25T23:00:00Z", "2026-10-26T00:00:00Z"],
    ],
    [
      "a cron for every hour goes through the hour that comes twice",
      { cron: "0 * * * *", zone: "America/New_York" },
      "2026-11-01T04:30Z",
      ["2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"],
    ],
    [
      "a cron for every hour passes over the gap",
      { cron: "30 * * * *", zone: "America/New_York" },
      "2026-03-08T05:45Z",
      ["2026-03-08T06:30:00Z", "2026-03-08T07:30:00Z", "2026-03-08T08:30:00Z"],
    ],
    [
      "hours that are all named are every hour",
      { cron: "30 0-23 * * *", zone: "America/New_York" },
      "2026-11-01T04:45Z",
      ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"],
    ],
    [
      "a gap of half an hour ends half an hour later (Lord Howe)",
      { cron: "15 2 * * *", zone: "Australia/Lord_Howe" },
      "2026-10-03T00:00Z",
      ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
    ],
    [
      "half an hour that comes twice (Lord Howe)",
      { cron: "*/10 * * * *", zone: "Australia/Lord_Howe" },
      "2026-04-04T14:45Z",
      ["2026-04-04T14:50:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:10:00Z", "2026-04-04T15:20:00Z"],
    ],
    [
      "an offset of 5:45 (Kathmandu)",
      { cron: "0 0 * * *", zone: "Asia/Kathmandu" },
      "2026-01-01T00:00Z",
      ["2026-01-01T18:15:00Z", "2026-01-02T18:15:00Z"],
    ],
    [
      "a day that the zone left out has no ticks (Apia, 30 December 2011)",
      { cron: "0 12 * * *", zone: "Pacific/Apia" },
      "2011-12-29T00:00Z",
      ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"],
    ],
    [
      "the midnight that ends the day that the zone left out is a tick",
      { cron: "0 0 * * *", zone: "Pacific/Apia" },
      "2011-12-29T00:00Z",
      ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"],
    ],
    [
      "a cron for every hour passes over the day that the zone left out",
      { cron: "0 */12 * * *", zone: "Pacific/Apia" },
      "2011-12-29T12:00Z",
      ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
    ],
    [
      "a midnight in the gap comes at one o'clock of the same day (São Paulo)",
      { calendar: { at: "00:00" }, zone: "America/Sao_Paulo" },
      "2018-11-03T12:00Z",
      ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"],
    ],
    [
      "a gap that ends at midnight (Nuuk)",
      { calendar: { at: "23:30" }, zone: "America/Nuuk" },
      "2026-03-28T12:00Z",
      ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    ],
    [
      "every counts time that passes",
      { every: "12h", anchor: Date.UTC(2026, 2, 28, 1, 30) },
      "2026-03-28T12:00Z",
      ["2026-03-28T13:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T13:30:00Z"],
    ],
  ];

  test.each(cases)("%s", (_title, options, after, ticks) => {
    expect(ticksAfter(options, after, ticks.length)).toEqual(ticks);
  });
});

describe("the calendar's edges", () => {
  const cases: [title: string, options: ScheduleRuleOptions, after: string, ticks: string[]][] = [
    [
      "29 February passes over 2100",
      { cron: "0 0 29 2 *" },
      "2092-03-01T00:00Z",
      ["2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"],
    ],
    [
      "a 29 February on a Monday is forty years away around 2100",
      { calendar: { at: "00:00", months: [2], days: [29], weekdays: ["mon"] } },
      "2072-03-01T00:00Z",
      ["2112-02-29T00:00:00Z"],
    ],
    [
      "the last day of each month, in a leap year",
      { cron: "0 12 L * *", zone: "Europe/Berlin" },
      "2028-01-15T00:00Z",
      ["2028-01-31T11:00:00Z", "2028-02-29T11:00:00Z", "2028-03-31T10:00:00Z", "2028-04-30T10:00:00Z"],
    ],
    [
      "the turn of the century",
      { cron: "59 59 23 31 12 *" },
      "2099-06-01T00:00Z",
      ["2099-12-31T23:59:59Z", "2100-12-31T23:59:59Z"],
    ],
    [
      "the last second of the last year",
      { cron: "59 59 23 31 12 *" },
      "9999-06-01T00:00Z",
      ["9999-12-31T23:59:59Z"],
    ],
  ];

  test.each(cases)("%s", (_title, options, after, ticks) => {
    expect(ticksAfter(options, after, ticks.length)).toEqual(ticks);
  });

  test("no tick comes after the year 9999, and before 1970 there was none", () => {
    const rule = readScheduleRule({ cron: "* * * * *" }, "schedule");
    expect(nextTick(rule, Date.parse("9999-12-31T23:59:59Z"))).toBeNull();
    expect(nextTick(rule, Infinity)).toBeNull();
    expect(nextTick(rule, -1e15)).toBe(0);
  });

  test("start belongs to the ticks, end does not", () => {
    const [start, end] = [Date.UTC(2026, 0, 2), Date.UTC(2026, 0, 4)];
    const rule = readScheduleRule({ cron: "0 0 * * *", start, end }, "schedule");
    expect(ticksBetween(rule, { from: 0, to: Infinity, max: 10 }).ticks).toEqual([
      start,
      Date.UTC(2026, 0, 3),
    ]);
  });
});

function ticksAfter(options: ScheduleRuleOptions, after: string, max: number): string[] {
  const rule = readScheduleRule(options, "schedule");
  const { ticks } = ticksBetween(rule, { from: Date.parse(after) + 1, to: Infinity, max });
  return ticks.map((tick) => new Date(tick).toISOString().replace(".000Z", "Z"));
}

/** Days of UTC in every seventh year from 1971 on, whose offset is not the same all day. */
function daysWithChange(zone: string): number[] {
  const days: number[] = [];
  for (let year = 1971; year < 2071; year += 7)
    for (let day = Date.UTC(year, 0); day < Date.UTC(year + 1, 0); day += 86_400_000) {
      const [one, other] = [clockOf(zone, day), clockOf(zone, day + 86_400_000)];
      if (one.hour !== other.hour || one.minute !== other.minute) days.push(day);
    }
  return days;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** What the clock on the wall shows, by another way than the one that is tested. */
function clockOf(zone: string, at: number): { hour: number; minute: number } {
  const format =
    formats.get(zone) ??
    new Intl.DateTimeFormat("en-GB", {
      timeZone: zone,
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
    });
  formats.set(zone, format);
  const [hour = 0, minute = 0] = format.format(at).split(":").map(Number);
  return { hour, minute };
}
