/**
 * From arguments to a command's words and options: `--name value`, `--name=value`, flags, and `--` before words that
 * start with two dashes. An argument that starts with one dash is a word: a negative number, an id. Every option that
 * is unknown, given twice or without its value is refused with `invalid-option`.
 */
import { MillraceError } from "../../model/error.ts";
import type { Priority } from "../../model/routing/rank.ts";
import type { CommandOption } from "../command.ts";
import { shorten } from "../output/escape.ts";

interface ReadArgs {
  readonly words: readonly string[];
  /** A given flag has the value "". */
  readonly options: ReadonlyMap<string, string>;
}

export function readArgs(args: readonly string[], known: Readonly<Record<string, CommandOption>>): ReadArgs {
  const words: string[] = [];
  const options = new Map<string, string>();
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] as string;
    if (arg === "--") {
      words.push(...args.slice(at + 1));
      break;
    }
    if (arg === "-h") {
      options.set("help", "");
      continue;
    }
    if (!arg.startsWith("--")) {
      words.push(arg);
      continue;
    }
    const equals = arg.indexOf("=");
    const name = arg.slice(2, equals === -1 ? undefined : equals);
    const option = Object.hasOwn(known, name) ? known[name] : undefined;
    if (option === undefined) throw wrong(`unknown option ${quote(`--${name}`)}`);
    if (options.has(name)) throw wrong(`--${name} is given twice`);
    if (option.value === undefined) {
      if (equals !== -1) throw wrong(`--${name} takes no value`);
      options.set(name, "");
      continue;
    }
    const value = equals === -1 ? args[++at] : arg.slice(equals + 1);
    const isMissing = value === undefined || (equals === -1 && value.startsWith("--"));
    if (isMissing) throw wrong(`--${name} needs a value: --${name}=${option.value}`);
    // A blank store comes from an unset variable in a script and counts as not given; any other blank value is a
    // mistake.
    if (value.trim() === "" && name !== "store") throw wrong(`--${name} is blank`);
    options.set(name, value);
  }
  return { words, options };
}

export function readWhole(
  options: ReadonlyMap<string, string>,
  name: string,
  [min, max]: readonly [min: number, max: number],
): number | undefined {
  const text = options.get(name);
  if (text === undefined) return undefined;
  const number = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw wrong(`--${name} must be a whole number from ${min} to ${max}, not ${quote(text)}`);
}

/** Reads a list such as `a,b`. Names with a comma cannot be given this way. */
export function readList(options: ReadonlyMap<string, string>, name: string): readonly string[] | undefined {
  const text = options.get(name);
  if (text === undefined) return undefined;
  const parts = text.split(",").map((part) => part.trim());
  if (parts.includes("")) throw wrong(`--${name} has an empty entry`);
  return parts;
}

/** A level by its name or number; whether there is such a level is checked with the call. */
export function readPriority(options: ReadonlyMap<string, string>): Priority | undefined {
  const text = options.get("priority");
  return text === undefined ? undefined : ((/^-?\d+$/.test(text) ? Number(text) : text) as Priority);
}

export function readJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw wrong(`${what} is not JSON (${(error as Error).message}); quote it for the shell: '{"a":1}'`);
  }
}

export function wrong(problem: string): MillraceError {
  return new MillraceError("invalid-option", `${problem}.`);
}

export function quote(text: string): string {
  return JSON.stringify(shorten(text, 80));
}
