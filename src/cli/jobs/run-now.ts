/** `millrace run-now`: wakes a scheduled job, so that it starts as soon as a worker is free. */
import { MillraceError } from "../../model/error.ts";
import { json } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { noSuchJob } from "./no-such-job.ts";

export const runNow = command({
  name: "run-now",
  words: "ID",
  summary: "wake a scheduled job, so that it starts as soon as a worker is free",
  options: {
    input: json("run with this input instead"),
    attach: json("a payload for the handler, beside the input"),
  },
  examples: ["run-now 0198c2…", `run-now 0198c2… --attach '{"paid":true}'`],
  async run({ words: [id = ""], options, withStore, answer: print }) {
    const answer = await withStore((mill) => mill.jobs.runNow(id, options));
    if (answer === "not-found") throw noSuchJob(id);
    if (answer === "not-scheduled")
      throw new MillraceError(
        "job-changed",
        `The job ${JSON.stringify(id)} is not scheduled, so there is nothing to wake; see it with: millrace show ${JSON.stringify(id)}`,
      );
    print({ id, answer }, `${escapeText(id)} is due now`);
  },
});
