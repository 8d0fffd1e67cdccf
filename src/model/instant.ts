/** Instants as users give them: a Date or epoch milliseconds. */
import { MillraceError } from "./error.ts";

/** The year 2100: a later instant is probably a mistake, such as microseconds given as milliseconds. */
const instantMax = 4_102_444_800_000;

export function readInstant(value: unknown, what: string): number {
  const at = value instanceof Date ? value.getTime() : value;
  if (typeof at === "number" && Number.isFinite(at) && at >= 0 && at <= instantMax) return Math.round(at);
  throw new MillraceError(
    "invalid-option",
    `${what} must be a Date or epoch milliseconds between 1970 and 2100.`,
  );
}
