/** `millrace cancel`: ends waiting jobs at once and tells running ones. */
import { MillraceError } from "../../model/error.ts";
import { liveStates } from "../../model/job/job-state.ts";
import { storeOption } from "../command.ts";
import type { Call, Command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { filterOptions, hasFilter, readQuery } from "./job-query.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { wrong } from "../arguments/read-args.ts";

const { reason: _endReason, ...liveFilterOptions } = filterOptions;

export const cancel: Command = {
  name: "cancel",
  usage: "cancel ID | --tag T | --queue Q | --name N | --state S",
  summary:
    "cancel jobs, or a flow with all of its jobs: waiting ones end at once, running ones are told to stop",
  words: [0, 1],
  options: {
    ...storeOption,
    ...liveFilterOptions,
    why: { value: "TEXT", meaning: "kept with the jobs as their reason" },
    "pending-only": { meaning: "of a flow: what runs is left to its end" },
  },
  examples: ["cancel 0198c2…", "cancel --tag tenant:42 --why 'account closed'", "cancel FLOW --pending-only"],
  async run(call) {
    const { words, options } = call;
    const [id] = words;
    if ((id === undefined) === !hasFilter(options))
      throw wrong("give either an ID or a filter such as --tag T");
    return id === undefined ? cancelMany(call) : cancelOne(call, id);
  },
};

async function cancelOne(call: Call, id: string): Promise<number> {
  const { terminal, options, wantsJson } = call;
  const reason = options.get("why");
  const answer = await withMillrace(call, await existingStoreUrl(call), async (mill) => {
    if (!options.has("pending-only")) return mill.jobs.cancel(id, reason);
    const { state } = await mill.flows.cancel(id, {
      pendingOnly: true,
      ...(reason === undefined ? {} : { reason }),
    });
    return state === "running" ? "signalled" : state === "cancelled" ? "cancelled" : "finished";
  });
  if (answer === "not-found")
    throw new MillraceError("job-not-found", `There is no job ${JSON.stringify(id)}.`);
  if (answer === "finished")
    throw new MillraceError("job-changed", `The job ${JSON.stringify(id)} has finished already.`);
  const told = answer === "cancelled" ? "cancelled" : "is running and was told to stop";
  terminal.writeOut(wantsJson ? `${toJson({ id, answer })}\n` : `${escapeText(id)} ${told}\n`);
  return 0;
}

async function cancelMany(call: Call): Promise<number> {
  const { terminal, options, wantsJson } = call;
  const query = readQuery(call, liveStates);
  const answers = await withMillrace(call, await existingStoreUrl(call), (mill) =>
    mill.jobs.cancel(query, options.get("why")),
  );
  const { cancelled, signalled, finished } = answers;
  terminal.writeOut(
    wantsJson
      ? `${toJson(answers)}\n`
      : `${cancelled} cancelled, ${signalled} running and told to stop, ${finished} had finished\n`,
  );
  return 0;
}
