/** `millrace delete`: deletes one job, one flow, or an unreadable record, with its history. */
import { MillraceError } from "../../model/error.ts";
import { flag } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { changeOne } from "./change-one.ts";
import { noSuchJob } from "./no-such-job.ts";

export const deleteJob = command({
  name: "delete",
  words: "ID",
  summary: "delete one job, or one flow with all of its jobs, unless it runs",
  options: {
    unreadable: flag("ID is the ref of a record that could not be read, as millrace duties shows it"),
  },
  examples: ["delete 0198c2…", "delete 3:a4 --unreadable"],
  run: (call) =>
    changeOne(call, { word: "deleted" }, async (mill, id) => {
      if (call.options.unreadable) {
        // A ref may hold characters that no terminal shows or takes; it is then known by how it was shown.
        const refs = (await mill.unreadable.list())
          .map((each) => each.ref)
          .filter((ref) => ref === id || escapeText(ref) === id);
        if ((await mill.unreadable.delete(refs)) > 0) return undefined;
        throw new MillraceError(
          "job-not-found",
          `There is no unreadable record with the ref ${JSON.stringify(id)}; millrace duties lists all that there are.`,
        );
      }
      const answer = await mill.jobs.delete(id);
      const shown = JSON.stringify(id);
      if (answer === "not-found") throw noSuchJob(id);
      if (answer === "running")
        throw new MillraceError("job-changed", `The job ${shown} runs; cancel or revoke it first.`);
      if (answer === "has-undo")
        throw new MillraceError("job-changed", `The run ${shown} has steps to undo; cancel it instead.`);
      if (answer === "flow-member")
        throw new MillraceError("flow-member", `The job ${shown} goes with its flow; delete that.`);
      return answer === "deleted"
        ? undefined
        : { word: answer, sentence: "is deleted; some of its jobs are left to a process with duties" };
    }),
});
