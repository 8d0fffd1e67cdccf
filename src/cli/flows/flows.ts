/** `millrace flows`: flows, newest first, one page at a time. `millrace show` draws one of them. */
import type { FlowState, FlowView } from "../../client/flows/flows.ts";
import { list, text, whole } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { firstFound } from "../output/first-found.ts";
import { formatTable } from "../output/format-table.ts";
import { formatAge } from "../output/format-time.ts";
import { count } from "./flow-graph.ts";

const states: readonly FlowState[] = ["running", "completed", "failed", "cancelled"];

export const flows = command({
  name: "flows",
  summary: "flows, newest first; show ID draws one",
  options: {
    state: list("STATE", `flows in this state, or in one of several: ${states.join(",")}`, states),
    name: text("NAME", "flows of this name"),
    tag: text("TAG", "flows with this tag"),
    limit: whole("N", "at most N, 1 to 500; 50 by default", 1, 500),
    cursor: text("CURSOR", "go on where the previous page ended"),
  },
  examples: ["flows --state running,failed", "flows --name monthly-report --json"],
  async run({ options: { limit = 50, cursor: from = null, ...filter }, platform, withStore, answer }) {
    const { flows: found, cursor } = await withStore((mill) =>
      firstFound(
        from,
        (at) => mill.flows.list({ ...filter, limit, ...(at === null ? {} : { cursor: at }) }),
        (page) => page.flows,
      ),
    );
    const now = platform.now();
    const lines = found.map((view) => cells(view, now));
    const table = found.length === 0 ? "no flows" : formatTable(columns, lines);
    answer({ flows: found, cursor }, cursor === null ? table : `${table}\nmore: add --cursor=${cursor}`);
  },
});

const columns = [
  { title: "ID" },
  { title: "NAME", charsMax: 40 },
  { title: "STATE" },
  { title: "ENDED", isNumber: true },
  { title: "CREATED" },
  { title: "", charsMax: 60 },
];

function cells({ id, name, state, counts, createdAt, isClosing }: FlowView, now: number): readonly string[] {
  const { total, live, failed, expired, skipped, cancelled } = counts;
  const notes = { failed: failed + expired, skipped, cancelled };
  const remark = [
    ...(isClosing && state === "running" ? ["is being cancelled"] : []),
    ...Object.entries(notes).flatMap(([what, number]) => (number === 0 ? [] : [`${count(number)} ${what}`])),
  ];
  const ended = `${count(total - live)}/${count(total)}`;
  return [id, name, state, ended, formatAge(createdAt, now), remark.join(", ")];
}
