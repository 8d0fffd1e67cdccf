/** `millrace retry`: replays finished jobs, one by id or all that match. */
import type { RetryJobOptions } from "../../client/jobs.ts";
import { MillraceError } from "../../model/error.ts";
import { terminalStates } from "../../model/job-state.ts";
import { storeOption } from "../command.ts";
import type { Call, Command } from "../command.ts";
import { filterOptions, hasFilter, readQuery } from "../job-query.ts";
import { existingStoreUrl, withMillrace } from "../open-store.ts";
import { toJson } from "../print-json.ts";
import { readJson, readWhole, wrong } from "../read-args.ts";

export const retry: Command = {
  name: "retry",
  usage: "retry ID | --state failed [--name N] [--queue Q] [--tag T] [--before TIME]",
  summary:
    "run finished jobs again: one by id, or all that match (failed ones unless --state says otherwise)",
  words: [0, 1],
  options: {
    ...storeOption,
    ...filterOptions,
    delay: { value: "DURATION", meaning: "not before this long from now" },
    input: { value: "JSON", meaning: "run with this input instead (one job only)" },
    "one-attempt": { meaning: "one more attempt instead of a new round of them" },
    "per-second": { value: "N", meaning: "spread many over time, so many per second" },
  },
  examples: ["retry 0198c2…", "retry --state failed --name send-welcome --per-second 10"],
  async run(call) {
    const { terminal, words, options, wantsJson } = call;
    const [id] = words;
    if ((id === undefined) === !hasFilter(options))
      throw wrong("give either an ID or a filter such as --state failed");
    if (id === undefined && options.has("input")) throw wrong("--input goes with one ID");
    const target = readQuery(call, terminalStates);
    const retryOptions = readOptions(options);
    const url = await existingStoreUrl(call);
    const retried =
      id === undefined
        ? (await withMillrace(call, url, (mill) => mill.jobs.retry(target, retryOptions))).replayed
        : await retryOne(call, url, id, retryOptions);
    terminal.writeOut(
      wantsJson
        ? `${toJson({ retried })}\n`
        : `${retried} ${retried === 1 ? "job" : "jobs"} will run again\n`,
    );
    return 0;
  },
};

async function retryOne(call: Call, url: string, id: string, options: RetryJobOptions): Promise<1> {
  const answer = await withMillrace(call, url, (mill) => mill.jobs.retry(id, options));
  const shown = JSON.stringify(id);
  switch (answer) {
    case "replayed":
      return 1;
    case "not-found":
      throw new MillraceError("job-not-found", `There is no job ${shown}.`);
    case "key-held":
      throw new MillraceError("key-held", `The unique key of ${shown} is held by another job.`);
    case "unfinished":
      throw new MillraceError("job-changed", `The job ${shown} has not ended; there is nothing to retry.`);
  }
}

function readOptions(options: ReadonlyMap<string, string>): RetryJobOptions {
  const read: RetryJobOptions = {};
  const [delay, input] = [options.get("delay"), options.get("input")];
  if (delay !== undefined) read.delay = delay;
  if (input !== undefined) read.input = readJson(input, "--input");
  if (options.has("one-attempt")) read.resetAttempts = false;
  const perSecond = readWhole(options, "per-second", [1, 1_000_000]);
  if (perSecond !== undefined) read.perSecond = perSecond;
  return read;
}
