/**
 * The text format of Prometheus (version 0.0.4): families of samples, each with its help and its type. Values of labels
 * are any text: backslashes, quotes and line feeds are escaped, so the name of a queue cannot break a line.
 */
import { histogramBounds } from "./metric-totals.ts";
import type { Histogram } from "./metric-totals.ts";

export type Labels = Readonly<Record<string, string>>;

export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly samples: readonly Sample[];
}

export interface Sample {
  readonly labels: Labels;
  /** A histogram in a family of that type, else a number. */
  readonly value: number | Histogram;
}

/** Families without samples are left out. */
export function prometheusText(families: readonly Family[]): string {
  return families
    .filter(({ samples }) => samples.length > 0)
    .map(familyText)
    .join("");
}

function familyText({ name, help, type, samples }: Family): string {
  const lines = samples.flatMap(({ labels, value }) =>
    typeof value === "number" ? [sampleLine(name, labels, value)] : histogramLines(name, labels, value),
  );
  const escaped = help.replace(/\\/g, "\\\\").replace(/\n/g, "\\n");
  return `# HELP ${name} ${escaped}\n# TYPE ${name} ${type}\n${lines.join("\n")}\n`;
}

function histogramLines(name: string, labels: Labels, { count, sumUs, upTo }: Histogram): readonly string[] {
  const bucket = (le: string, value: number): string =>
    sampleLine(`${name}_bucket`, { ...labels, le }, value);
  return [
    ...histogramBounds.map((bound, place) => bucket(String(bound), upTo[place] as number)),
    bucket("+Inf", count),
    sampleLine(`${name}_sum`, labels, sumUs / 1_000_000),
    sampleLine(`${name}_count`, labels, count),
  ];
}

function sampleLine(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}`;
}

function escapeLabel(text: string): string {
  return text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n");
}
