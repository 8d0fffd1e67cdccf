/**
 * Durations as users write them: milliseconds, or text such as "250ms", "10m", "1h30m", "7d". They are checked before
 * any write. `durationText` is the other way: a duration in a sentence.
 */
import { MillraceError } from "./error.ts";

/**
 * Milliseconds, or a text with units, such as "90s" or "1h30m". The compiler refuses "10min". Of a text with several
 * parts it checks the first one, because a union of all texts is too large for it.
 */
export type Duration =
  | number
  | `${number}${"ms" | "s" | "m" | "h" | "d" | "w"}`
  | `${number}${"s" | "m" | "h" | "d" | "w"}${number}${string}`;

/** Ten years. A longer duration is probably a mistake, such as a timestamp given as a delay. */
export const durationMaxMs = 10 * 366 * 24 * 60 * 60 * 1000;

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

const part = /(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d|w)/y;

export function durationMs(value: unknown, what: string): number {
  if (typeof value === "number") return checkRange(value, value, what);
  if (typeof value === "string") return checkRange(parse(value), value, what);
  throw invalid(what, value, 'is neither a number of milliseconds nor a text such as "10m"');
}

/**
 * A duration of which the compiler knows only that it is a text, such as one of a configuration file.
 *
 * @example delay: duration(process.env.DELAY ?? "10m")
 */
export function duration(text: string): Duration {
  return durationMs(text, "duration");
}

function parse(text: string): number {
  if (text.length === 0 || text.length > 64) return Number.NaN;
  let totalMs = 0;
  part.lastIndex = 0;
  while (part.lastIndex < text.length) {
    const match = part.exec(text);
    if (match === null) return Number.NaN;
    totalMs += Number(match[1]) * (unitMs[match[2] as string] as number);
  }
  return totalMs;
}

const shownUnits = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** For messages: "250ms", "3.2s", "4m 5s", "2h 3m"; the two largest units. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toString()}s`;
  const at = shownUnits.findIndex(([, unit]) => ms >= unit);
  const [name, largerMs] = shownUnits[at] as (typeof shownUnits)[number];
  const count = Math.floor(ms / largerMs);
  const [restName, restMs] = shownUnits[at + 1] as (typeof shownUnits)[number];
  const rest = Math.floor((ms - count * largerMs) / restMs);
  return rest === 0 ? `${count}${name}` : `${count}${name} ${rest}${restName}`;
}

function checkRange(ms: number, given: unknown, what: string): number {
  if (Number.isNaN(ms)) throw invalid(what, given, 'is not a duration such as 500, "10m" or "1h30m"');
  if (ms < 0) throw invalid(what, given, "is negative");
  if (ms > durationMaxMs) throw invalid(what, given, "is longer than ten years");
  return Math.round(ms);
}

function invalid(what: string, given: unknown, problem: string): MillraceError {
  // An object may have no text form, or one that throws.
  const shown =
    typeof given === "string"
      ? JSON.stringify(given.slice(0, 80))
      : typeof given === "object" && given !== null
        ? "an object"
        : typeof given === "function"
          ? "a function"
          : String(given);
  return new MillraceError("invalid-duration", `${what}: ${shown} ${problem}.`);
}
