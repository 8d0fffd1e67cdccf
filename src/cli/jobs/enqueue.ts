/**
 * `millrace enqueue`: makes a job without the handlers' code. Its schema, if it has one, is checked when a worker runs
 * it.
 */
import type { Millrace } from "../../index.ts";
import { job } from "../../index.ts";
import { duration, list, priority, readJson, text, whole } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { storeUrl, withMillrace } from "../store/open-store.ts";

export const enqueue = command({
  name: "enqueue",
  words: "NAME [JSON]",
  summary: "make a job; JSON is its input, - reads it from standard input",
  options: {
    queue: text("QUEUE", "the queue it goes to; default by default"),
    delay: duration("not before this long from now, such as 10m"),
    id: text("ID", "an id of your own: the same id and input is the same job"),
    unique: text("KEY", "no second job while one with this key is unfinished"),
    priority,
    requires: list("A,B", "capabilities that a worker must offer to run it"),
    group: text("KEY", "the group of its queue that it belongs to; groups take turns"),
    tags: list("A,B", "tags to find and cancel it by"),
    attempts: whole("N", "how many runs in all; 10 by default", 1, Number.MAX_SAFE_INTEGER),
    timeout: duration("per attempt"),
    deadline: duration("must have finished this long from now, else it expires"),
    ttl: duration("must have started this long after it was due, else it expires"),
  },
  examples: [
    `enqueue send-welcome '{"userId":"42"}' --queue email --delay 10m`,
    "enqueue report | xargs millrace logs --follow",
  ],
  async run(call) {
    const { terminal, words, answer } = call;
    const [name = "", given] = words;
    const definition = job(name);
    const { attempts, ...others } = call.options;
    const options = attempts === undefined ? others : { ...others, retry: { attempts } };
    const text = given === "-" ? await terminal.readIn() : given;
    const input = text === undefined ? undefined : readJson(text, "The input");
    const url = storeUrl(call);
    const submit = (mill: Millrace) => mill.enqueue(definition, input, options);
    // The job goes to a store in memory first, so that a refused job makes no new store.
    await withMillrace(call, "sqlite::memory:", submit);
    const { id, how } = await withMillrace(call, url, submit);
    // Into a pipe or a file goes the bare id, so that a script can use it: ID=$(millrace enqueue ...).
    const shown = terminal.isTTY ? `${escapeText(id)} ${how}` : escapeText(id);
    answer({ id, how, created: how === "created" }, shown);
  },
});
