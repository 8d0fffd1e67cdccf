/** `millrace help`: all commands on one screen, or one command with its options. */
import { didYouMean } from "../model/did-you-mean.ts";
import { quote, wrong } from "./arguments/wrong.ts";
import { command, optionsOf, usageOf } from "./command.ts";
import type { Command } from "./command.ts";

export function helpCommand(commands: () => readonly Command[]): Command {
  return command({
    name: "help",
    words: "[COMMAND]",
    summary: "this page, or a command's options",
    opensStore: false,
    options: {},
    async run({ words: [name], answer }) {
      const all = commands();
      if (name === undefined) {
        const page = all.map((each) => ({ name: each.name, usage: usageOf(each), summary: each.summary }));
        answer({ commands: page }, describeAll(all));
        return;
      }
      const one = all.find((each) => each.name === name);
      if (one === undefined) {
        const names = all.map((each) => each.name);
        throw wrong(`there is no command ${quote(name)}${didYouMean(name, names)}`);
      }
      const { summary, examples = [] } = one;
      answer({ name, usage: usageOf(one), summary, options: optionsOf(one), examples }, describeCommand(one));
    },
  });
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

function describeCommand(one: Command): string {
  const options = Object.entries(optionsOf(one)).map(
    ([name, { value, meaning }]) => [`--${name}${value === undefined ? "" : ` ${value}`}`, meaning] as const,
  );
  const width = Math.max(...options.map(([title]) => title.length));
  const examples = (one.examples ?? []).map((example) => `  millrace ${example}`);
  return [
    `millrace ${usageOf(one)}`,
    `  ${one.summary}`,
    "",
    ...options.map(([title, meaning]) => `  ${title.padEnd(width)}  ${meaning}`),
    ...(examples.length === 0 ? [] : ["", ...examples]),
  ].join("\n");
}
