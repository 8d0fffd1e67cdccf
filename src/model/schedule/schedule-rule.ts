/**
 * A schedule's rule: when it fires. Exactly one of cron, every and calendar is given; start and end bound it, limit
 * counts firings, jitter spreads them.
 *
 * A checked rule is frozen JSON with all fields (null for absent ones), and passes the check again: one function checks
 * both stored rules and rules of users. Every mistake that can be known is refused here, also a rule that would never
 * fire.
 */
import { durationMs } from "../duration.ts";
import type { Duration } from "../duration.ts";
import { MillraceError } from "../error.ts";
import { readInstant } from "../instant.ts";
import { checkOptions, checkWhole, invalidOption } from "../option.ts";
import { readCalendar } from "./calendar.ts";
import type { Calendar, CalendarOptions } from "./calendar.ts";
import { cronFields, readCron } from "./cron.ts";
import { nextTick } from "./rule-ticks.ts";
import { checkZone } from "./zone.ts";

export interface ScheduleRuleOptions {
  /** Five fields (minute hour day month weekday), or six, beginning with the second. */
  cron?: string | null;
  /** The interval between ticks, counted from `anchor`; at least a second. */
  every?: Duration | null;
  /** Days and times of day. */
  calendar?: CalendarOptions | null;
  /** The IANA time zone of cron and calendar; "UTC" by default, whatever zone a process runs in. */
  zone?: string | null;
  /** A tick of `every`, from which the others are counted; `start` by default, else 1970. */
  anchor?: Date | number | null;
  /** No tick before it. */
  start?: Date | number | null;
  /** No tick at or after it. */
  end?: Date | number | null;
  /** The maximum number of firings in the life of the schedule. */
  limit?: number | null;
  /** The maximum delay of a firing after its tick: at most an hour, and equal in every process. */
  jitter?: Duration | null;
}

/** A checked rule; durations and instants in milliseconds. */
export interface ScheduleRule {
  readonly cron: string | null;
  readonly every: number | null;
  readonly calendar: Calendar | null;
  readonly zone: string | null;
  readonly anchor: number | null;
  readonly start: number | null;
  readonly end: number | null;
  readonly limit: number | null;
  readonly jitter: number | null;
}

export const ruleKeys: readonly (keyof ScheduleRule)[] = [
  "cron",
  "every",
  "calendar",
  "zone",
  "anchor",
  "start",
  "end",
  "limit",
  "jitter",
];
const everyMinMs = 1000;
const jitterMaxMs = 3_600_000;
const limitMax = 1_000_000_000;

export function readScheduleRule(options: unknown, what: string): ScheduleRule {
  const given = checkOptions(options, what, ruleKeys);
  const read = <Value>(key: keyof ScheduleRule, check: (value: unknown, of: string) => Value): Value | null =>
    given[key] === undefined || given[key] === null ? null : check(given[key], `${what}: ${key}`);
  const cron = read("cron", (value, of) => cronFields(value, of).join(" "));
  const every = read("every", readEvery);
  const calendar = read("calendar", readCalendar);
  if ([cron, every, calendar].filter((one) => one !== null).length !== 1)
    throw invalidOption(`${what}: give one of cron, every and calendar.`);
  const zone = read("zone", checkZone);
  const anchor = read("anchor", readInstant);
  if (every !== null && zone !== null)
    throw invalidOption(
      `${what}: every counts time that passes, so it has no zone; for days of a zone give a calendar.`,
    );
  if (every === null && anchor !== null) throw invalidOption(`${what}: only every has an anchor.`);
  if (cron !== null) readCron(cron, `${what}: cron`);
  const start = read("start", readInstant);
  const rule: ScheduleRule = Object.freeze({
    cron,
    every,
    calendar,
    zone: every === null ? (zone ?? "UTC") : null,
    anchor: every === null ? null : (anchor ?? start ?? 0),
    start,
    end: read("end", readInstant),
    limit: read("limit", (value, of) => checkWhole(value, of, 1, limitMax)),
    jitter: read("jitter", readJitter),
  });
  checkFires(rule, what);
  return rule;
}

function readEvery(value: unknown, what: string): number {
  const ms = durationMs(value, what);
  if (ms >= everyMinMs) return ms;
  throw new MillraceError("invalid-schedule", `${what} must be a second or longer.`);
}

function readJitter(value: unknown, what: string): number {
  const ms = durationMs(value, what);
  if (ms <= jitterMaxMs) return ms;
  throw invalidOption(`${what} must be an hour or shorter.`);
}

function checkFires(rule: ScheduleRule, what: string): void {
  const { every, start, end, jitter } = rule;
  if (every !== null && jitter !== null && jitter >= every)
    throw invalidOption(`${what}: jitter must be shorter than every.`);
  if (start !== null && end !== null && end <= start)
    throw new MillraceError("invalid-schedule", `${what}: end must come after start.`);
  if (nextTick({ ...rule, end: null }, (start ?? 0) - 1) === null)
    throw new MillraceError(
      "invalid-schedule",
      `${what} never fires: no such day comes (30 February, for example).`,
    );
  if (nextTick(rule, (start ?? 0) - 1) === null)
    throw new MillraceError("invalid-schedule", `${what} never fires: it has no tick between start and end.`);
}
