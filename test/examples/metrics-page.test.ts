// The page of metrics lists exactly the metrics that Prometheus is given, and the dashboard asks for no other.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { metricFamilies } from "../../src/client/metrics/metric-families.ts";
import { MetricTotals } from "../../src/model/metrics/metric-totals.ts";

const guides = new URL("../../docs/guides/", import.meta.url);
const page = readFileSync(new URL("metrics.md", guides), "utf8");
const families = metricFamilies({
  totals: new MetricTotals(),
  queues: [],
  servers: [],
  processes: [],
  requests: null,
});

test("the page lists every metric with its type, and no other", () => {
  const listed = [...page.matchAll(/^\| `(millrace_\w+)` \| (\w+) \|/gm)].map(([, name, type]) => [
    name,
    type,
  ]);
  expect(listed).toEqual(families.map(({ name, type }) => [name, type]));
});

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly targets?: readonly { readonly expr: string }[];
}

test("the dashboard is valid, and asks for every metric and for no other", () => {
  const text = readFileSync(new URL("grafana-dashboard.json", guides), "utf8");
  const { panels } = JSON.parse(text) as { readonly panels: readonly Panel[] };
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const asked = panels.flatMap(({ targets = [] }) =>
    targets.flatMap(({ expr }) => expr.match(/millrace_\w+/g) ?? []),
  );
  const types = new Map(families.map(({ name, type }) => [name, type]));
  const familyOf = (name: string): string => {
    const family = name.replace(/_(?:bucket|sum|count)$/, "");
    return types.get(family) === "histogram" ? family : name;
  };
  expect([...new Set(asked.map(familyOf))].sort()).toEqual([...types.keys()].sort());
  // A histogram is never asked for without saying which of its parts is meant.
  for (const name of asked) if (familyOf(name) === name) expect(types.get(name)).not.toBe("histogram");
});
