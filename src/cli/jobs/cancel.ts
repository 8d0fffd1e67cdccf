/** `millrace cancel`: ends waiting jobs at once and asks running ones to stop. */
import { MillraceError } from "../../model/error.ts";
import { liveStates } from "../../model/job/job-state.ts";
import { flag, text } from "../arguments/option-kinds.ts";
import type { ValuesOf } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import type { Call } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { filterOptions, hasFilter, queryOf } from "./job-query.ts";
import { noSuchJob } from "./no-such-job.ts";

const { reason: _endReason, ...liveFilter } = filterOptions(liveStates);
const options = {
  ...liveFilter,
  why: text("TEXT", "kept with the jobs as their reason"),
  "pending-only": flag("of a flow: what runs is left to its end"),
};

export const cancel = command({
  name: "cancel",
  words: "[ID]",
  summary:
    "cancel jobs, or a flow with all of its jobs: waiting ones end at once, running ones are asked to stop",
  options,
  examples: ["cancel 0198c2…", "cancel --tag tenant:42 --why 'account closed'", "cancel FLOW --pending-only"],
  async run(call) {
    const [id] = call.words;
    if ((id === undefined) === !hasFilter(call.options))
      throw wrong("give either an ID or a filter such as --tag T");
    return id === undefined ? cancelMany(call) : cancelOne(call, id);
  },
});

type CancelCall = Call<ValuesOf<typeof options>>;

async function cancelOne(
  { options: given, withStore, answer: print }: CancelCall,
  id: string,
): Promise<void> {
  const { why: reason } = given;
  const answer = await withStore(async (mill) => {
    if (!given["pending-only"]) return mill.jobs.cancel(id, reason);
    const { state } = await mill.flows.cancel(id, {
      pendingOnly: true,
      ...(reason === undefined ? {} : { reason }),
    });
    return state === "running" ? "signalled" : state === "cancelled" ? "cancelled" : "finished";
  });
  if (answer === "not-found") throw noSuchJob(id);
  if (answer === "finished")
    throw new MillraceError("job-changed", `The job ${JSON.stringify(id)} has finished already.`);
  const sentence = answer === "cancelled" ? "cancelled" : "is running and was asked to stop";
  print({ id, answer }, `${escapeText(id)} ${sentence}`);
}

async function cancelMany({ options: { why, ...filter }, withStore, answer }: CancelCall): Promise<void> {
  const answers = await withStore((mill) => mill.jobs.cancel(queryOf(filter), why));
  const { cancelled, signalled, finished } = answers;
  answer(answers, `${cancelled} cancelled, ${signalled} running and asked to stop, ${finished} had finished`);
}
