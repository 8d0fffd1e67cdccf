/**
 * One command line, from its arguments to its exit code: finds the command, reads its arguments, runs it, and turns
 * whatever comes out into text and a code (0 done, 1 failed, 2 wrong usage).
 */
import { checkNodeVersion } from "../model/node-version.ts";
import type { Platform } from "../platform/platform.ts";
import type { Terminal } from "../platform/terminal.ts";
import { allCommands } from "./all-commands.ts";
import { sharedOptions } from "./command.ts";
import type { Call, Command } from "./command.ts";
import { quote, readArgs, wrong } from "./arguments/read-args.ts";
import { reportError } from "./output/report-error.ts";

export async function runCommandLine(terminal: Terminal, platform: Platform): Promise<number> {
  const [first = "help", ...args] = terminal.args;
  // `--json` is looked for before the arguments are read, because an error in them must be printed as JSON too.
  const wantsJson = [...untilDashes(args)].includes("--json");
  const name = first === "--help" || first === "-h" ? "help" : first === "--version" ? "version" : first;
  const command = allCommands.find((each) => each.name === name);
  try {
    checkNodeVersion(terminal.nodeVersion);
    if (command === undefined) throw wrong(`there is no command ${quote(name)}`);
    const { words, options } = readArgs(args, { ...command.options, ...sharedOptions });
    const call: Call = { terminal, platform, words, options, wantsJson };
    if (options.has("help")) return await find("help").run({ ...call, words: [command.name] });
    const [min, max] = command.words;
    if (words.length < min) throw wrong(`an argument is missing: millrace ${command.usage}`);
    if (words.length > max) throw wrong(`too many arguments, from ${quote(words[max] as string)} on`);
    return await command.run(call);
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

function find(name: string): Command {
  return allCommands.find((each) => each.name === name) as Command;
}
