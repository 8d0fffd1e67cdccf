/** `millrace edit`: changes the input, priority or headers of a job that has not started. */
import type { EditJobOptions } from "../../client/jobs/jobs.ts";
import { changeOne } from "./change-one.ts";
import { storeOption } from "../command.ts";
import type { Call, Command } from "../command.ts";
import { readJson, readPriority, wrong } from "../arguments/read-args.ts";

export const edit: Command = {
  name: "edit",
  usage: "edit ID [--input JSON] [--priority LEVEL] [--headers JSON]",
  summary: "change the input, priority or headers of a job that has not started",
  words: [1, 1],
  options: {
    ...storeOption,
    input: { value: "JSON", meaning: "replaces the input" },
    priority: { value: "LEVEL", meaning: "critical, high, normal, low, lowest, or a number (lower first)" },
    headers: { value: "JSON", meaning: 'replace the headers, such as {"tenant":"42"}' },
  },
  examples: [`edit 0198c2… --input '{"userId":"43"}' --priority high`],
  run(call) {
    const changes = readChanges(call);
    return changeOne(call, { word: "edited", told: "edited" }, (mill, id) => mill.jobs.edit(id, changes));
  },
};

function readChanges({ options }: Call): EditJobOptions {
  const changes: EditJobOptions = {};
  const [input, headers] = [options.get("input"), options.get("headers")];
  const priority = readPriority(options);
  if (input !== undefined) changes.input = readJson(input, "--input");
  if (headers !== undefined) changes.headers = readJson(headers, "--headers") as Record<string, string>;
  if (priority !== undefined) changes.priority = priority;
  if (Object.keys(changes).length === 0) throw wrong("give --input, --priority or --headers");
  return changes;
}
