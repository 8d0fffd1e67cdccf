/**
 * Kinds of options: what the help shows for the value, and how its text becomes a value. Every reader refuses what it
 * does not understand with `invalid-option`, before the command opens a store.
 */
import { durationMs } from "../../model/duration.ts";
import type { Priority } from "../../model/routing/rank.ts";
import type { Platform } from "../../platform/platform.ts";
import { readInstant, readPastInstant } from "./read-instant.ts";
import { quote, wrong } from "./wrong.ts";

export interface Option<Value = unknown> {
  /** What the help shows for the value; an option without it is a flag. */
  readonly value?: string;
  readonly meaning: string;
  /** @param name how it was given, such as `--limit`, for the error. */
  read(text: string, name: string, platform: Platform): Value;
}

export type Options = Readonly<Record<string, Option>>;

export type ValuesOf<Known extends Options> = {
  readonly [Name in keyof Known]?: Known[Name] extends Option<infer Value> ? Value : never;
};

export function flag(meaning: string): Option<true> {
  return { meaning, read: () => true };
}

export function text(value: string, meaning: string): Option<string> {
  return { value, meaning, read: (given) => given };
}

/** Milliseconds. */
export function duration(meaning: string): Option<number> {
  return { value: "DURATION", meaning, read: durationMs };
}

export function whole(value: string, meaning: string, min: number, max: number): Option<number> {
  const read = (given: string, name: string): number => {
    const number = /^-?\d{1,15}$/.test(given) ? Number(given) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw wrong(`${name} must be a whole number from ${min} to ${max}, not ${quote(given)}`);
  };
  return { value, meaning, read };
}

/** A list such as `a,b`. Names with a comma cannot be given this way. */
export function list<Entry extends string>(
  value: string,
  meaning: string,
  allowed?: readonly Entry[],
): Option<readonly Entry[]> {
  const read = (given: string, name: string): readonly Entry[] => {
    const entries = given.split(",").map((entry) => entry.trim()) as Entry[];
    if (entries.includes("" as Entry)) throw wrong(`${name} has an empty entry`);
    const unknown = entries.find((entry) => allowed !== undefined && !allowed.includes(entry));
    if (unknown === undefined) return entries;
    throw wrong(`${name} must be one of ${allowed?.join(", ")}, not ${quote(unknown)}`);
  };
  return { value, meaning, read };
}

export function json(meaning: string): Option<unknown> {
  return { value: "JSON", meaning, read: readJson };
}

export function instant(meaning: string): Option<Date> {
  return { value: "TIME", meaning, read: readInstant };
}

/** An instant, or how long ago it was. */
export function pastInstant(meaning: string): Option<Date> {
  return {
    value: "TIME",
    meaning,
    read: (given, name, platform) => readPastInstant(given, name, platform.now()),
  };
}

/** A level by its name or number. The call checks whether there is such a level. */
export const priority: Option<Priority> = {
  value: "LEVEL",
  meaning: "critical, high, normal, low, lowest, or a number (lower first)",
  read: (given) => (/^-?\d+$/.test(given) ? Number(given) : given) as Priority,
};

/** Takes the word "none" as null, which sets the value back. */
export function orNone<Value>(option: Option<Value>): Option<Value | null> {
  return {
    ...option,
    read: (given, ...others) => (given === "none" ? null : option.read(given, ...others)),
  };
}

export function readJson(given: string, what: string): unknown {
  try {
    return JSON.parse(given);
  } catch (error) {
    throw wrong(`${what} is not JSON (${(error as Error).message}); quote it for the shell: '{"a":1}'`);
  }
}
