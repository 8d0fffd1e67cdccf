/** `millrace edit`: changes the input, priority or headers of a job that has not started. */
import type { EditJobOptions } from "../../client/jobs/jobs.ts";
import { json, priority } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import { changeOne } from "./change-one.ts";

export const edit = command({
  name: "edit",
  words: "ID",
  summary: "change the input, priority or headers of a job that has not started",
  options: {
    input: json("replaces the input"),
    priority,
    headers: json('replace the headers, such as {"tenant":"42"}'),
  },
  examples: [`edit 0198c2… --input '{"userId":"43"}' --priority high`],
  run(call) {
    if (Object.keys(call.options).length === 0) throw wrong("give --input, --priority or --headers");
    // Headers are checked by the client, in the words that code gets.
    return changeOne(call, { word: "edited" }, (mill, id) =>
      mill.jobs.edit(id, call.options as EditJobOptions),
    );
  },
});
