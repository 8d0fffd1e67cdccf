#!/usr/bin/env node
/**
 * The command line: finds the command, reads its arguments, runs it, and turns whatever comes out into text and an exit code (0 done,
 * 1 failed, 2 wrong usage).
 */
import { MillraceError } from "../model/error.ts";
import { nodePlatform } from "../platform/node-platform.ts";
import { nodeTerminal } from "../platform/terminal.ts";
import type { Terminal } from "../platform/terminal.ts";
import { allCommands } from "./all-commands.ts";
import { sharedOptions } from "./command.ts";
import { quote, readArgs, wrong } from "./read-args.ts";
import { reportError } from "./report-error.ts";

await nodeTerminal.exit(await runCommandLine(nodeTerminal));

async function runCommandLine(terminal: Terminal): Promise<number> {
  const [first = "help", ...args] = terminal.args;
  // Read before the arguments are, because they may be what is wrong.
  const wantsJson = [...untilDashes(args)].includes("--json");
  const name = first === "--help" || first === "-h" ? "help" : first === "--version" ? "version" : first;
  const command = allCommands.find((each) => each.name === name);
  try {
    checkNode(terminal.nodeVersion);
    if (command === undefined) throw wrong(`there is no command ${quote(name)}`);
    const { words, options } = readArgs(args, { ...command.options, ...sharedOptions });
    if (options.has("help")) return await runHelp(terminal, command.name, wantsJson);
    const [min, max] = command.words;
    if (words.length < min) throw wrong(`an argument is missing: millrace ${command.usage}`);
    if (words.length > max) throw wrong(`too many arguments, from ${quote(words[max] as string)} on`);
    return await command.run({ terminal, platform: nodePlatform, words, options, wantsJson });
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

function runHelp(terminal: Terminal, name: string, wantsJson: boolean): Promise<number> {
  const help = allCommands.find((each) => each.name === "help") as (typeof allCommands)[number];
  return help.run({ terminal, platform: nodePlatform, words: [name], options: new Map(), wantsJson });
}

function checkNode(version: string): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return;
  throw new MillraceError(
    "unsupported-node",
    `This is Node.js ${version}; Millrace needs 22.18 or newer. Upgrade Node.js.`,
  );
}
