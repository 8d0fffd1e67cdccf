/**
 * Ticks: the instants that a rule names, in epoch milliseconds. They follow from the rule alone, so every process finds
 * the same ones, and each is found in bounded time.
 *
 * Where a zone changes its offset (daylight saving, or a new law):
 *
 *   rule                                the hour that is left out          the hour that comes twice
 *   times of day (calendar; cron that   one tick at the end of the gap     the first of the two
 *     names its hours: "30 2 * * *")      for all that fall into it
 *   every hour (cron with hour * or     passes over it                     in both
 *     a step of it: "0,30 * * * *")
 *   every                               counts time that passes and knows no zone
 *
 * A whole day that a zone leaves out (Pacific/Apia, 30 December 2011) has no ticks.
 */
import { BoundedMap } from "../bounded-map.ts";
import { readCron } from "./cron.ts";
import type { ScheduleRule } from "./schedule-rule.ts";
import { daySeconds, nextWall, wallsOfCalendar, wallsOfCron } from "./wall-clock.ts";
import type { WallRule } from "./wall-clock.ts";
import { firstInstantOf, offsetMax, zoneOf } from "./zone.ts";
import type { Zone } from "./zone.ts";

/** The end of the year 9999: dates have four digits of a year everywhere. */
const lastInstant = 253_402_300_799_000;
/** Each hop passes a change of offset or a time without ticks. More than a few in a row mean a broken zone. */
const hopsMax = 64;
const crons = new BoundedMap<string, WallRule>(1000);

/** The first tick after this instant; null if the rule has no more. */
export function nextTick(rule: ScheduleRule, after: number): number | null {
  const { start, end } = rule;
  const from = Math.max(after, start === null ? -1 : start - 1, -1);
  if (from >= lastInstant) return null;
  const tick = rule.every === null ? nextWallTick(rule, from) : nextEvery(rule, from);
  return tick === null || tick > lastInstant || (end !== null && tick >= end) ? null : tick;
}

/** The newest tick after one instant and not after another; null for none. */
export function lastTick(
  rule: ScheduleRule,
  { after, upTo }: { readonly after: number; readonly upTo: number },
): number | null {
  const isWithin = (tick: number | null): tick is number => tick !== null && tick <= upTo;
  let tick = nextTick(rule, after);
  if (!isWithin(tick)) return null;
  // Backwards in doubling steps, because the newest tick is mostly near; then by bisection.
  for (let back = 1000; upTo - back > tick; back *= 2) {
    const found = nextTick(rule, upTo - back);
    if (!isWithin(found)) continue;
    tick = found;
    break;
  }
  for (let without = upTo; without > tick;) {
    const middle = Math.floor((tick + without) / 2);
    const found = nextTick(rule, middle);
    if (isWithin(found)) tick = found;
    else without = middle;
  }
  return tick;
}

/** The ticks of a range, `from` included and `to` not; `next` is the first that had no room under `max`. */
export function ticksBetween(
  rule: ScheduleRule,
  { from, to, max }: { readonly from: number; readonly to: number; readonly max: number },
): { readonly ticks: readonly number[]; readonly next: number | null } {
  const ticks: number[] = [];
  for (let after = from - 1; ;) {
    const tick = nextTick(rule, after);
    if (tick === null || tick >= to) return { ticks, next: null };
    if (ticks.length >= max) return { ticks, next: tick };
    ticks.push(tick);
    after = tick;
  }
}

function nextEvery({ every, anchor }: ScheduleRule, after: number): number {
  const step = every as number;
  const origin = anchor ?? 0;
  return origin + (Math.floor((after - origin) / step) + 1) * step;
}

function nextWallTick(rule: ScheduleRule, after: number): number | null {
  const walls = wallsOf(rule);
  const zone = zoneOf(rule.zone ?? "UTC");
  const from = Math.floor(after / 1000) + 1;
  const found = walls.isHourly ? nextPassing(walls, zone, from) : nextOfDay(walls, zone, from);
  return found === null ? null : found * 1000;
}

function wallsOf({ cron, calendar }: ScheduleRule): WallRule {
  if (calendar !== null) return wallsOfCalendar(calendar);
  const text = cron as string;
  const known = crons.get(text);
  if (known !== undefined) return known;
  const walls = wallsOfCron(readCron(text, "cron"));
  crons.set(text, walls);
  return walls;
}

/** The first instant, in seconds, at or after `from` whose wall clock time matches. */
function nextPassing(walls: WallRule, zone: Zone, from: number): number | null {
  for (let hop = 0; hop < hopsMax; hop++) {
    const { offset, until } = zone.spanAt(from);
    const wall = nextWall(walls, from + offset);
    if (wall === null) return null;
    const instant = wall - offset;
    if (until !== null) {
      if (instant < until) return instant;
      from = until;
    } else if (instant < from + 2 * daySeconds) return instant;
    // No wall clock time before this one matches, so only a change of offset shortly before it can matter.
    else from = instant - daySeconds - 7200;
  }
  return null;
}

/** The first instant, in seconds, at or after `from` that a matching time of day is given. */
function nextOfDay(walls: WallRule, zone: Zone, from: number): number | null {
  // The wall time a second before: at the end of a gap it is before the gap, whose times are due now.
  let wallFrom = from + zone.spanAt(from - 1).offset;
  for (let hop = 0; hop < hopsMax; hop++) {
    const wall = nextWall(walls, wallFrom);
    if (wall === null) return null;
    const instant = firstInstantOf(zone, wall);
    if (instant === null) {
      wallFrom = (Math.floor(wall / daySeconds) + 1) * daySeconds;
      continue;
    }
    if (instant >= from) return instant;
    // The second pass of a fold: its times were due the first time, up to the end of the fold.
    const { offset, until } = zone.spanAt(instant);
    wallFrom = (until ?? instant + offsetMax) + offset;
  }
  return null;
}
