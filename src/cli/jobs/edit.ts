/** `millrace edit`: changes the input, priority, headers or tags of a job that has not started. */
import type { EditJobOptions } from "../../client/jobs/jobs.ts";
import { json, list, orNone, priority } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import { changeOne } from "./change-one.ts";

export const edit = command({
  name: "edit",
  words: "ID",
  summary: "change the input, priority, headers or tags of a job that has not started",
  options: {
    input: json("replaces the input"),
    priority,
    headers: json('replace the headers, such as {"tenant":"42"}'),
    tags: orNone(list("A,B", "replace the tags; none takes them away")),
  },
  examples: [`edit 0198c2… --input '{"userId":"43"}' --priority high`],
  run(call) {
    if (Object.keys(call.options).length === 0) throw wrong("give --input, --priority, --headers or --tags");
    const { tags, ...others } = call.options;
    const edited = { ...others, ...(tags === undefined ? {} : { tags: tags ?? [] }) };
    // Headers and tags are checked by the client, in the words that code gets.
    return changeOne(call, { word: "edited" }, (mill, id) => mill.jobs.edit(id, edited as EditJobOptions));
  },
});
