/**
 * The metrics of duties for Prometheus. Each counter belongs to one process, because a sum over live processes would
 * fall whenever one ends. On a store of several partitions, counts that are known per partition have its label; the
 * remainder has none, so that sums are right.
 */
import type { DutyFigures } from "../../engine/duties/duty-figures.ts";
import type { Family, Labels, Sample } from "../../model/metrics/prometheus-text.ts";
import type { ProcessDuties } from "../workers/duty-views.ts";

type Counted = "processed" | "errors" | "quarantined";

export function dutyFamilies(processes: readonly ProcessDuties[]): readonly Family[] {
  const all = processes.flatMap(({ process, duties }) =>
    Object.entries(duties).map(([duty, figures]) => ({ labels: { duty, process }, figures })),
  );
  const counts = (field: Counted): readonly Sample[] =>
    all.flatMap(({ labels, figures }) => splitCount(labels, figures, field));
  return [
    {
      name: "millrace_duty_processed_total",
      help: "Items that the duty has processed since its process started.",
      type: "counter",
      samples: counts("processed"),
    },
    {
      name: "millrace_duty_errors_total",
      help: "Items, partitions and passes of the duty that failed since its process started.",
      type: "counter",
      samples: counts("errors"),
    },
    {
      name: "millrace_duty_quarantined_items",
      help: "Items that the duty quarantines for now.",
      type: "gauge",
      samples: counts("quarantined"),
    },
    {
      name: "millrace_duty_lag_seconds",
      help: "How long ago the duty was last done by the process; with a partition, there.",
      type: "gauge",
      samples: all.flatMap(({ labels, figures }) => lagsOf(labels, figures)),
    },
  ];
}

function splitCount(labels: Labels, figures: DutyFigures, field: Counted): readonly Sample[] {
  const split = Object.entries(figures.partitions ?? {}).flatMap(([partition, own]) =>
    own[field] === undefined ? [] : [{ labels: { ...labels, partition }, value: own[field] }],
  );
  const remainder = figures[field] - split.reduce((sum, { value }) => sum + value, 0);
  return [{ labels, value: Math.max(0, remainder) }, ...split];
}

function lagsOf(labels: Labels, { lastPassMs, partitions = {} }: DutyFigures): readonly Sample[] {
  const own = lastPassMs === null ? [] : [{ labels, value: lastPassMs / 1000 }];
  const missing = Object.entries(partitions).flatMap(([partition, { lastPassMs: lagMs }]) =>
    typeof lagMs === "number" ? [{ labels: { ...labels, partition }, value: lagMs / 1000 }] : [],
  );
  return [...own, ...missing];
}
