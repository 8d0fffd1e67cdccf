/**
 * What a command is. One declaration per command names its words and options; parsing, the help and "did you mean"
 * follow from it. Every command takes `--json` and `--help`, and those that open a store also take `storeOptions`.
 */
import type { Millrace } from "../client/millrace.ts";
import type { MillraceOptions } from "../client/millrace-options.ts";
import type { Platform } from "../platform/platform.ts";
import type { Terminal } from "../platform/terminal.ts";
import type { LoadedConfig } from "./load-config.ts";
import { flag, text } from "./arguments/option-kinds.ts";
import type { Options, ValuesOf } from "./arguments/option-kinds.ts";

export interface Action<Known extends Options = Options> {
  /** The words that it takes, as the help shows them: "ID", or "NAME [JSON]" if the second may be left out. */
  readonly words?: string;
  readonly options: Known;
  /** @returns the exit code if it is not 0: 1 if what was asked for did not happen. */
  run(call: Call<ValuesOf<Known>>): Promise<number | void>;
}

export interface Command<Known extends Options = Options> extends Action<Known> {
  readonly name: string;
  readonly summary: string;
  readonly examples?: readonly string[];
  /** Actions on one of what the command lists, such as `pause` in `millrace queues pause email`. */
  readonly verbs?: Readonly<Record<string, Action>>;
  /** False if it opens no store, or one of its own choice. */
  readonly opensStore?: boolean;
}

/** One use of a command, read and checked. */
export interface Call<Values = unknown> {
  readonly terminal: Terminal;
  readonly platform: Platform;
  readonly words: readonly string[];
  /** Has only the options that were given. */
  readonly options: Values;
  readonly wantsJson: boolean;
  readonly store: ValuesOf<typeof storeOptions>;
  /** The config file; null if there is none, or if the command opens no store. */
  readonly config: LoadedConfig | null;
  /** Prints the document with `--json`, else the text for people. */
  readonly answer: (document: unknown, text: string | (() => string)) => void;
  /** Opens the store, which must be there, lets the command use it, and closes it however the command ends. */
  readonly withStore: <Answer>(
    use: (mill: Millrace) => Promise<Answer>,
    options?: MillraceOptions,
  ) => Promise<Answer>;
}

export const storeOptions = {
  store: text(
    "URL",
    "where the jobs live, such as sqlite:./jobs.db; default: MILLRACE_STORE, else the config's",
  ),
  config: text("FILE", "the config; default: MILLRACE_CONFIG, else millrace.config.ts or .js in this folder"),
  namespace: text("NAME", "the namespace there; default: MILLRACE_NAMESPACE, else none"),
  take: flag("of a bucket: take it over from the process that writes to it; without it commands only read"),
};

export const sharedOptions = { json: flag("print one JSON document"), help: flag("show this") };

/** Gives `run` the types of the options. */
export function command<Known extends Options>(given: Command<Known>): Command {
  return given;
}

export function action<Known extends Options>(given: Action<Known>): Action {
  return given;
}

/** All options that the command, any of its verbs, or every command takes. */
export function optionsOf({ options, verbs = {}, opensStore = true }: Command): Options {
  const ofVerbs = Object.values(verbs).map((verb) => verb.options);
  return Object.assign({}, opensStore ? storeOptions : {}, options, ...ofVerbs, sharedOptions) as Options;
}

/** The usage line, without `millrace` before it. */
export function usageOf({ name, words, options, verbs = {} }: Command): string {
  const byWords = Map.groupBy(Object.keys(verbs), (verb) => verbs[verb]?.words ?? "");
  return [
    [name, words, Object.keys(options).length === 0 ? "" : "[OPTIONS]"],
    ...[...byWords].map(([taken, known]) => [name, known.join("|"), taken, "[OPTIONS]"]),
  ]
    .map((parts) => parts.filter(Boolean).join(" "))
    .join(" | ");
}
