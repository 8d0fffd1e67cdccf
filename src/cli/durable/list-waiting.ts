/** `millrace list --awaits SIGNAL`: the durable runs that wait for a signal, with how long they have and will. */
import type { RunStepView, WaitingRun } from "../../client/durable/runs.ts";
import { escapeText } from "../output/escape.ts";
import { formatTable } from "../output/format-table.ts";
import { formatAge } from "../output/format-time.ts";

/** One line for each wait for the signal. */
export function waitingTable(runs: readonly WaitingRun[], signal: string, now: number): string {
  const lines = runs.flatMap(({ id, name, queue, waits }) =>
    waits
      .filter((wait) => wait.signal === signal)
      .map((wait) => [...[id, name, queue].map(escapeText), ...waitCells(wait, now)]),
  );
  return lines.length === 0 ? `no run waits for ${escapeText(signal)}` : formatTable(columns, lines);
}

const columns = [
  { title: "RUN", charsMax: 40 },
  { title: "JOB", charsMax: 28 },
  { title: "QUEUE", charsMax: 20 },
  { title: "KEY", charsMax: 40 },
  { title: "SINCE" },
  { title: "UNTIL" },
];

function waitCells({ key, at, until }: RunStepView, now: number): readonly string[] {
  return [escapeText(key ?? ""), formatAge(at, now), until === null ? "" : formatAge(until, now)];
}
