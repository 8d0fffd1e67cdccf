/** `millrace run-now`: lets a waiting job start as soon as a worker is free. */
import { json } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { changeOne } from "./change-one.ts";

export const runNow = command({
  name: "run-now",
  words: "ID",
  summary: "let a waiting job start as soon as a worker is free",
  options: { input: json("run with this input instead") },
  examples: ["run-now 0198c2…"],
  run: (call) =>
    changeOne(call, { word: "due", sentence: "is due now" }, (mill, id) =>
      mill.jobs.runNow(id, call.options),
    ),
});
