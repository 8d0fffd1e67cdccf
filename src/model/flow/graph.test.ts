/**
 * Plans by property: random graphs with parts, conditions and joins are planned, then lived through in a random order
 * by a small interpreter of rule R4, which is compared with what each node was asked to wait for.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { stateCodes, terminalStates } from "../job/job-state.ts";
import type { TerminalState } from "../job/job-state.ts";
import { hasBit, readEdge } from "./edge.ts";
import { lastNodes, needOfPart, planGraph } from "./graph.ts";
import type { Condition, GraphNode, PlannedNode } from "./graph.ts";

const whole = { path: "", part: { kind: "flow", failureMode: "isolate" } } as const;
const refused = (message: RegExp) =>
  expect.objectContaining({ code: "invalid-flow", message: expect.stringMatching(message) as string });

type After = readonly (string | readonly [path: string, on: Condition])[];
function node(path: string, after: After = [], given: Partial<GraphNode> = {}): GraphNode {
  return {
    ...{ path, within: "", part: null, join: null, cancelsRest: false, ...given },
    after: after.map((each) =>
      typeof each === "string" ? { path: each, on: "success" } : { path: each[0], on: each[1] },
    ),
  };
}
const group = { kind: "group", tolerate: 0 } as const;
const plan = (...nodes: readonly GraphNode[]) => planGraph(nodes, whole).nodes;
const found = (nodes: readonly PlannedNode[], path: string) => nodes.find((each) => each.path === path);

const conditions = ["success", "success", "failure", "always"] as const;
/** Nodes in order, some of them groups with nodes of their own; each comes after some of those before it. */
const graphs = fc
  .array(
    fc.record({
      size: fc.constantFrom(0, 0, 0, 1, 3),
      after: fc.array(fc.tuple(fc.nat(), fc.constantFrom(...conditions)), { maxLength: 4 }),
      join: fc.nat(5),
    }),
    { minLength: 1, maxLength: 14 },
  )
  .map((shapes): readonly GraphNode[] =>
    shapes.flatMap(({ size, after, join }, at) => {
      const parents = new Map(at === 0 ? [] : after.map(([from, on]) => [`n${from % at}`, on] as const));
      const joined = join < 1 || join >= parents.size ? null : join;
      const own = node(`n${at}`, [...parents], { join: joined, part: size === 0 ? null : group });
      const inner = Array.from({ length: size }, (_, child) =>
        // The last of them comes after the first.
        node(`n${at}.${child}`, child > 0 && child === size - 1 ? [`n${at}.0`] : [], { within: `n${at}` }),
      );
      return [own, ...inner];
    }),
  );

interface Standing {
  need: number;
  slack: number;
  end: TerminalState | null;
  /** How often it was freed, and how often it became known that it never can be. */
  freed: number;
  lost: number;
}

/** Ends nodes in a drawn order until nobody can go on. A part ends behind its nodes, a lost node as skipped. */
function live(nodes: readonly PlannedNode[], pick: (max: number) => number): ReadonlyMap<string, Standing> {
  const all = new Map(
    nodes.map(({ path, part, need, slack, members }): [string, Standing] => {
      const own = part === null ? { need, slack } : needOfPart(part, members);
      return [path, { ...own, end: null, freed: part === null && need === 0 ? 1 : 0, lost: 0 }];
    }),
  );
  const byPath = new Map(nodes.map((each) => [each.path, each]));
  const isDeferred = new Set<string>();
  for (;;) {
    const free = nodes.filter(({ path, part }) => {
      const { end, freed, lost } = all.get(path) as Standing;
      return end === null && (freed > 0 || (part === null && lost > 0) || isDeferred.has(path));
    });
    if (free.length === 0) return all;
    const next = free[pick(free.length)] as PlannedNode;
    const own = all.get(next.path) as Standing;
    own.end =
      own.freed > 0
        ? (terminalStates[pick(4)] as TerminalState)
        : next.part === null
          ? "skipped"
          : "completed";
    if (own.freed > 0) expectHolds(next, all, byPath);
    for (const text of next.edges) {
      const { meets, misses, target } = readEdge(text);
      const path = target === "" ? next.within : next.within === "" ? target : `${next.within}.${target}`;
      const to = all.get(path);
      if (to === undefined || to.end !== null) continue;
      const before = { ...to };
      if (hasBit(meets, stateCodes[own.end])) to.need -= 1;
      if (hasBit(misses, stateCodes[own.end])) to.slack -= 1;
      if (byPath.get(path)?.part !== null) {
        if (to.need <= 0) isDeferred.add(path);
        continue;
      }
      if (before.slack >= 0 && to.slack < 0) to.lost += 1;
      if (before.need > 0 && to.need <= 0 && to.slack >= 0) to.freed += 1;
    }
  }
}

const meets: Readonly<Record<Condition, readonly TerminalState[]>> = {
  success: ["completed"],
  failure: ["failed", "expired"],
  always: terminalStates,
};

/** Recomputed from what was asked for, not from what was planned. */
function expectHolds(
  { path, within, after, join }: GraphNode,
  all: ReadonlyMap<string, Standing>,
  byPath: ReadonlyMap<string, GraphNode>,
): void {
  const met = after.filter(({ path: from, on }) => {
    const end = all.get(from)?.end ?? null;
    return end !== null && meets[on].includes(end);
  });
  expect(met.length, `${path} runs early`).toBeGreaterThanOrEqual(join ?? after.length);
  const part = byPath.get(within);
  if (part !== undefined) expectHolds(part, all, byPath);
}

describe("a planned graph", () => {
  test("frees nobody before its condition holds, frees or gives up each once, and never hangs", () => {
    fc.assert(
      fc.property(graphs, fc.infiniteStream(fc.nat()), (given, numbers) => {
        const { nodes } = planGraph(given, whole);
        const pick = (max: number): number => (numbers.next().value as number) % max;
        for (const [path, { end, freed, lost }] of live(nodes, pick)) {
          expect(end, `${path} hangs`).not.toBeNull();
          if (nodes.find((each) => each.path === path)?.part === null)
            expect(freed + Math.min(lost, 1)).toBe(1);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("has edges both ways: what leads to a node is what it counts", () => {
    fc.assert(
      fc.property(graphs, (given) => {
        const { nodes } = planGraph(given, whole);
        for (const { path, part, parents, need, slack } of nodes) {
          if (part === null) expect(need + slack).toBe(parents.length);
          expect(new Set(parents).size).toBe(parents.length);
          for (const parent of parents) {
            const { meets: met, misses, target } = readEdge(parent);
            const from = found(nodes, target) as PlannedNode;
            const local = from.within === "" ? path : path.slice(from.within.length + 1);
            expect(from.edges.map(readEdge)).toContainEqual({ meets: met, misses, target: local });
          }
        }
      }),
    );
  });

  test("refuses cycles of any length", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), fc.nat(), graphs, (length, shift, others) => {
        const cycle = Array.from({ length }, (_, at) => node(`c${at}`, [`c${(at + 1) % length}`]));
        const turned = [...cycle.slice(shift % length), ...cycle.slice(0, shift % length)];
        expect(() => planGraph([...others, ...turned], whole)).toThrow(refused(/cycle/));
      }),
    );
  });

  test("refuses a cycle through a part", () => {
    const inner = node("p.x", ["p"], { within: "p" });
    expect(() => plan(node("p", [], { part: group }), inner)).toThrow(refused(/cycle/));
    const outer = [node("p", ["q"], { part: group }), node("p.x", [], { within: "p" }), node("q", ["p"])];
    expect(() => plan(...outer)).toThrow(refused(/cycle/));
  });

  test("refuses unknown and duplicate nodes, duplicate edges and joins that can never be satisfied", () => {
    expect(() => plan(node("a", ["b"]))).toThrow(refused(/no node of this flow/));
    expect(() => plan(node("a"), node("a"))).toThrow(refused(/Two nodes/));
    expect(() => plan(node("a"), node("b", ["a", ["a", "failure"]]))).toThrow(refused(/twice/));
    expect(() => plan(node("a"), node("b", ["a"], { join: 2 }))).toThrow(refused(/joins 2 of the 1/));
    expect(() => plan(node("a"), node("b", ["a"], { join: 0 }))).toThrow(refused(/joins 0/));
    expect(() => plan()).toThrow(refused(/without a node/));
    expect(() => plan(node("p", [], { part: group }))).toThrow(refused(/never end/));
    expect(() => plan(node("a", [], { within: "z" }))).toThrow(refused(/no part/));
  });

  test("refuses a node that comes after one inside of another part", () => {
    const nodes = [node("p", [], { part: group }), node("p.x", [], { within: "p" }), node("q", ["p.x"])];
    expect(() => plan(...nodes)).toThrow(refused(/inside of another part/));
  });

  test("counts once what a part and one of its nodes both come after", () => {
    const nodes = plan(
      node("a"),
      node("p", ["a"], { part: group }),
      node("p.x", ["a"], { within: "p" }),
      node("p.y", [], { within: "p" }),
    );
    expect(found(nodes, "p.x")).toMatchObject({ need: 1, slack: 0, parents: ["1ua"] });
    expect(found(nodes, "a")?.edges.slice(1)).toEqual(["1up.x", "1up.y"]);
  });

  test("refuses what one pair of counts cannot say, for it would run early", () => {
    const part = (join: number | null) => node("p", ["a", "b"], { part: group, join });
    const inner = node("p.x", ["c"], { within: "p" });
    const sources = [node("a"), node("b"), node("c")];
    expect(() => plan(...sources, part(1), inner)).toThrow(refused(/some of several/));
    expect(found(plan(...sources, part(null), inner), "p.x")).toMatchObject({ need: 3, slack: 0 });
    const differently = node("p.x", [["a", "failure"]], { within: "p" });
    expect(() => plan(...sources, part(null), differently)).toThrow(refused(/two conditions/));
    const before = node("d", [], { before: ["j"] });
    expect(() => plan(...sources, node("j", ["a", "b"], { join: 1 }), before)).toThrow(
      refused(/some of several/),
    );
  });

  test("of a flow that grows links what is there to what is new", () => {
    const isThere = (path: string): boolean => path === "old";
    const grown = planGraph([node("new", [["old", "always"]]), node("b", [], { before: ["old"] })], {
      ...whole,
      isThere,
    });
    expect(grown.links).toEqual([{ from: "old", edge: "v0new" }]);
    expect(grown.awaited).toEqual(["old"]);
    expect(found(grown.nodes, "b")?.edges.slice(1)).toEqual(["1uold"]);
  });

  test("has as its last nodes those whose success nothing waits for", () => {
    const nodes = plan(node("a"), node("b", ["a"]), node("clean", [["b", "failure"]]), node("c"));
    expect(lastNodes(nodes, "")).toEqual(["b", "clean", "c"]);
  });
});
