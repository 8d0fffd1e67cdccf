/** A flow as `millrace show` prints it: how it stands, and its graph. */
import type { FlowNodeView, FlowView } from "../../client/flows/flows.ts";
import { durationText } from "../../model/duration.ts";
import { escapeText } from "../output/escape.ts";
import { count, countStates, drawFlow } from "./flow-graph.ts";
import { formatAge, formatInstant } from "../output/format-time.ts";

export function flowText(flow: FlowView, nodes: readonly FlowNodeView[], now: number): string {
  const line = (title: string, text: string): string => `${title.padEnd(9)} ${text}`;
  const jobs = nodes.filter(({ job }) => job !== null);
  const reason = flow.reason === null ? "" : ` (${escapeText(flow.reason)})`;
  const closing = flow.isClosing && flow.state === "running" ? ", is being cancelled" : "";
  const took = flow.endedAt === null ? null : flow.endedAt.getTime() - flow.createdAt.getTime();
  return [
    line("flow", flow.id),
    line("name", escapeText(flow.name)),
    line("state", `${flow.state}${reason}${closing}`),
    line("jobs", `${count(jobs.length)}: ${countStates(jobs)}`),
    line("failures", failureMode[flow.failureMode]),
    ...(flow.tags.length === 0 ? [] : [line("tags", flow.tags.map(escapeText).join(", "))]),
    line("created", `${formatInstant(flow.createdAt)}, ${formatAge(flow.createdAt, now)}`),
    ...(took === null ? [] : [line("took", durationText(took))]),
    "",
    ...drawFlow(nodes, now),
  ].join("\n");
}

const failureMode = {
  isolate: "isolate: what depends on a failed node is skipped, the rest goes on",
  "fail-fast": "fail-fast: the first failure cancels the rest",
  collect: "collect: what depends on a failed node is skipped, and the flow completes",
} as const;
