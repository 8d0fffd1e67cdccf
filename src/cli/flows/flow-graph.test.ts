// How the graph of a flow is drawn: every node once, chains straight down, branches as a tree, crowds counted.
import { expect, test } from "vitest";
import type { FlowNodeView } from "../../client/flows/flows.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { drawFlow } from "./flow-graph.ts";

type Given = Partial<Omit<FlowNodeView, "after">> & {
  readonly after?: readonly string[];
  readonly on?: "failure";
};

function node(name: string, state: JobState = "completed", given: Given = {}): FlowNodeView {
  const { after = [], on = "success", ...rest } = given;
  return {
    ...{ name, id: `F.${name}`, job: "step", part: null, state, reason: null, attempt: 1, error: null },
    ...{ startedAt: null, ranMs: null, endedAt: null },
    join: after.length === 0 ? null : { needs: after.length, came: 0 },
    ...rest,
    after: after.map((parent) => ({ name: parent, on })),
  };
}

const part = (
  name: string,
  kind: "group" | "race" | "flow",
  state: JobState,
  given: Given = {},
): FlowNodeView => node(name, state, { ...given, part: kind, job: null });

test("a chain stands straight, one line for each of ten", () => {
  const chain = Array.from({ length: 10 }, (_, at) =>
    node(`s${at}`, at < 5 ? "completed" : "blocked", { after: at === 0 ? [] : [`s${at - 1}`] }),
  );
  expect(drawFlow(chain, 0)).toEqual(
    chain.map(({ name, state }) => `${state === "blocked" ? "·" : "✓"} ${name}  ${state}`),
  );
});

test("branches are a tree, and what joins them stands behind them and names them", () => {
  const nodes = [
    node("fetch", "completed", { ranMs: 400 }),
    node("left", "running", { after: ["fetch"], startedAt: new Date(0) }),
    node("right", "failed", { after: ["fetch"], error: { name: "Error", message: "no\nink" } }),
    node("merge", "blocked", { after: ["left", "right"], join: { needs: 1, came: 0 } }),
    node("tell", "blocked", { after: ["merge"], on: "failure" }),
  ];
  expect(drawFlow(nodes, 2000)).toEqual([
    "✓ fetch     completed  400ms",
    "├─ ● left   running    for 2s",
    "├─ ✗ right  failed     Error: no\\nink",
    "└─ · merge  blocked    after left, right, needs 1 of 2, 0 came",
    "   · tell   blocked    on failure of merge",
  ]);
});

test("the inside of a part is set off, and a part of a thousand is one line with its failures", () => {
  const items = Array.from({ length: 1000 }, (_, at) =>
    node(`render.${at}`, at < 4 ? "failed" : at < 940 ? "completed" : "running", {
      error: at < 4 ? { name: "Error", message: "no ink" } : null,
    }),
  );
  const nodes = [
    node("fetch"),
    part("render", "group", "blocked"),
    node("render.each", "completed", { after: ["fetch"], job: null }),
    ...items,
    node("merge", "blocked", { after: ["render"] }),
    part("quotes", "race", "completed"),
    node("quotes.0", "cancelled", { reason: "asked" }),
    node("quotes.1"),
  ];
  expect(drawFlow(nodes, 0)).toEqual([
    "├─ ✓ fetch            completed",
    "│  ● render ×1,000    936 completed, 4 failed, 60 running  group",
    "│  ┆ ✗ 0              failed                               Error: no ink",
    "│  ┆ ✗ 1              failed                               Error: no ink",
    "│  ┆ ✗ 2              failed                               Error: no ink",
    "│  ┆ … 1 more failed",
    "│  · merge            blocked",
    "└─ ✓ quotes           1 completed, 1 cancelled             race",
    "   ┆ ├─ × 0           cancelled                            asked",
    "   ┆ └─ ✓ 1           completed",
  ]);
});

test("many nodes with the same job, parents and children are one line", () => {
  const pages = Array.from({ length: 30 }, (_, at) => node(`page ${at}`, "completed", { after: ["start"] }));
  const nodes = [node("start"), ...pages, node("end", "ready", { after: pages.map(({ name }) => name) })];
  expect(drawFlow(nodes, 0)).toEqual(
    [
      "✓ start                    completed",
      "✓ page 0 … page 29 ×30  30 completed",
      "○ end                   ready",
    ].map((line) => expect.stringMatching(new RegExp(`^${line.replaceAll(/ {2,}/g, " +")}$`))),
  );
});

test("a graph that is too long says so, however it is made", () => {
  const ladder = Array.from({ length: 600 }, (_, at) => [
    node(`a${at}`, "completed", { after: at === 0 ? [] : [`a${at - 1}`] }),
    node(`b${at}`, "completed", { after: [`a${at}`] }),
  ]).flat();
  const lines = drawFlow(ladder, 0);
  expect(lines).toHaveLength(201);
  expect(lines.at(-1)).toMatch(/more; --json lists all nodes/);
});
