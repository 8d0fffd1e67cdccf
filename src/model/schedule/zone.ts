/**
 * Zones: from an instant to wall clock time and back, by the runtime's own time zone database (Intl), in whole seconds.
 * The offset of each day of UTC is cached, because a lookup costs some microseconds.
 *
 *   offset +1 h ────────────┐ 01:00Z           a gap: 02:00 to 03:00 is shown by no instant
 *                           └──── offset +2 h
 *   offset +2 h ────────────┐ 01:00Z           a fold: 02:00 to 03:00 is shown twice
 *                           └──── offset +1 h
 */
import { BoundedMap } from "../bounded-map.ts";
import { MillraceError } from "../error.ts";
import { daySeconds } from "./wall-clock.ts";

/** A span of time with one offset. */
export interface OffsetSpan {
  /** Wall clock time is the instant plus this. */
  readonly offset: number;
  /** When the offset changes; null if it does not within two days after the given instant. */
  readonly until: number | null;
}

export interface Zone {
  spanAt(instant: number): OffsetSpan;
}

/** A day of UTC: the offset changes at `change`, if at all. Since 1970 no two changes were less than six days apart. */
interface ZoneDay {
  readonly offset: number;
  readonly change: number | null;
  readonly offsetAfter: number;
}

/** No zone was ever further than this from UTC. */
export const offsetMax = 16 * 3600;
/** A formatter takes tens of kilobytes, so a process does not keep every zone. */
const zonesMax = 200;
const daysMax = 400;
const nameForm = /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/;
const zones = new BoundedMap<string, Zone>(zonesMax);

/** The name is kept as given: two versions of a runtime may prefer different names of one zone. */
export function checkZone(name: unknown, what: string): string {
  if (typeof name === "string" && findZone(name) !== null) return name;
  const given = typeof name === "string" ? JSON.stringify(name.slice(0, 80)) : `a ${typeof name}`;
  throw new MillraceError(
    "invalid-schedule",
    `${what} must be a time zone that this Node.js knows, such as "Europe/Berlin" or "UTC", not ${given}.`,
  );
}

/** @param name the name of a checked zone. */
export function zoneOf(name: string): Zone {
  const zone = findZone(name);
  if (zone === null) throw new RangeError(`no zone has the name ${JSON.stringify(name)}`);
  return zone;
}

function findZone(name: string): Zone | null {
  // The first use of Intl takes tens of milliseconds; UTC does not need it.
  if (name === "UTC") return utc;
  const known = zones.get(name);
  if (known !== undefined) return known;
  const format = nameForm.test(name) ? formatOf(name) : null;
  if (format === null) return null;
  const zone = createZone(format);
  zones.set(name, zone);
  return zone;
}

const utc: Zone = { spanAt: () => ({ offset: 0, until: null }) };

/**
 * The instant at which the wall clock first shows this time; for a time in a gap the end of the gap. Null for a time on
 * a day that the zone left out (by crossing the date line): that day has no ticks.
 */
export function firstInstantOf(zone: Zone, wall: number): number | null {
  let from = wall - offsetMax;
  let offsetBefore = offsetMax;
  // From sixteen hours before to sixteen after, an offset changes at most twice.
  for (;;) {
    const { offset, until } = zone.spanAt(from);
    const instant = wall - offset;
    if (until === null || instant < until) {
      if (instant >= from) return instant;
      return offset - offsetBefore < daySeconds ? from : null;
    }
    from = until;
    offsetBefore = offset;
  }
}

function createZone(format: Intl.DateTimeFormat): Zone {
  const days = new BoundedMap<number, ZoneDay>(daysMax);
  const offsetAt = (instant: number): number => wallSeconds(format, instant) - instant;
  const dayOf = (number: number): ZoneDay => {
    const known = days.get(number);
    if (known !== undefined) return known;
    const day = lookAtDay(offsetAt, number * daySeconds);
    days.set(number, day);
    return day;
  };
  return {
    spanAt: (instant) => {
      const first = Math.floor(instant / daySeconds);
      const { offset, change, offsetAfter } = dayOf(first);
      if (change !== null && instant < change) return { offset, until: change };
      for (let number = first + 1; number <= first + 2; number++) {
        const day = dayOf(number);
        if (day.change !== null) return { offset: offsetAfter, until: day.change };
      }
      return { offset: offsetAfter, until: null };
    },
  };
}

function lookAtDay(offsetAt: (instant: number) => number, from: number): ZoneDay {
  const offset = offsetAt(from);
  const offsetAfter = offsetAt(from + daySeconds);
  if (offset === offsetAfter) return { offset, change: null, offsetAfter };
  let before = from;
  let change = from + daySeconds;
  while (change - before > 1) {
    const middle = Math.floor((before + change) / 2);
    if (offsetAt(middle) === offset) before = middle;
    else change = middle;
  }
  return { offset, change, offsetAfter };
}

function formatOf(zone: string): Intl.DateTimeFormat | null {
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      calendar: "gregory",
      numberingSystem: "latn",
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
  } catch {
    return null;
  }
}

/** From a text such as "11/16/2026, 09:05:00". */
function wallSeconds(format: Intl.DateTimeFormat, instant: number): number {
  const numbers = format.format(instant * 1000).match(/\d+/g) ?? [];
  const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = numbers.map(Number);
  return Date.UTC(year, month - 1, day, hour, minute, second) / 1000;
}
