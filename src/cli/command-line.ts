/**
 * One command line, from its arguments to its exit code: finds the command, reads its arguments, runs it, and turns
 * whatever comes out into text and a code (0 done, 1 failed, 2 wrong usage).
 */
import { checkNodeVersion } from "../model/node-version.ts";
import type { Platform } from "../platform/platform.ts";
import type { Terminal } from "../platform/terminal.ts";
import { allCommands } from "./all-commands.ts";
import { didYouMean } from "../model/did-you-mean.ts";
import type { Options } from "./arguments/option-kinds.ts";
import { readArgs } from "./arguments/read-args.ts";
import { quote, wrong } from "./arguments/wrong.ts";
import { loadConfig } from "./load-config.ts";
import { optionsOf, sharedOptions, storeOptions } from "./command.ts";
import type { Action, Call, Command } from "./command.ts";
import { toJson } from "./output/print-json.ts";
import { reportError } from "./output/report-error.ts";
import { existingStoreUrl, withMillrace } from "./store/open-store.ts";

export async function runCommandLine(terminal: Terminal, platform: Platform): Promise<number> {
  const [first = "help", ...args] = terminal.args;
  // The line is searched for `--json` before the arguments are read, because an error in them must be printed as JSON
  // too.
  const wantsJson = [...untilDashes(args)].includes("--json");
  const name = first === "--help" || first === "-h" ? "help" : first === "--version" ? "version" : first;
  const command = allCommands.find((each) => each.name === name);
  try {
    checkNodeVersion(terminal.nodeVersion);
    if (command === undefined) {
      const names = allCommands.map((each) => each.name);
      throw wrong(`there is no command ${quote(name)}${didYouMean(name, names)}`);
    }
    const read = readArgs(args, optionsOf(command));
    const { action, words } = read.texts.has("help")
      ? { action: allCommands.find((each) => each.name === "help") as Command, words: [command.name] }
      : chooseAction(command, read.words, read.texts.keys());
    const valuesOf = (some: Options): Record<string, unknown> =>
      Object.fromEntries(
        [...read.texts].flatMap(([option, text]) => {
          const kind = Object.hasOwn(some, option) ? some[option] : undefined;
          return kind === undefined ? [] : [[option, kind.read(text, `--${option}`, platform)]];
        }),
      );
    const options = valuesOf(action.options);
    const store: Call["store"] = valuesOf(storeOptions);
    const opensStore = command.opensStore !== false && !read.texts.has("help");
    const call: Call = {
      ...{ terminal, platform, words, options, wantsJson, store },
      config: opensStore ? await loadConfig(store.config ?? terminal.readEnv("MILLRACE_CONFIG")) : null,
      answer: (document, text) =>
        terminal.writeOut(`${wantsJson ? toJson(document) : typeof text === "string" ? text : text()}\n`),
      withStore: async (use, given) => withMillrace(call, await existingStoreUrl(call), use, given),
    };
    return (await action.run(call as Call<never>)) ?? 0;
  } catch (error) {
    const hint = command === undefined ? "millrace help" : `millrace help ${command.name}`;
    return reportError(terminal, error, { hint, wantsJson });
  }
}

function* untilDashes(args: readonly string[]): Generator<string> {
  for (const arg of args) {
    if (arg === "--") return;
    yield arg;
  }
}

/** The command itself or one of its verbs; options that it does not take, and missing or more words, are refused. */
function chooseAction(
  command: Command,
  given: readonly string[],
  options: Iterable<string>,
): { readonly action: Action; readonly words: readonly string[] } {
  const { name, verbs = {} } = command;
  const known = Object.keys(verbs);
  const [verb] = known.length === 0 ? [] : given;
  if (verb !== undefined && !known.includes(verb))
    throw wrong(
      `${name} knows the ${known.length === 1 ? "verb" : "verbs"} ${known.join(", ")}, not ${quote(verb)}${didYouMean(verb, known)}`,
    );
  const action = verb === undefined ? command : (verbs[verb] as Action);
  const taken = { ...action.options, ...storeOptions, ...sharedOptions };
  for (const option of known.length === 0 ? [] : options)
    if (!Object.hasOwn(taken, option))
      throw wrong(`--${option} has no meaning ${verb === undefined ? "without a verb" : `with ${verb}`}`);
  const words = verb === undefined ? given : given.slice(1);
  const title = verb === undefined ? name : `${name} ${verb}`;
  const wanted = action.words?.split(" ") ?? [];
  const missing = wanted[words.length];
  if (missing !== undefined && !missing.startsWith("["))
    throw wrong(
      `${title} needs ${/^[AEIOU]/.test(missing) ? "an" : "a"} ${missing}: millrace ${title} ${action.words}`,
    );
  if (words.length > wanted.length)
    throw wrong(`too many arguments, from ${quote(words[wanted.length] as string)} on`);
  return { action, words };
}
