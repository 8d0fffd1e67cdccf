/**
 * What a command is: its words, its options and what it does. One file per command in commands/; every command takes
 * `--json` and `--help`, and all but `version` and `help` take `--store` and `--namespace`.
 */
import type { Platform } from "../platform/platform.ts";
import type { Terminal } from "../platform/terminal.ts";

export interface CommandOption {
  /** What the help shows for the value; an option without it is a flag. */
  readonly value?: string;
  readonly meaning: string;
}

export interface Command {
  readonly name: string;
  /** The usage line, without `millrace` in front. */
  readonly usage: string;
  readonly summary: string;
  /** The fewest and the most words that the command takes beside its options. */
  readonly words: readonly [min: number, max: number];
  readonly options: Readonly<Record<string, CommandOption>>;
  readonly examples?: readonly string[];
  /** @returns the exit code: 0 when what was asked for happened, else 1. */
  run(call: Call): Promise<number>;
}

/** One use of a command, read and checked. */
export interface Call {
  readonly terminal: Terminal;
  readonly platform: Platform;
  readonly words: readonly string[];
  readonly options: ReadonlyMap<string, string>;
  readonly wantsJson: boolean;
}

export const storeOption = {
  store: { value: "URL", meaning: "where the jobs live, such as sqlite:./jobs.db; default: MILLRACE_STORE" },
  namespace: { value: "NAME", meaning: "the namespace there; default: MILLRACE_NAMESPACE, else none" },
  take: {
    meaning: "of a bucket: take it over from the process that writes to it; without it commands only look",
  },
} as const;

export const sharedOptions = {
  json: { meaning: "print one JSON document" },
  help: { meaning: "show this" },
} as const;
