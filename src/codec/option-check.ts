/**
 * Checks of the payload options, made once when a coder is created: an unknown, mistyped or absurd option is refused by its
 * name, never ignored.
 */
import { MillraceError } from "../model/error.ts";

export function invalidOption(message: string): MillraceError {
  return new MillraceError("invalid-option", message);
}

export function checkOptions(owner: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw invalidOption(`${owner} must be an object of options.`);
  }
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      throw invalidOption(`${owner} has no option ${JSON.stringify(key)}: it takes ${known.join(", ")}.`);
    }
  }
}

export function checkWhole(
  name: string,
  value: unknown,
  range: { readonly min: number; readonly max: number },
): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < range.min || value > range.max) {
    throw invalidOption(`${name} must be a whole number from ${range.min} to ${range.max}.`);
  }
  return value;
}
