/**
 * `millrace enqueue`: makes a job without the handlers' code. Its schema, if it has one, is checked when a worker runs
 * it.
 */
import type { EnqueueOptions, Millrace } from "../../index.ts";
import { job } from "../../index.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { storeUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { readJson, readList, readPriority, readWhole } from "../arguments/read-args.ts";

export const enqueue: Command = {
  name: "enqueue",
  usage: "enqueue NAME [JSON] [--queue Q] [--delay 10m] [--id ID] [--unique KEY]",
  summary: "make a job; JSON is its input, - reads it from standard input",
  words: [1, 2],
  options: {
    ...storeOption,
    queue: { value: "QUEUE", meaning: "the queue it goes to; default by default" },
    delay: { value: "DURATION", meaning: "not before this long from now, such as 10m" },
    id: { value: "ID", meaning: "an id of your own: the same id and input is the same job" },
    unique: { value: "KEY", meaning: "no second job while one with this key is unfinished" },
    priority: { value: "LEVEL", meaning: "critical, high, normal, low, lowest, or a number (lower first)" },
    requires: { value: "A,B", meaning: "capabilities that a worker must offer to run it" },
    group: { value: "KEY", meaning: "the group of its queue that it belongs to; groups take turns" },
    tags: { value: "A,B", meaning: "tags to find and cancel it by" },
    attempts: { value: "N", meaning: "how many runs in all; 10 by default" },
    timeout: { value: "DURATION", meaning: "per attempt" },
    deadline: { value: "DURATION", meaning: "must have finished this long from now, else it expires" },
    ttl: { value: "DURATION", meaning: "must have started this long after it was due, else it expires" },
  },
  examples: [
    `enqueue send-welcome '{"userId":"42"}' --queue email --delay 10m`,
    "enqueue report | xargs millrace logs --follow",
  ],
  async run(call) {
    const { terminal, words, options, wantsJson } = call;
    const [name, text] = words as [string, string?];
    const definition = job(name);
    const enqueueOptions = readOptions(options);
    const json = text === "-" ? await terminal.readIn() : text;
    const input = json === undefined ? undefined : readJson(json, "The input");
    const url = storeUrl(call);
    const submit = (mill: Millrace) => mill.enqueue(definition, input, enqueueOptions);
    // The job goes to a store in memory first, so that a job that is refused leaves no new store behind.
    await withMillrace(call, "sqlite::memory:", submit);
    const { id, how } = await withMillrace(call, url, submit);
    // Into a pipe or a file goes the bare id, so that a script can use it: ID=$(millrace enqueue ...).
    const told = terminal.isTTY ? `${escapeText(id)} ${how}` : escapeText(id);
    terminal.writeOut(`${wantsJson ? toJson({ id, how, created: how === "created" }) : told}\n`);
    return 0;
  },
};

function readOptions(options: ReadonlyMap<string, string>): EnqueueOptions {
  const read: EnqueueOptions = {};
  for (const key of ["queue", "delay", "id", "unique", "group", "timeout", "deadline", "ttl"] as const) {
    const value = options.get(key);
    if (value !== undefined) read[key] = value;
  }
  const priority = readPriority(options);
  if (priority !== undefined) read.priority = priority;
  const requires = readList(options, "requires");
  if (requires !== undefined) read.requires = requires;
  const tags = readList(options, "tags");
  if (tags !== undefined) read.tags = tags;
  const attempts = readWhole(options, "attempts", [1, Number.MAX_SAFE_INTEGER]);
  if (attempts !== undefined) read.retry = { attempts };
  return read;
}
