/** `millrace counts`: how many jobs each queue has in each state; exact, and cheap on a store of any size. */
import { jobStates } from "../../model/job/job-state.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { formatTable } from "../output/format-table.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";

export const counts: Command = {
  name: "counts",
  usage: "counts [--queue Q]",
  summary: "how many jobs each queue has in each state",
  words: [0, 0],
  options: { ...storeOption, queue: { value: "QUEUE", meaning: "of this queue only" } },
  examples: ["counts", "counts --queue email --json"],
  async run(call) {
    const { terminal, options, wantsJson } = call;
    const all = await withMillrace(call, await existingStoreUrl(call), (mill) => mill.jobs.counts());
    const wanted = options.get("queue");
    const queues = Object.entries(all)
      .filter(([queue]) => wanted === undefined || queue === wanted)
      .toSorted(([left], [right]) => (left < right ? -1 : 1));
    if (wantsJson) {
      terminal.writeOut(`${toJson({ queues: Object.fromEntries(queues) })}\n`);
      return 0;
    }
    const states = [...jobStates, "held" as const].filter((state) =>
      queues.some(([, stateCount]) => (stateCount[state] ?? 0) > 0),
    );
    const columns = [{ title: "QUEUE" }, ...states.map((title) => ({ title, isNumber: true }))];
    const rows = queues.map(([queue, stateCount]) => [
      queue,
      ...states.map((state) => String(stateCount[state] ?? 0)),
    ]);
    terminal.writeOut(rows.length === 0 ? "no jobs\n" : `${formatTable(columns, rows)}\n`);
    return 0;
  },
};
