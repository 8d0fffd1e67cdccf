/**
 * Calendars: days and times of day that cron cannot express, such as every second week, the last working day, or the
 * first Monday of a quarter. A day must match everything that is given.
 *
 *   { at: "09:00", weekdays: ["mon"], every: { weeks: 2, from: "2026-01-05" } }
 *   { at: ["09:00", "17:30"], weekdays: ["mon", "tue", "wed", "thu", "fri"], pick: -1 }    the last working day
 *   { at: "00:30", months: [1, 4, 7, 10], weekdays: ["mon"], pick: 1 }
 *   { at: "23:59:30", days: [-1] }                                                          the last day
 *
 * A checked calendar is JSON with all fields, and passes the check again.
 */
import { MillraceError } from "../error.ts";
import { checkOptions, checkWhole, invalidOption } from "../option.ts";
import { dayMs, weekdayNames, weekdaysOf } from "./month.ts";
import type { Month } from "./month.ts";

export type WeekdayName = (typeof weekdayNames)[number];

export interface CalendarOptions {
  /** Times of day: "03:00", or "03:00:30". */
  at: string | readonly string[];
  /** From 1 to 12. */
  months?: readonly number[] | null;
  /** Days of the month; -1 is its last day, -2 the one before. */
  days?: readonly number[] | null;
  weekdays?: readonly WeekdayName[] | null;
  /** Only these of the month's days that match everything else: 1 is the first, -1 the last. */
  pick?: number | readonly number[] | null;
  /** Only every N days, weeks (from Monday) or months, counted from the one that contains `from`. */
  every?: { days?: number; weeks?: number; months?: number; from: string } | null;
}

/** A checked calendar. */
export interface Calendar {
  readonly at: readonly string[];
  readonly months: readonly number[] | null;
  readonly days: readonly number[] | null;
  readonly weekdays: readonly WeekdayName[] | null;
  readonly pick: readonly number[] | null;
  readonly every: CalendarStep | null;
}

/** One of days, weeks and months. */
interface CalendarStep {
  readonly days?: number;
  readonly weeks?: number;
  readonly months?: number;
  readonly from: string;
}

const timesMax = 100;
const stepMax = 1000;
const timeForm = /^([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/;
const dateForm = /^(\d{4})-(\d\d)-(\d\d)$/;

export function readCalendar(options: unknown, what: string): Calendar {
  const given = checkOptions(options, what, ["at", "months", "days", "weekdays", "pick", "every"]);
  const { at, pick } = given;
  const times = listOf(Array.isArray(at) ? at : [at], `${what}: at`, timesMax).map((time) =>
    readTime(time, `${what}: at`),
  );
  return Object.freeze({
    at: Object.freeze([...new Set(times)].toSorted()),
    months: readNumbers(given["months"], `${what}: months`, 1, 12),
    days: readNumbers(given["days"], `${what}: days`, -31, 31),
    weekdays: readWeekdays(given["weekdays"], `${what}: weekdays`),
    pick: readNumbers(typeof pick === "number" ? [pick] : pick, `${what}: pick`, -31, 31),
    every: readStep(given["every"], `${what}: every`),
  });
}

/** Seconds of the day, sorted. */
export function calendarSeconds({ at }: Calendar): readonly number[] {
  return at.map((time) => {
    const [hours = 0, minutes = 0, seconds = 0] = time.split(":").map(Number);
    return hours * 3600 + minutes * 60 + seconds;
  });
}

/** The days of the month that match, as bits; bit 1 is the first. */
export function calendarDays(calendar: Calendar, of: Month): number {
  const { months, days, weekdays, pick, every } = calendar;
  if (months !== null && !months.includes(of.month)) return 0;
  let bits = of.allDays;
  if (days !== null) bits &= dayBits(days, of.length);
  if (weekdays !== null)
    bits &= weekdaysOf(of, new Set(weekdays.map((weekday) => weekdayNames.indexOf(weekday))));
  if (every !== null) bits &= stepBits(every, of);
  return pick === null ? bits : pickedBits(bits, pick);
}

function dayBits(days: readonly number[], length: number): number {
  let bits = 0;
  for (const day of days) {
    const counted = day > 0 ? day : length + 1 + day;
    if (counted >= 1) bits |= 1 << counted;
  }
  return bits;
}

function stepBits({ days, weeks, months, from }: CalendarStep, of: Month): number {
  const start = new Date(`${from}T00:00:00Z`);
  if (months !== undefined) {
    const passed = (of.year - start.getUTCFullYear()) * 12 + of.month - (start.getUTCMonth() + 1);
    return passed % months === 0 ? of.allDays : 0;
  }
  const unit = days === undefined ? 7 : 1;
  const count = days ?? (weeks as number);
  // Day 0 was a Thursday: three days on, weeks begin on Mondays.
  const numberOf = (day: number): number => Math.floor((unit === 7 ? day + 3 : day) / unit);
  const first = numberOf(start.getTime() / dayMs);
  const dayBefore = Date.UTC(of.year, of.month - 1, 0) / dayMs;
  let bits = 0;
  for (let day = 1; day <= of.length; day++)
    if ((numberOf(dayBefore + day) - first) % count === 0) bits |= 1 << day;
  return bits;
}

function pickedBits(bits: number, pick: readonly number[]): number {
  const days: number[] = [];
  for (let day = 1; day <= 31; day++) if ((bits & (1 << day)) !== 0) days.push(day);
  let picked = 0;
  for (const nth of pick) {
    const day = days.at(nth > 0 ? nth - 1 : nth);
    if (day !== undefined) picked |= 1 << day;
  }
  return picked;
}

function listOf(value: unknown, what: string, max: number): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0 && value.length <= max) return value;
  throw invalidOption(`${what} must be a list of 1 to ${max} values.`);
}

/** Always with seconds, so that one time has one text. */
function readTime(value: unknown, what: string): string {
  const match = typeof value === "string" ? timeForm.exec(value) : null;
  if (match === null)
    throw new MillraceError(
      "invalid-schedule",
      `${what} must be times of day such as "03:00" or "23:59:30".`,
    );
  return `${match[1]}:${match[2]}:${match[3] ?? "00"}`;
}

function readNumbers(value: unknown, what: string, min: number, max: number): readonly number[] | null {
  if (value === undefined || value === null) return null;
  const numbers = listOf(value, what, max - min + 1).map((each) => {
    const number = checkWhole(each, what, min, max);
    if (number === 0) throw invalidOption(`${what}: 0 is none; 1 is the first and -1 the last.`);
    return number;
  });
  return Object.freeze([...new Set(numbers)].toSorted((one, other) => one - other));
}

function readWeekdays(value: unknown, what: string): readonly WeekdayName[] | null {
  if (value === undefined || value === null) return null;
  const given = listOf(value, what, 7);
  for (const name of given)
    if (!weekdayNames.includes(name as WeekdayName))
      throw invalidOption(`${what} must be some of ${weekdayNames.join(", ")}.`);
  return Object.freeze(weekdayNames.filter((name) => given.includes(name)));
}

function readStep(value: unknown, what: string): CalendarStep | null {
  if (value === undefined || value === null) return null;
  const { from, ...counts } = checkOptions(value, what, ["days", "weeks", "months", "from"]);
  const [unit, ...others] = Object.keys(counts).filter((key) => counts[key] !== undefined);
  if (unit === undefined || others.length > 0)
    throw invalidOption(`${what}: give one of days, weeks and months, and from.`);
  const count = checkWhole(counts[unit], `${what}.${unit}`, 1, stepMax);
  return Object.freeze({ [unit]: count, from: readDate(from, `${what}.from`) });
}

function readDate(value: unknown, what: string): string {
  if (typeof value === "string" && dateForm.test(value)) {
    const at = new Date(`${value}T00:00:00Z`);
    // A day that the month does not have rolls over to the next month.
    if (!Number.isNaN(at.getTime()) && at.toISOString().startsWith(value)) return value;
  }
  throw invalidOption(`${what} must be a date such as "2026-01-05".`);
}
