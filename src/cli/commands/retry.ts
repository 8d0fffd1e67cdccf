/** `millrace retry`: replays finished jobs, one by id or all that match. */
import type { RetryJobOptions } from "../../client/jobs.ts";
import { terminalStates } from "../../model/job-state.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { filterOptions, hasFilter, readQuery } from "../job-query.ts";
import { existingStoreUrl, withMillrace } from "../open-store.ts";
import { toJson } from "../print-json.ts";
import { readJson, readWhole, wrong } from "../read-args.ts";

export const retry: Command = {
  name: "retry",
  usage: "retry ID | --state failed [--name N] [--queue Q] [--tag T] [--reason R]",
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
    const target = id ?? { ...readQuery(options, terminalStates) };
    const retryOptions = readOptions(options);
    const retried = await withMillrace(call, await existingStoreUrl(call), (mill) =>
      mill.jobs.retry(target, retryOptions),
    );
    terminal.writeOut(
      wantsJson
        ? `${toJson({ retried })}\n`
        : `${retried} ${retried === 1 ? "job" : "jobs"} will run again\n`,
    );
    return 0;
  },
};

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
