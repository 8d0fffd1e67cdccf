import { expect, test } from "vitest";
import { firstInstantOf, zoneOf } from "./zone.ts";

const day = 86_400;
const zones = [
  "Europe/Berlin",
  "America/New_York",
  "Australia/Lord_Howe",
  "Africa/Casablanca",
  "Asia/Gaza",
  "Pacific/Apia",
];

/** By another text of Intl than the one that is tested. */
function offsetAt(zone: string, instant: number): number {
  const format = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "longOffset" });
  const match = /GMT(?:([+-])(\d\d):(\d\d))?$/.exec(format.format(instant * 1000));
  const seconds = Number(match?.[2] ?? 0) * 3600 + Number(match?.[3] ?? 0) * 60;
  return match?.[1] === "-" ? -seconds : seconds;
}

test.each(zones)(
  "in %s an offset holds up to the second in which it changes, and not in that one",
  (zone) => {
    let changes = 0;
    const end = Date.UTC(2013, 0) / 1000;
    for (let from = Date.UTC(2010, 0) / 1000; from < end;) {
      const { offset, until } = zoneOf(zone).spanAt(from);
      expect(offset).toBe(offsetAt(zone, from));
      if (until !== null) {
        changes++;
        expect(offsetAt(zone, until - 1)).toBe(offset);
        expect(offsetAt(zone, until)).not.toBe(offset);
      }
      from = until ?? from + 2 * day;
    }
    expect(changes).toBeGreaterThanOrEqual(5);
  },
);

test.each(zones)(
  "in %s a wall clock time is an instant at which the clock shows it, or the end of its gap",
  (zone) => {
    for (let wall = Date.UTC(2011, 0) / 1000; wall < Date.UTC(2012, 0) / 1000; wall += 1740) {
      const instant = firstInstantOf(zoneOf(zone), wall);
      if (instant === null) {
        expect(new Date(wall * 1000).toISOString().slice(0, 10)).toBe("2011-12-30");
        continue;
      }
      const { offset } = zoneOf(zone).spanAt(instant);
      const { offset: before, until: change } = zoneOf(zone).spanAt(instant - 1);
      if (change === instant && instant + offset > wall) expect(instant + before).toBeLessThanOrEqual(wall);
      else expect(instant + offset).toBe(wall);
    }
  },
);
