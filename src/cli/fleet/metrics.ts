/** `millrace metrics`: what all processes have counted, as a table, as JSON, or as Prometheus reads it. */
import type { Millrace } from "../../client/millrace.ts";
import type { MetricCounts, MetricsAnswer, ReadMetricsOptions, Times } from "../../index.ts";
import { durationText } from "../../model/duration.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { formatTable } from "../output/format-table.ts";
import { formatInstant } from "../output/format-time.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { wrong } from "../arguments/read-args.ts";
import { readInstant, readPastInstant } from "../arguments/read-instant.ts";

export const metrics: Command = {
  name: "metrics",
  usage: "metrics [--from 1h] [--to TIME] [--step 5m] [--queue Q] [--name N] [--prometheus]",
  summary: "jobs, outcomes, wait and run times that all processes have counted",
  words: [0, 0],
  options: {
    ...storeOption,
    from: { value: "TIME", meaning: "since then, or for so long; 1h by default" },
    to: { value: "TIME", meaning: "until then; now by default" },
    step: { value: "DURATION", meaning: "a line for each step of whole minutes, instead of one for all" },
    queue: { value: "QUEUE", meaning: "only this queue" },
    name: { value: "NAME", meaning: "only jobs of this name" },
    prometheus: { meaning: "everything in the text format of Prometheus" },
  },
  examples: ["metrics --from 24h", "metrics --from 2h --step 10m --queue email", "metrics --prometheus"],
  async run(call) {
    const { terminal, platform, options, wantsJson } = call;
    const asked = readAsked(options, platform.now());
    if (options.has("prometheus") && (wantsJson || Object.keys(asked).length > 0))
      throw wrong("--prometheus tells everything as it is now: it goes with no other option");
    const url = await existingStoreUrl(call);
    const run = async (mill: Millrace): Promise<number> => {
      if (options.has("prometheus")) {
        terminal.writeOut(await mill.metrics.prometheus());
        return 0;
      }
      const answer = await mill.metrics.read(asked);
      const told = (): string => (options.has("step") ? pointsTable(answer) : seriesTable(answer));
      terminal.writeOut(`${wantsJson ? toJson(answer) : told()}\n`);
      return 0;
    };
    return withMillrace(call, url, run, { metrics: false });
  },
};

function readAsked(options: ReadonlyMap<string, string>, now: number): ReadMetricsOptions {
  const [from, to] = [readPastInstant(options, "from", now), readInstant(options, "to")];
  const [step, queue, name] = [options.get("step"), options.get("queue"), options.get("name")];
  return {
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
    ...(step === undefined ? {} : { step }),
    ...(queue === undefined ? {} : { queue }),
    ...(name === undefined ? {} : { name }),
  };
}

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

function seriesTable({ series, all, from, to }: MetricsAnswer): string {
  if (series.length === 0) return nothing(from, to);
  const rows = series.map((each) => [each.queue, each.name, ...cells(each.all)]);
  const sum = series.length === 1 ? [] : [["all", "", ...cells(all)]];
  return formatTable([...titles, ...counted], [...rows, ...sum]);
}

function pointsTable({ series, from, to }: MetricsAnswer): string {
  if (series.length === 0) return nothing(from, to);
  const rows = series.flatMap(({ queue, name, points }) =>
    points.map((point) => ({ at: point.at, row: [formatInstant(point.at), queue, name, ...cells(point)] })),
  );
  const sorted = rows.toSorted((one, other) => one.at.getTime() - other.at.getTime());
  return formatTable(
    [{ title: "FROM" }, ...titles, ...counted],
    sorted.map(({ row }) => row),
  );
}

function nothing(from: Date, to: Date): string {
  return `nothing was counted between ${formatInstant(from)} and ${formatInstant(to)}`;
}

function cells({ enqueued, attempts, outcomes, wait, run, total }: MetricCounts): readonly string[] {
  const { completed = 0, failed = 0, "retry-scheduled": retried = 0 } = outcomes;
  return [
    ...[enqueued, completed, retried, failed, attempts - completed - failed - retried].map(String),
    ...[time(wait, "p50Ms"), time(wait, "p95Ms"), time(wait, "p99Ms")],
    ...[time(run, "p50Ms"), time(run, "p95Ms"), time(run, "p99Ms"), time(run, "maxMs")],
    time(total, "p95Ms"),
  ];
}

function time(times: Times | null, which: "p50Ms" | "p95Ms" | "p99Ms" | "maxMs"): string {
  if (times === null) return "";
  const ms = times[which];
  return ms < 10 ? `${ms.toFixed(1)}ms` : durationText(ms);
}
