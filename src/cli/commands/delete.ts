/** `millrace delete`: takes one job, or one flow, out of the store with its history. */
import { MillraceError } from "../../model/error.ts";
import { changeOne } from "../change-one.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";

export const deleteJob: Command = {
  name: "delete",
  usage: "delete ID",
  summary: "take one job, or one flow with all of its jobs, out of the store, unless it runs",
  words: [1, 1],
  options: storeOption,
  examples: ["delete 0198c2…"],
  run: (call) =>
    changeOne(call, { word: "deleted", told: "deleted" }, async (mill, id) => {
      const answer = await mill.jobs.delete(id);
      const shown = JSON.stringify(id);
      if (answer === "not-found") throw new MillraceError("job-not-found", `There is no job ${shown}.`);
      if (answer === "running")
        throw new MillraceError("job-changed", `The job ${shown} runs; cancel or revoke it first.`);
      if (answer === "flow-member")
        throw new MillraceError("flow-member", `The job ${shown} goes with its flow; delete that.`);
    }),
};
