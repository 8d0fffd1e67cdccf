/** Workers as a table, for `workers` and `top`. */
import type { WorkerView } from "../../client/workers/workers.ts";
import { durationText } from "../../model/duration.ts";
import { formatTable } from "../output/format-table.ts";
import { formatAge } from "../output/format-time.ts";

const columns = [
  { title: "WORKER", charsMax: 60 },
  { title: "MODE" },
  { title: "QUEUES", charsMax: 40 },
  { title: "RUNS", isNumber: true },
  { title: "LONGEST" },
  { title: "MEMORY", isNumber: true },
  { title: "LATE", isNumber: true },
  { title: "SEEN" },
];

/** @param now the store's time. */
export function workerTable(workers: readonly WorkerView[], now: number): string {
  return formatTable(
    columns,
    workers.map((worker) => [
      worker.id,
      worker.mode,
      worker.queues.map((queue) => `${queue} ${worker.slots[queue] ?? 0}`).join(", "),
      String(worker.running),
      longest(worker, now),
      `${Math.round(worker.memoryBytes / 1024 / 1024)} MiB`,
      durationText(worker.loopDelayMs),
      formatAge(worker.seenAt, now),
    ]),
  );
}

function longest({ jobs }: WorkerView, now: number): string {
  const since = Math.min(...jobs.map((each) => each.since.getTime()));
  return jobs.length === 0 ? "" : durationText(Math.max(0, now - since));
}
