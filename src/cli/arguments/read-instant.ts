/** Times as people give them to the command line: an ISO date, or how long ago. */
import { durationMs } from "../../model/duration.ts";
import { isMillraceError } from "../../model/error.ts";
import { quote, wrong } from "./wrong.ts";

/** Such as 2026-01-31, 2026-01-31T12:00Z or 2026-01-31T12:00:00.5+02:00; without a zone it is UTC. */
const isoDate = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?$/;

export function readInstant(text: string, name: string): Date {
  const date = parseDate(text);
  if (date !== null) return date;
  throw wrong(`${name} must be a time such as 2026-01-31T12:00Z, not ${quote(text)}`);
}

/** Also takes a duration: so long before `now`. */
export function readPastInstant(text: string, name: string, now: number): Date {
  const date = parseDate(text);
  if (date !== null) return date;
  try {
    return new Date(Math.max(0, now - durationMs(text, name)));
  } catch (error) {
    if (!isMillraceError(error)) throw error;
    throw wrong(`${name} must be a time such as 2026-01-31T12:00Z or an age such as 2h, not ${quote(text)}`);
  }
}

function parseDate(text: string): Date | null {
  if (!isoDate.test(text)) return null;
  const hasZone = /(Z|[+-]\d{2}:\d{2})$/.test(text);
  const date = new Date(text.includes("T") && !hasZone ? `${text}Z` : text);
  return Number.isNaN(date.getTime()) ? null : date;
}
