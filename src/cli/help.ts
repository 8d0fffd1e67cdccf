/** `millrace help`: all commands on one screen, or one command with its options. */
import { sharedOptions } from "./command.ts";
import type { Command, CommandOption } from "./command.ts";
import { toJson } from "./output/print-json.ts";
import { quote, wrong } from "./arguments/read-args.ts";

export function helpCommand(commands: () => readonly Command[]): Command {
  return {
    name: "help",
    usage: "help [COMMAND]",
    summary: "this page, or a command's options",
    words: [0, 1],
    options: {},
    async run({ terminal, words: [name], wantsJson }) {
      const all = commands();
      if (name === undefined) {
        const page = {
          commands: all.map(({ name: each, usage, summary }) => ({ name: each, usage, summary })),
        };
        terminal.writeOut(`${wantsJson ? toJson(page) : describeAll(all)}\n`);
        return 0;
      }
      const command = all.find((each) => each.name === name);
      if (command === undefined) throw wrong(`there is no command ${quote(name)}`);
      const { usage, summary, options, examples = [] } = command;
      const page = { name, usage, summary, options: { ...options, ...sharedOptions }, examples };
      terminal.writeOut(`${wantsJson ? toJson(page) : describeCommand(command)}\n`);
      return 0;
    },
  };
}

function describeAll(commands: readonly Command[]): string {
  return [
    "millrace: durable jobs on the store you already have",
    "",
    ...commands.map(({ name, summary }) => `  ${name.padEnd(12)}${summary}`),
    "",
    "Every command takes --json; the store is --store URL or MILLRACE_STORE, such as sqlite:./jobs.db.",
    "Exit codes: 0 done, 1 failed, 2 wrong usage. More: millrace help COMMAND.",
  ].join("\n");
}

function describeCommand({ usage, summary, options, examples = [] }: Command): string {
  const known: Readonly<Record<string, CommandOption>> = { ...options, ...sharedOptions };
  const titles = Object.entries(known).map(
    ([name, { value }]) => `--${name}${value === undefined ? "" : ` ${value}`}`,
  );
  const width = Math.max(...titles.map((title) => title.length));
  return [
    `millrace ${usage}`,
    `  ${summary}`,
    "",
    ...Object.values(known).map(({ meaning }, at) => `  ${(titles[at] as string).padEnd(width)}  ${meaning}`),
    ...(examples.length === 0 ? [] : ["", ...examples.map((example) => `  millrace ${example}`)]),
  ].join("\n");
}
