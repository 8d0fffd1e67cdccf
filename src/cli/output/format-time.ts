/** Times for people: short durations, and instants in UTC so that two readers see the same text. */

import { durationText } from "../../model/duration.ts";

export function formatAge(at: Date, now: number): string {
  const ms = now - at.getTime();
  return ms >= 0 ? `${durationText(ms)} ago` : `in ${durationText(-ms)}`;
}

/** "2026-01-31 12:00:00.123Z" */
export function formatInstant(at: Date): string {
  return at.toISOString().replace("T", " ");
}
