/** `millrace retry`: replays finished jobs, one by id or all that match. */
import type { Answers } from "../../client/jobs/cancel-jobs.ts";
import type { RetryAnswer, RetryJobOptions } from "../../client/jobs/jobs.ts";
import { MillraceError } from "../../model/error.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import { duration, flag, json, list, whole } from "../arguments/option-kinds.ts";
import type { ValuesOf } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import type { Call } from "../command.ts";
import { filterOptions, hasFilter, queryOf } from "./job-query.ts";
import { noSuchJob } from "./no-such-job.ts";

const options = {
  ...filterOptions(terminalStates),
  delay: duration("not before this long from now"),
  input: json("run with this input instead (one job only)"),
  "one-attempt": flag("one more attempt instead of a new round of them"),
  "per-second": whole("N", "spread many over time, N per second", 1, 1_000_000),
  node: list("NODES", 'of a flow: these nodes instead of all that failed; "all" for every node'),
  "with-rest": flag("of a flow: also what comes after them, although it has run"),
};
type RetryCall = Call<ValuesOf<typeof options>>;

export const retry = command({
  name: "retry",
  words: "[ID]",
  summary:
    "run finished jobs again: one by id, or all that match (failed ones unless --state says otherwise)",
  options,
  examples: [
    "retry 0198c2…",
    "retry FLOW --node fetch --with-rest",
    "retry --state failed --name send-welcome --per-second 10",
  ],
  async run(call) {
    const [id] = call.words;
    const { delay, input, "per-second": perSecond, ...others } = call.options;
    if ((id === undefined) === !hasFilter(others))
      throw wrong("give either an ID or a filter such as --state failed");
    if (id === undefined && "input" in call.options) throw wrong("--input goes with one ID");
    if (others.node !== undefined || others["with-rest"]) return replayFlow(call, id);
    const given: RetryJobOptions = {
      ...(delay === undefined ? {} : { delay }),
      ...("input" in call.options ? { input } : {}),
      ...(others["one-attempt"] ? { resetAttempts: false } : {}),
      ...(perSecond === undefined ? {} : { perSecond }),
    };
    if (id !== undefined) return retryOne(call, id, given);
    const answers = await call.withStore((mill) => mill.jobs.retry(queryOf(others), given));
    call.answer(answers, sentenceOf(answers));
  },
});

function sentenceOf(answers: Answers<RetryAnswer>): string {
  const { retried, unfinished, "key-held": keys, "flow-member": members } = answers;
  const others = [
    unfinished === 0 ? "" : `, ${unfinished} had not ended`,
    keys === 0 ? "" : `, ${keys} stay because another job holds their unique key`,
    members === 0 ? "" : `, ${members} stay with their flows`,
  ];
  return `${retried} ${retried === 1 ? "job" : "jobs"} will run again${others.join("")}`;
}

async function retryOne(call: RetryCall, id: string, given: RetryJobOptions): Promise<void> {
  const answer = await call.withStore((mill) => mill.jobs.retry(id, given));
  const shown = JSON.stringify(id);
  switch (answer) {
    case "retried":
      call.answer({ id, answer }, "1 job will run again");
      return;
    case "not-found":
      throw noSuchJob(id);
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
async function replayFlow(
  { options: given, withStore, answer: print }: RetryCall,
  id?: string,
): Promise<void> {
  if (id === undefined) throw wrong("--node and --with-rest go with the ID of a flow");
  const nodes = given.node?.length === 1 && given.node[0] === "all" ? "all" : given.node;
  const answer = await withStore((mill) =>
    mill.flows.retry(id, {
      ...(nodes === undefined ? {} : { nodes }),
      ...(given["with-rest"] ? { withRest: true } : {}),
    }),
  );
  const { runs, waits } = answer;
  print(answer, `${runs} ${runs === 1 ? "node" : "nodes"} will run again, ${waits} wait for them`);
}
