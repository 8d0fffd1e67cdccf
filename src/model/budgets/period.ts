/**
 * Periods of a budget. They follow from the rule of its reset and an instant alone, so every process finds the same
 * ones. The count of a period is a document with the period in its id: a reset writes nothing, and nothing drifts.
 *
 *   { every: "6h" }                          counted from 1970, in UTC
 *   { every: "1d", zone: "Europe/Berlin" }   from midnight to midnight there, 23 or 25 hours where clocks change
 *   { cron: "0 0 1 * *", zone: "UTC" }       from tick to tick
 *   { calendar: { at: "00:00", days: [1] } } the same
 */
import { durationMs } from "../duration.ts";
import type { Duration } from "../duration.ts";
import { checkOptions, invalidOption } from "../option.ts";
import type { CalendarOptions } from "../schedule/calendar.ts";
import { lastTick, nextTick } from "../schedule/rule-ticks.ts";
import { readScheduleRule } from "../schedule/schedule-rule.ts";
import type { ScheduleRule } from "../schedule/schedule-rule.ts";

export interface ResetOptions {
  /** The length of a period. With a zone "1h", "1d" or "1w" (from Monday): hours, days and weeks there. */
  every?: Duration;
  cron?: string;
  calendar?: CalendarOptions;
  /** An IANA time zone; "UTC" by default. */
  zone?: string;
}

export interface Period {
  /** When it began, as a text whose byte order is that of time. */
  readonly id: string;
  readonly startsAt: number;
  readonly endsAt: number;
}

const cronOfZoned: Readonly<Record<number, string>> = {
  3_600_000: "0 * * * *",
  86_400_000: "0 0 * * *",
  604_800_000: "0 0 * * 1",
};
const dayMs = 86_400_000;
/** How far back the begin of a period is looked for; a leap day comes back after eight years at the latest. */
const lookBackMs = [dayMs, 40 * dayMs, 370 * dayMs, 3_000 * dayMs] as const;
const endOfTime = Date.UTC(9999, 11, 31);

export function readReset(options: unknown, what: string): ScheduleRule {
  const { every, zone, ...rest } = checkOptions(options, what, ["every", "cron", "calendar", "zone"]);
  if (every === undefined || zone === undefined || zone === null)
    return readScheduleRule({ ...rest, every: every ?? null, zone: zone ?? null }, what);
  const cron = cronOfZoned[durationMs(every, `${what}: every`)];
  if (cron === undefined)
    throw invalidOption(
      `${what}: with a zone, every is "1h", "1d" or "1w"; for other periods of a zone give cron or a calendar.`,
    );
  return readScheduleRule({ ...rest, cron, zone }, what);
}

export function periodAt(rule: ScheduleRule, at: number): Period {
  const startsAt = lastBefore(rule, at);
  return { id: periodId(startsAt), startsAt, endsAt: nextTick(rule, at) ?? endOfTime };
}

function lastBefore(rule: ScheduleRule, at: number): number {
  for (const backMs of lookBackMs) {
    const tick = lastTick(rule, { after: Math.max(-1, at - backMs), upTo: at });
    if (tick !== null) return tick;
  }
  return 0;
}

/** 2026-11-18T23:00:00Z: periods begin at whole seconds. */
const periodId = (startsAt: number): string => `${new Date(startsAt).toISOString().slice(0, 19)}Z`;
export const startOfPeriod = (id: string): number => Date.parse(id);
