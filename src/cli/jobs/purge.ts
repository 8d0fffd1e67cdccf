/** `millrace purge`: takes all jobs that match out of the store with their history. */
import { removeChange } from "../../model/job/operate.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { filterOptions, hasFilter, readQuery } from "./job-query.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { wrong } from "../arguments/read-args.ts";

export const purge: Command = {
  name: "purge",
  usage: "purge --state completed [--queue Q] [--name N] [--tag T] [--before TIME]",
  summary: "take all jobs that match out of the store with their history, unless they run",
  words: [0, 0],
  options: { ...storeOption, ...filterOptions },
  examples: ["purge --state completed,cancelled --before 30d", "purge --queue email"],
  async run(call) {
    const { terminal, options, wantsJson } = call;
    if (!hasFilter(options)) throw wrong("give a filter such as --state completed or --queue Q");
    const query = readQuery(call, removeChange.states);
    const answers = await withMillrace(call, await existingStoreUrl(call), (mill) => mill.jobs.delete(query));
    const { deleted, running, "flow-member": members } = answers;
    const stay = members === 0 ? "" : `, ${members} stay with their flows`;
    terminal.writeOut(
      wantsJson ? `${toJson(answers)}\n` : `${deleted} deleted, ${running} run and stay${stay}\n`,
    );
    return 0;
  },
};
