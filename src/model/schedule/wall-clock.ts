/**
 * Wall clock times, in seconds as if the zone were UTC. A rule says which days match and which seconds of a day;
 * `nextWall` finds the next one, month by month and in bounded steps. The zone turns wall clock times into instants.
 */
import { calendarDays, calendarSeconds } from "./calendar.ts";
import type { Calendar } from "./calendar.ts";
import { cronDays } from "./cron.ts";
import type { Cron } from "./cron.ts";
import { monthOf } from "./month.ts";
import type { Month } from "./month.ts";

export interface WallRule {
  /** The matching days as bits; bit 1 is the first of the month. */
  daysOf(month: Month): number;
  /** The first matching second of a day at or after this one; null for none. */
  secondFrom(second: number): number | null;
  /**
   * Whether the rule is about elapsed time: it then also matches both passes of an hour that comes twice. Otherwise it
   * names times of day, each of which comes once a day.
   */
  readonly isHourly: boolean;
}

export const daySeconds = 86_400;
/**
 * Eighty years: the rarest days that a rule can name, such as a 29 February on a Monday, are at most forty apart. A
 * rule without a match in that time has none.
 */
const monthsAheadMax = 80 * 12;

export function wallsOfCron(cron: Cron): WallRule {
  const { hours, minutes, seconds, isHourly } = cron;
  const firstOfHour = (minutes[0] as number) * 60 + (seconds[0] as number);
  const inHour = (from: number): number | null => {
    const minute = Math.floor(from / 60);
    for (const each of minutes) {
      if (each < minute) continue;
      const found = seconds.find((value) => each > minute || value >= from % 60);
      if (found !== undefined) return each * 60 + found;
    }
    return null;
  };
  return {
    daysOf: (month) => cronDays(cron, month),
    secondFrom: (second) => {
      const hour = Math.floor(second / 3600);
      for (const each of hours) {
        if (each < hour) continue;
        const found = each > hour ? firstOfHour : inHour(second % 3600);
        if (found !== null) return each * 3600 + found;
      }
      return null;
    },
    isHourly,
  };
}

export function wallsOfCalendar(calendar: Calendar): WallRule {
  const times = calendarSeconds(calendar);
  return {
    daysOf: (month) => calendarDays(calendar, month),
    secondFrom: (second) => times.find((time) => time >= second) ?? null,
    isHourly: false,
  };
}

/** The first wall clock time at or after this one that matches; null for none within eighty years. */
export function nextWall(rule: WallRule, from: number): number | null {
  const midnight = Math.floor(from / daySeconds) * daySeconds;
  const date = new Date(midnight * 1000);
  const today = date.getUTCDate();
  let month = monthOf(date.getUTCFullYear(), date.getUTCMonth() + 1);
  let bits = rule.daysOf(month);
  if ((bits & (1 << today)) !== 0) {
    const second = rule.secondFrom(from - midnight);
    if (second !== null) return midnight + second;
  }
  bits &= -2 << today;
  for (let passed = 0; bits === 0; passed++) {
    if (passed === monthsAheadMax) return null;
    month = month.month === 12 ? monthOf(month.year + 1, 1) : monthOf(month.year, month.month + 1);
    bits = rule.daysOf(month);
  }
  const day = 31 - Math.clz32(bits & -bits);
  return Date.UTC(month.year, month.month - 1, day) / 1000 + (rule.secondFrom(0) as number);
}
