import { describe, expect, test } from "vitest";
import type { CalendarOptions } from "./calendar.ts";
import { readScheduleRule } from "./schedule-rule.ts";
import { ticksBetween } from "./rule-ticks.ts";

const workdays = ["mon", "tue", "wed", "thu", "fri"] as const;

function ticksOf(calendar: CalendarOptions, max: number): string[] {
  const rule = readScheduleRule({ calendar }, "schedule");
  const { ticks } = ticksBetween(rule, { from: Date.UTC(2026, 0), to: Date.UTC(2036, 0), max });
  return ticks.map((tick) => new Date(tick).toISOString().slice(0, 16).replace("T", " "));
}

describe("a calendar", () => {
  const read: [title: string, calendar: CalendarOptions, ticks: string[]][] = [
    ["of a time alone is every day", { at: "09:00" }, ["2026-01-01 09:00", "2026-01-02 09:00"]],
    [
      "of several times has them in order, each once",
      { at: ["17:30", "09:00", "17:30:00"] },
      ["2026-01-01 09:00", "2026-01-01 17:30", "2026-01-02 09:00"],
    ],
    [
      "of weekdays",
      { at: "09:00", weekdays: ["sun", "sat"] },
      ["2026-01-03 09:00", "2026-01-04 09:00", "2026-01-10 09:00"],
    ],
    [
      "of the last day",
      { at: "23:00", days: [-1] },
      ["2026-01-31 23:00", "2026-02-28 23:00", "2026-03-31 23:00"],
    ],
    [
      "of days of which some months have none",
      { at: "00:00", days: [31] },
      ["2026-01-31 00:00", "2026-03-31 00:00"],
    ],
    [
      "of days counted from the end of which some months have none",
      { at: "00:00", days: [-31] },
      ["2026-01-01 00:00", "2026-03-01 00:00"],
    ],
    [
      "of the last working day",
      { at: "18:00", weekdays: workdays, pick: -1 },
      ["2026-01-30 18:00", "2026-02-27 18:00", "2026-03-31 18:00"],
    ],
    [
      "of the first Monday of each quarter",
      { at: "08:00", months: [1, 4, 7, 10], weekdays: ["mon"], pick: 1 },
      ["2026-01-05 08:00", "2026-04-06 08:00", "2026-07-06 08:00"],
    ],
    [
      "of the second and the last Friday",
      { at: "08:00", weekdays: ["fri"], pick: [2, -1] },
      ["2026-01-09 08:00", "2026-01-30 08:00", "2026-02-13 08:00"],
    ],
    [
      "of a Friday that must be the 13th",
      { at: "13:13", days: [13], weekdays: ["fri"] },
      ["2026-02-13 13:13", "2026-03-13 13:13", "2026-11-13 13:13"],
    ],
    [
      "of every second week from a Wednesday on counts whole weeks",
      { at: "09:00", weekdays: ["mon", "fri"], every: { weeks: 2, from: "2026-01-07" } },
      ["2026-01-05 09:00", "2026-01-09 09:00", "2026-01-19 09:00", "2026-01-23 09:00"],
    ],
    [
      "of every second week has weeks that end on Sunday",
      { at: "09:00", weekdays: ["sun"], every: { weeks: 2, from: "2026-01-07" } },
      ["2026-01-11 09:00", "2026-01-25 09:00"],
    ],
    [
      "of every tenth day goes on over the ends of months",
      { at: "00:00", every: { days: 10, from: "2026-01-25" } },
      ["2026-01-05 00:00", "2026-01-15 00:00", "2026-01-25 00:00", "2026-02-04 00:00"],
    ],
    [
      "of every fifth month goes on over the ends of years",
      { at: "00:00", days: [1], every: { months: 5, from: "2027-03-31" } },
      ["2026-05-01 00:00", "2026-10-01 00:00", "2027-03-01 00:00", "2027-08-01 00:00"],
    ],
  ];

  test.each(read)("%s", (_title, calendar, ticks) => {
    expect(ticksOf(calendar, ticks.length)).toEqual(ticks);
  });

  test.each(read)("%s, and is frozen JSON that reads as itself", (_title, calendar) => {
    const rule = readScheduleRule({ calendar }, "schedule");
    expect(Object.isFrozen(rule.calendar)).toBe(true);
    expect(readScheduleRule(JSON.parse(JSON.stringify(rule)), "schedule")).toEqual(rule);
  });

  const refused: [title: string, calendar: unknown, message: RegExp][] = [
    ["no time", {}, /at must be times of day/],
    ["an empty list of times", { at: [] }, /at must be a list of 1 to 100 values/],
    ["a time that is none", { at: "24:00" }, /at must be times of day such as "03:00"/],
    ["an hour of one digit", { at: "9:00" }, /at must be times of day/],
    ["a day 0", { at: "09:00", days: [0] }, /days: 0 is none/],
    ["a day 32", { at: "09:00", days: [32] }, /days must be a whole number from -31 to 31/],
    ["a month 13", { at: "09:00", months: [13] }, /months must be a whole number from 1 to 12/],
    ["a weekday of another language", { at: "09:00", weekdays: ["mo"] }, /weekdays must be some of sun, mon/],
    [
      "two steps",
      { at: "09:00", every: { days: 1, weeks: 1, from: "2026-01-01" } },
      /give one of days, weeks and months/,
    ],
    ["a step without a beginning", { at: "09:00", every: { days: 2 } }, /every.from must be a date/],
    [
      "a step from a day that is none",
      { at: "09:00", every: { days: 2, from: "2026-02-30" } },
      /every.from must be a date/,
    ],
    [
      "a step of 0",
      { at: "09:00", every: { days: 0, from: "2026-01-01" } },
      /every.days must be a whole number from 1/,
    ],
    ["30 February", { at: "09:00", months: [2], days: [30] }, /never fires: no such day comes/],
    ["a sixth Monday", { at: "09:00", weekdays: ["mon"], pick: 6 }, /never fires: no such day comes/],
    ["an unknown option", { at: "09:00", day: 1 }, /unknown option "day"/],
  ];

  test.each(refused)("with %s is refused", (_title, calendar, message) => {
    expect(() => readScheduleRule({ calendar }, "schedule")).toThrow(message);
  });
});
