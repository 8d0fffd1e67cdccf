/** `millrace purge`: deletes all jobs that match, with their history. */
import { deleteChange } from "../../model/job/operate.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import { filterOptions, hasFilter, queryOf } from "./job-query.ts";

export const purge = command({
  name: "purge",
  summary: "delete all jobs that match, with their history, unless they run",
  options: filterOptions(deleteChange.states),
  examples: ["purge --state completed,cancelled --before 30d", "purge --queue email"],
  async run({ options, withStore, answer }) {
    if (!hasFilter(options)) throw wrong("give a filter such as --state completed or --queue Q");
    const answers = await withStore((mill) => mill.jobs.delete(queryOf(options)));
    const { deleted, running, "flow-member": members, "has-undo": undos } = answers;
    const stay = members === 0 ? "" : `, ${members} stay with their flows`;
    const undo = undos === 0 ? "" : `, ${undos} have steps to undo and stay: cancel them`;
    answer(answers, `${deleted} deleted, ${running} run and stay${stay}${undo}`);
  },
});
