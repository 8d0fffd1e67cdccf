/** `millrace retry`: replays finished jobs, one by id or all that match. */
import type { Answers } from "../../client/jobs/cancel-jobs.ts";
import type { RetryAnswer, RetryJobOptions } from "../../client/jobs/jobs.ts";
import { MillraceError } from "../../model/error.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import { storeOption } from "../command.ts";
import type { Call, Command } from "../command.ts";
import { filterOptions, hasFilter, readQuery } from "./job-query.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { readJson, readList, readWhole, wrong } from "../arguments/read-args.ts";

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
    node: {
      value: "NODES",
      meaning: 'of a flow: these nodes instead of all that failed; "all" for every node',
    },
    "with-rest": { meaning: "of a flow: also what comes after them, although it has run" },
  },
  examples: [
    "retry 0198c2…",
    "retry FLOW --node fetch --with-rest",
    "retry --state failed --name send-welcome --per-second 10",
  ],
  async run(call) {
    const { terminal, words, options, wantsJson } = call;
    const [id] = words;
    if ((id === undefined) === !hasFilter(options))
      throw wrong("give either an ID or a filter such as --state failed");
    if (id === undefined && options.has("input")) throw wrong("--input goes with one ID");
    const target = readQuery(call, terminalStates);
    const retryOptions = readOptions(options);
    const url = await existingStoreUrl(call);
    if (options.has("node") || options.has("with-rest")) return replayFlow(call, url, id);
    if (id !== undefined) return retryOne(call, url, id, retryOptions);
    const answers = await withMillrace(call, url, (mill) => mill.jobs.retry(target, retryOptions));
    terminal.writeOut(`${wantsJson ? toJson(answers) : sentenceOf(answers)}\n`);
    return 0;
  },
};

function sentenceOf(answers: Answers<RetryAnswer>): string {
  const { replayed, unfinished, "key-held": keys, "flow-member": members } = answers;
  const others = [
    unfinished === 0 ? "" : `, ${unfinished} had not ended`,
    keys === 0 ? "" : `, ${keys} stay because another job holds their unique key`,
    members === 0 ? "" : `, ${members} stay with their flows`,
  ];
  return `${replayed} ${replayed === 1 ? "job" : "jobs"} will run again${others.join("")}`;
}

async function retryOne(call: Call, url: string, id: string, options: RetryJobOptions): Promise<number> {
  const { terminal, wantsJson } = call;
  const answer = await withMillrace(call, url, (mill) => mill.jobs.retry(id, options));
  const shown = JSON.stringify(id);
  switch (answer) {
    case "replayed":
      terminal.writeOut(wantsJson ? `${toJson({ id, answer })}\n` : "1 job will run again\n");
      return 0;
    case "not-found":
      throw new MillraceError("job-not-found", `There is no job ${shown}.`);
    case "key-held":
      throw new MillraceError("key-held", `The unique key of ${shown} is held by another job.`);
    case "flow-member":
      throw new MillraceError(
        "flow-member",
        `${shown} is run again by its flow, as it was: without --delay, --input and --one-attempt.`,
      );
    case "unfinished":
      throw new MillraceError(
        "job-changed",
        `The job ${shown} has not ended, or nothing failed in it; there is nothing to retry.`,
      );
  }
}

/** Nodes of a flow that were named. */
async function replayFlow(call: Call, url: string, id: string | undefined): Promise<number> {
  const { terminal, options, wantsJson } = call;
  if (id === undefined) throw wrong("--node and --with-rest go with the ID of a flow");
  const given = readList(options, "node");
  const nodes = given?.length === 1 && given[0] === "all" ? "all" : given;
  const answer = await withMillrace(call, url, (mill) =>
    mill.flows.replay(id, {
      ...(nodes === undefined ? {} : { nodes }),
      ...(options.has("with-rest") ? { withRest: true } : {}),
    }),
  );
  const { runs, waits } = answer;
  const told = `${runs} ${runs === 1 ? "node" : "nodes"} will run again, ${waits} wait for them\n`;
  terminal.writeOut(wantsJson ? `${toJson(answer)}\n` : told);
  return 0;
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
