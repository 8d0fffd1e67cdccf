/** `millrace counts`: how many jobs each queue has in each state; exact, and cheap on a store of any size. */
import { jobStates } from "../../model/job/job-state.ts";
import { text } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { formatTable } from "../output/format-table.ts";

export const counts = command({
  name: "counts",
  summary: "how many jobs each queue has in each state",
  options: { queue: text("QUEUE", "of this queue only") },
  examples: ["counts", "counts --queue email --json"],
  async run({ options: { queue: wanted }, withStore, answer }) {
    const all = await withStore((mill) => mill.jobs.counts());
    const queues = Object.entries(all)
      .filter(([queue]) => wanted === undefined || queue === wanted)
      .toSorted(([left], [right]) => (left < right ? -1 : 1));
    const states = [...jobStates, "held" as const].filter((state) =>
      queues.some(([, ofQueue]) => (ofQueue[state] ?? 0) > 0),
    );
    const columns = [{ title: "QUEUE" }, ...states.map((title) => ({ title, isNumber: true }))];
    const lines = queues.map(([queue, ofQueue]) => [
      queue,
      ...states.map((state) => String(ofQueue[state] ?? 0)),
    ]);
    const table = lines.length === 0 ? "no jobs" : formatTable(columns, lines);
    answer({ queues: Object.fromEntries(queues) }, table);
  },
});
