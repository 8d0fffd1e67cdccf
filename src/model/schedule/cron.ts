// Cron texts: five fields (minute hour day month weekday), or six, beginning with the second.
//
//   *  7  1-5  1-20/5  */10  1,15,20-25  jan  mon     in any field; `?` is `*` for day and weekday
//   L            day: the last of the month
//   fri#2  5L    weekday: the second, the last of the month; 0 and 7 are Sunday
//   @hourly @daily @midnight @weekly @monthly @yearly @annually
//
// If day and weekday are both restricted, a day that matches either counts. A field that begins with `*` is not
// restricted. Every text is read in one pass over at most 256 characters, and an error names the field.
import { MillraceError } from "../error.ts";
import { nthWeekdays, weekdayNames, weekdaysOf } from "./month.ts";
import type { Month, NthWeekday } from "./month.ts";

export interface Cron {
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly months: ReadonlySet<number>;
  /** Bit 1 for the first of the month. */
  readonly dayBits: number;
  readonly hasLastDay: boolean;
  readonly weekdays: ReadonlySet<number>;
  readonly nths: readonly NthWeekday[];
  /** Whether a day must match one of the two fields; else it must match both. */
  readonly isEither: boolean;
  /** The hour is `*` or a step of it: the rule is about elapsed time, not about times of day. */
  readonly isHourly: boolean;
}

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}

const textMax = 256;
const monthNames = "jan feb mar apr may jun jul aug sep oct nov dec".split(" ");

const second: Field = { name: "second", min: 0, max: 59 };
const minute: Field = { name: "minute", min: 0, max: 59 };
const hour: Field = { name: "hour", min: 0, max: 23 };
const day: Field = { name: "day", min: 1, max: 31 };
const month: Field = { name: "month", min: 1, max: 12, names: ["", ...monthNames] };
const weekday: Field = { name: "weekday", min: 0, max: 7, names: weekdayNames };

const nicknames: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};

/** The fields of a cron text; a rule keeps them joined by one space. */
export function cronFields(text: unknown, what: string): readonly string[] {
  if (typeof text !== "string") throw invalid(what, 'must be a text such as "0 3 * * *"');
  if (text.length > textMax) throw invalid(what, `is longer than ${textMax} characters`);
  const trimmed = text.trim();
  const nickname = trimmed.toLowerCase();
  const known = Object.hasOwn(nicknames, nickname) ? (nicknames[nickname] as string) : trimmed;
  if (known.startsWith("@"))
    throw invalid(what, `${shown(known)} is not one of ${Object.keys(nicknames).join(", ")}`);
  const fields = known.split(/[ \t]+/);
  if (known !== "" && (fields.length === 5 || fields.length === 6)) return fields;
  const count = known === "" ? 0 : fields.length;
  throw invalid(
    what,
    `${shown(text)} has ${count} ${count === 1 ? "field" : "fields"}; give 5 (minute hour day month weekday), or 6 with the second in front`,
  );
}

export function readCron(text: unknown, what: string): Cron {
  const fields = cronFields(text, what);
  const texts = fields.length === 6 ? fields : ["0", ...fields];
  const [seconds, minutes, hours, days, months, weekdays] = texts as [
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  /** The field's number in the text as it was written, for errors. */
  const reader = (at: number): Reader => ({ what, number: at + fields.length - 5 });
  const hourValues = valuesOf(hours, hour, reader(1));
  const { rest: dayTexts, hasLastDay } = takeLastDay(days);
  const { rest: weekdayTexts, nths } = takeNths(weekdays, reader(4));
  return {
    seconds: valuesOf(seconds, second, reader(-1)),
    minutes: valuesOf(minutes, minute, reader(0)),
    hours: hourValues,
    months: new Set(valuesOf(months, month, reader(3))),
    dayBits: (dayTexts === "" ? [] : valuesOf(dayTexts, day, reader(2))).reduce(
      (bits, value) => bits | (1 << value),
      0,
    ),
    hasLastDay,
    weekdays: new Set(
      (weekdayTexts === "" ? [] : valuesOf(weekdayTexts, weekday, reader(4))).map((value) => value % 7),
    ),
    nths,
    isEither: !isOpen(days) && !isOpen(weekdays),
    isHourly: isOpen(hours) || hourValues.length === 24,
  };
}

/** The days of the month that match, as bits; bit 1 is the first. */
export function cronDays(cron: Cron, of: Month): number {
  if (!cron.months.has(of.month)) return 0;
  const days = (cron.dayBits | (cron.hasLastDay ? 1 << of.length : 0)) & of.allDays;
  const weekdays = weekdaysOf(of, cron.weekdays) | nthWeekdays(of, cron.nths);
  return cron.isEither ? days | weekdays : days & weekdays;
}

function isOpen(text: string): boolean {
  return text.startsWith("*") || text.startsWith("?");
}

interface Reader {
  readonly what: string;
  readonly number: number;
}

/** Sorted, without repeats. */
function valuesOf(text: string, field: Field, reader: Reader): readonly number[] {
  const values = new Set<number>();
  for (const item of text.split(",")) {
    const [range = "", stepText, ...more] = item.split("/");
    if (item === "" || more.length > 0)
      throw wrong(reader, field, item, item === "" ? "an item of the list is empty" : "it has two steps");
    const { from, to } = rangeOf(range, field, reader, item);
    const step = stepText === undefined ? 1 : stepOf(stepText, field, reader, item);
    if (stepText !== undefined && from === to && !isOpen(range))
      throw wrong(reader, field, item, `a step needs a range: write ${range}-${field.max}/${stepText}`);
    for (let value = from; value <= to; value += step) values.add(value);
  }
  return [...values].toSorted((one, other) => one - other);
}

function rangeOf(
  range: string,
  field: Field,
  reader: Reader,
  item: string,
): { readonly from: number; readonly to: number } {
  // A weekday goes to 7 in a range, so that fri-sun is valid, and to 6 with a star: seven days.
  if (range === "*" || (range === "?" && (field === day || field === weekday)))
    return { from: field.min, to: field === weekday ? 6 : field.max };
  const [fromText = "", toText, ...more] = range.split("-");
  if (more.length > 0) throw wrong(reader, field, item, "it has two ranges");
  const from = valueOf(fromText, field, reader, item);
  if (toText === undefined) return { from, to: from };
  const end = valueOf(toText, field, reader, item);
  const to = field === weekday && end === 0 && from > 0 ? 7 : end;
  if (to < from) throw wrong(reader, field, item, "the range ends before it begins; write it as two");
  return { from, to };
}

function stepOf(text: string, field: Field, reader: Reader, item: string): number {
  const step = /^\d{1,2}$/.test(text) ? Number(text) : 0;
  const most = field.max - field.min;
  if (step >= 1 && step <= most) return step;
  throw wrong(reader, field, item, `a step is a whole number from 1 to ${most}`);
}

function valueOf(text: string, field: Field, reader: Reader, item: string): number {
  const named = field.names?.indexOf(text.toLowerCase()) ?? -1;
  if (named >= 0 && text !== "") return named;
  const value = /^\d{1,2}$/.test(text) ? Number(text) : -1;
  if (value >= field.min && value <= field.max) return value;
  const names = field.names === undefined ? "" : ` or a name such as ${field.names[1]}`;
  throw wrong(reader, field, item, `give a number from ${field.min} to ${field.max}${names}`);
}

function takeLastDay(text: string): { readonly rest: string; readonly hasLastDay: boolean } {
  const items = text.split(",");
  const rest = items.filter((item) => item.toLowerCase() !== "l");
  return { rest: rest.join(","), hasLastDay: rest.length < items.length };
}

/** The items such as fri#2 and 5L, and the text of the others. */
function takeNths(
  text: string,
  reader: Reader,
): { readonly rest: string; readonly nths: readonly NthWeekday[] } {
  const rest: string[] = [];
  const nths: NthWeekday[] = [];
  for (const item of text.split(",")) {
    const match = /^([a-z]{3}|\d)(?:#(\d)|(l))$/i.exec(item);
    if (match === null) {
      rest.push(item);
      continue;
    }
    const nth = match[3] === undefined ? Number(match[2]) : -1;
    if (nth === 0 || nth > 5)
      throw wrong(reader, weekday, item, "a month has the first to the fifth of a weekday");
    nths.push({ weekday: valueOf(match[1] as string, weekday, reader, item) % 7, nth });
  }
  return { rest: rest.join(","), nths };
}

function wrong({ what, number }: Reader, { name }: Field, item: string, problem: string): MillraceError {
  return invalid(what, `field ${number + 1} (${name}), ${shown(item)}: ${problem}`);
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 80));
}

function invalid(what: string, problem: string): MillraceError {
  return new MillraceError("invalid-schedule", `${what}: ${problem}.`);
}
