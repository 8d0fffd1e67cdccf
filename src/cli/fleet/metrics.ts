/** `millrace metrics`: what all processes have counted, as a table, as JSON, or as Prometheus reads it. */
import type { MetricCounts, MetricsAnswer, Times } from "../../index.ts";
import { durationText } from "../../model/duration.ts";
import { duration, flag, instant, pastInstant, text } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import { formatTable } from "../output/format-table.ts";
import { formatInstant } from "../output/format-time.ts";

export const metrics = command({
  name: "metrics",
  summary: "jobs, outcomes, wait and run times that all processes have counted",
  options: {
    from: pastInstant("since then, or for so long; 1h by default"),
    to: instant("until then; now by default"),
    step: duration("a line for each step of whole minutes, instead of one for all"),
    queue: text("QUEUE", "only this queue"),
    name: text("NAME", "only jobs of this name"),
    prometheus: flag("everything in the text format of Prometheus"),
  },
  examples: ["metrics --from 24h", "metrics --from 2h --step 10m --queue email", "metrics --prometheus"],
  async run({ terminal, options: { prometheus, ...asked }, withStore, answer, wantsJson }) {
    if (prometheus && (wantsJson || Object.keys(asked).length > 0))
      throw wrong("--prometheus prints everything as it is now, so it takes no other option");
    const quiet = { metrics: false };
    if (prometheus) return terminal.writeOut(await withStore((mill) => mill.metrics.prometheus(), quiet));
    const counts = await withStore((mill) => mill.metrics.read(asked), quiet);
    answer(counts, () => (asked.step === undefined ? seriesTable(counts) : pointsTable(counts)));
  },
});

const titles = [
  { title: "QUEUE", charsMax: 40 },
  { title: "JOB", charsMax: 40 },
];
const counted = [
  "ENQUEUED",
  "DONE",
  "RETRIED",
  "FAILED",
  "OTHER",
  "WAIT p50",
  "p95",
  "p99",
  "RUN p50",
  "p95",
  "p99",
  "MAX",
  "TOTAL p95",
].map((title) => ({ title, isNumber: true }));
/** Only where durable runs have steps. */
const ofSteps = ["STEPS", "FAILED", "STEP p95"].map((title) => ({ title, isNumber: true }));

function seriesTable({ series, all, from, to }: MetricsAnswer): string {
  if (series.length === 0) return nothing(from, to);
  const hasSteps = all.steps !== null;
  const rows = series.map((each) => [each.queue, each.name, ...cells(each.all, hasSteps)]);
  const sum = series.length === 1 ? [] : [["all", "", ...cells(all, hasSteps)]];
  return formatTable([...titles, ...counted, ...(hasSteps ? ofSteps : [])], [...rows, ...sum]);
}

function pointsTable({ series, all, from, to }: MetricsAnswer): string {
  if (series.length === 0) return nothing(from, to);
  const hasSteps = all.steps !== null;
  const rows = series.flatMap(({ queue, name, points }) =>
    points.map((point) => ({
      at: point.at,
      row: [formatInstant(point.at), queue, name, ...cells(point, hasSteps)],
    })),
  );
  const sorted = rows.toSorted((one, other) => one.at.getTime() - other.at.getTime());
  return formatTable(
    [{ title: "FROM" }, ...titles, ...counted, ...(hasSteps ? ofSteps : [])],
    sorted.map(({ row }) => row),
  );
}

function nothing(from: Date, to: Date): string {
  return `nothing was counted between ${formatInstant(from)} and ${formatInstant(to)}`;
}

function cells(
  { enqueued, attempts, outcomes, wait, run, total, steps }: MetricCounts,
  hasSteps: boolean,
): readonly string[] {
  const stepCells =
    steps === null ? ["", "", ""] : [`${steps.completed}`, `${steps.failed}`, time(steps.run, "p95Ms")];
  const { completed = 0, failed = 0, "retry-scheduled": retried = 0 } = outcomes;
  return [
    ...[enqueued, completed, retried, failed, attempts - completed - failed - retried].map(String),
    ...[time(wait, "p50Ms"), time(wait, "p95Ms"), time(wait, "p99Ms")],
    ...[time(run, "p50Ms"), time(run, "p95Ms"), time(run, "p99Ms"), time(run, "maxMs")],
    time(total, "p95Ms"),
    ...(hasSteps ? stepCells : []),
  ];
}

function time(times: Times | null, which: "p50Ms" | "p95Ms" | "p99Ms" | "maxMs"): string {
  if (times === null) return "";
  const ms = times[which];
  return ms < 10 ? `${ms.toFixed(1)}ms` : durationText(ms);
}
