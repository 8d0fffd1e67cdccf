/** `millrace reschedule`: gives a waiting job another due time. */
import type { WhenOptions } from "../../client/jobs/jobs.ts";
import { changeOne } from "./change-one.ts";
import { storeOption } from "../command.ts";
import type { Call, Command } from "../command.ts";
import { formatInstant } from "../output/format-time.ts";
import { wrong } from "../arguments/read-args.ts";
import { readInstant } from "../arguments/read-instant.ts";

export const reschedule: Command = {
  name: "reschedule",
  usage: "reschedule ID --delay 10m | --at TIME",
  summary: "give a waiting job another due time",
  words: [1, 1],
  options: {
    ...storeOption,
    delay: { value: "DURATION", meaning: "due this long from now" },
    at: { value: "TIME", meaning: "due at this time, such as 2026-01-31T12:00Z" },
  },
  examples: ["reschedule 0198c2… --delay 2h", "reschedule 0198c2… --at 2026-01-31T12:00Z"],
  run(call) {
    const { when, told } = readWhen(call);
    return changeOne(call, { word: "rescheduled", told }, (mill, id) => mill.jobs.reschedule(id, when));
  },
};

function readWhen({ options }: Call): { readonly when: WhenOptions; readonly told: string } {
  const [delay, runAt] = [options.get("delay"), readInstant(options, "at")];
  if ((delay === undefined) === (runAt === undefined)) throw wrong("give either --delay or --at");
  if (runAt !== undefined) return { when: { runAt }, told: `is due at ${formatInstant(runAt)}` };
  return { when: { delay: delay as string }, told: `is due in ${delay}` };
}
