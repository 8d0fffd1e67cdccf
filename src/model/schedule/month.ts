/**
 * The days of one month as bits (bit 1 is the first), and which of them are certain weekdays. Cron fields and calendars
 * say by such bits which days match, so a month without a match costs one comparison.
 */

export interface Month {
  readonly year: number;
  /** From 1 to 12. */
  readonly month: number;
  /** How many days it has. */
  readonly length: number;
  /** The weekday of its first day; 0 is Sunday. */
  readonly firstWeekday: number;
  readonly allDays: number;
}

/** One of a month's days of a weekday: the first (1) to the fifth (5), or the last (-1). */
export interface NthWeekday {
  readonly weekday: number;
  readonly nth: number;
}

/** By their numbers; 0 is Sunday. */
export const weekdayNames = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"] as const;
export const dayMs = 86_400_000;
const lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

export function monthOf(year: number, month: number): Month {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const length = month === 2 && isLeap ? 29 : (lengths[month - 1] as number);
  return {
    year,
    month,
    length,
    firstWeekday: new Date(Date.UTC(year, month - 1, 1)).getUTCDay(),
    allDays: (2 ** (length + 1) - 2) | 0,
  };
}

export function weekdaysOf({ length, firstWeekday, allDays }: Month, weekdays: ReadonlySet<number>): number {
  if (weekdays.size === 7) return allDays;
  let bits = 0;
  for (const weekday of weekdays)
    for (let day = 1 + ((weekday - firstWeekday + 7) % 7); day <= length; day += 7) bits |= 1 << day;
  return bits;
}

export function nthWeekdays({ length, firstWeekday }: Month, nths: readonly NthWeekday[]): number {
  let bits = 0;
  for (const { weekday, nth } of nths) {
    const first = 1 + ((weekday - firstWeekday + 7) % 7);
    const day = nth === -1 ? first + 7 * Math.floor((length - first) / 7) : first + 7 * (nth - 1);
    if (day <= length) bits |= 1 << day;
  }
  return bits;
}
