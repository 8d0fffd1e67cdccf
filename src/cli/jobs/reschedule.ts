/** `millrace reschedule`: gives a waiting job another due time. */
import { durationText } from "../../model/duration.ts";
import { duration, instant } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import { formatInstant } from "../output/format-time.ts";
import { changeOne } from "./change-one.ts";

export const reschedule = command({
  name: "reschedule",
  words: "ID",
  summary: "give a waiting job another due time",
  options: {
    delay: duration("due this long from now"),
    at: instant("due at this time, such as 2026-01-31T12:00Z"),
  },
  examples: ["reschedule 0198c2… --delay 2h", "reschedule 0198c2… --at 2026-01-31T12:00Z"],
  run(call) {
    const { delay, at } = call.options;
    if ((delay === undefined) === (at === undefined)) throw wrong("give either --delay or --at");
    const sentence =
      at === undefined ? `is due in ${durationText(delay as number)}` : `is due at ${formatInstant(at)}`;
    return changeOne(call, { word: "rescheduled", sentence }, (mill, id) =>
      mill.jobs.reschedule(id, at === undefined ? { delay: delay as number } : { runAt: at }),
    );
  },
});
