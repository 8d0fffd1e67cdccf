/** `millrace flows`: flows, newest first, one page at a time. `millrace show` draws one of them. */
import type { FlowsPage, FlowState, FlowView, ListFlowsOptions } from "../../client/flows/flows.ts";
import type { Millrace } from "../../client/millrace.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { count } from "./flow-graph.ts";
import { formatTable } from "../output/format-table.ts";
import { formatAge } from "../output/format-time.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { quote, readList, readWhole, wrong } from "../arguments/read-args.ts";

const states: readonly FlowState[] = ["running", "completed", "failed", "cancelled"];

export const flows: Command = {
  name: "flows",
  usage: "flows [--state S] [--name N] [--tag T] [--limit 50]",
  summary: "flows, newest first; show ID draws one",
  words: [0, 0],
  options: {
    ...storeOption,
    state: { value: "STATE", meaning: `flows in this state, or in one of several: ${states.join(",")}` },
    name: { value: "NAME", meaning: "flows of this name" },
    tag: { value: "TAG", meaning: "flows with this tag" },
    limit: { value: "N", meaning: "at most so many, 1 to 500; 50 by default" },
    cursor: { value: "CURSOR", meaning: "go on where the previous page ended" },
  },
  examples: ["flows --state running,failed", "flows --name monthly-report --json"],
  async run(call) {
    const { options, terminal, platform, wantsJson } = call;
    const query: ListFlowsOptions = { max: readWhole(options, "limit", [1, 500]) ?? 50 };
    const wanted = readList(options, "state");
    if (wanted !== undefined) query.state = wanted.map(readState);
    for (const key of ["name", "tag", "cursor"] as const) {
      const value = options.get(key);
      if (value !== undefined) query[key] = value;
    }
    const { flows: found, cursor } = await withMillrace(call, await existingStoreUrl(call), (mill) =>
      readPage(mill, query),
    );
    if (wantsJson) {
      terminal.writeOut(`${toJson({ flows: found, cursor })}\n`);
      return 0;
    }
    const now = platform.now();
    const rows = found.map((view) => cells(view, now));
    terminal.writeOut(found.length === 0 ? "no flows\n" : `${formatTable(columns, rows)}\n`);
    if (cursor !== null) terminal.writeOut(`more: add --cursor=${cursor}\n`);
    return 0;
  },
};

/** A page may be empty with a cursor behind it: all that it looked at were parts of flows. */
async function readPage(mill: Millrace, query: ListFlowsOptions): Promise<FlowsPage> {
  let page = await mill.flows.list(query);
  while (page.flows.length === 0 && page.cursor !== null)
    page = await mill.flows.list({ ...query, cursor: page.cursor });
  return page;
}

function readState(state: string): FlowState {
  if ((states as readonly string[]).includes(state)) return state as FlowState;
  throw wrong(`--state must be one of ${states.join(", ")}, not ${quote(state)}`);
}

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
