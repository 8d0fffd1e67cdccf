/**
 * From arguments to words and the texts of options, by `parseArgs` of Node: `--name value`, `--name=value`, flags, and
 * `--` before words that start with two dashes. An argument that starts with one dash is a word: a negative number, an
 * id. Every option that is unknown, given twice or without its value is refused with `invalid-option`.
 */
import { parseArgs } from "node:util";
import { didYouMean } from "../../model/did-you-mean.ts";
import type { Options } from "./option-kinds.ts";
import { quote, wrong } from "./wrong.ts";

interface ReadArgs {
  readonly words: readonly string[];
  /** A given flag has the value "". */
  readonly texts: ReadonlyMap<string, string>;
}

export function readArgs(args: readonly string[], known: Options): ReadArgs {
  const types = Object.entries(known).map(
    ([name, { value }]) => [name, { type: value === undefined ? "boolean" : "string" }] as const,
  );
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(types),
    ...{ strict: false, allowPositionals: true, tokens: true },
  });
  const words = new Map<number, string>();
  const texts = new Map<string, string>();
  for (const token of tokens) {
    const given = args[token.index] as string;
    if (token.kind === "option" && given === "-h") texts.set("help", "");
    // Letters after one dash are options for Node, one by one: together they are a word here.
    else if (token.kind === "positional" || (token.kind === "option" && !given.startsWith("--")))
      words.set(token.index, given);
    else if (token.kind === "option") {
      const { name, value, inlineValue } = token;
      const option = Object.hasOwn(known, name) ? known[name] : undefined;
      if (option === undefined)
        throw wrong(`unknown option ${quote(`--${name}`)}${didYouMean(name, Object.keys(known))}`);
      if (texts.has(name)) throw wrong(`--${name} is given twice`);
      if (option.value === undefined && inlineValue === true) throw wrong(`--${name} takes no value`);
      const isMissing = value === undefined || (inlineValue === false && value.startsWith("--"));
      if (option.value !== undefined && isMissing)
        throw wrong(`--${name} needs a value: --${name}=${option.value}`);
      // A blank store comes from an unset variable in a script and counts as not given.
      if (value?.trim() === "" && name !== "store") throw wrong(`--${name} is blank`);
      texts.set(name, value ?? "");
    }
  }
  return { words: [...words.values()], texts };
}
