/** `millrace run-now`: lets a waiting job start as soon as a worker is free. */
import { changeOne } from "./change-one.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { readJson } from "../arguments/read-args.ts";

export const runNow: Command = {
  name: "run-now",
  usage: "run-now ID [--input JSON]",
  summary: "let a waiting job start as soon as a worker is free",
  words: [1, 1],
  options: { ...storeOption, input: { value: "JSON", meaning: "run with this input instead" } },
  examples: ["run-now 0198c2…"],
  run(call) {
    const input = call.options.get("input");
    const options = input === undefined ? {} : { input: readJson(input, "--input") };
    return changeOne(call, { word: "due", told: "is due now" }, (mill, id) => mill.jobs.runNow(id, options));
  },
};
