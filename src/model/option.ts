/**
 * Checks that every options object shares: no unknown key, no value of the wrong type. An option that is accepted is
 * never ignored.
 */
import { didYouMean } from "./did-you-mean.ts";
import { MillraceError } from "./error.ts";

export function invalidOption(message: string): MillraceError {
  return new MillraceError("invalid-option", message);
}

export function checkOptions(
  value: unknown,
  what: string,
  allowed: readonly string[],
): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidOption(`${what} must be an object.`);
  }
  for (const key of Object.keys(value)) {
    if (!allowed.includes(key)) {
      throw invalidOption(
        `${what}: unknown option ${JSON.stringify(key.slice(0, 80))}${didYouMean(key, allowed)}; known are ${allowed.join(", ")}.`,
      );
    }
  }
  return value as Readonly<Record<string, unknown>>;
}

export function checkWhole(value: unknown, what: string, min: number, max: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw invalidOption(`${what} must be a whole number from ${min} to ${max}.`);
}

export function checkNumber(value: unknown, what: string): number {
  if (typeof value === "number") return value;
  throw invalidOption(`${what} must be a number.`);
}

export function checkBoolean(value: unknown, what: string): boolean {
  if (typeof value === "boolean") return value;
  throw invalidOption(`${what} must be true or false.`);
}

export function isListOfFunctions(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === "function");
}
