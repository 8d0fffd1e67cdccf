/**
 * The plan of a flow: from nodes and their dependencies to the edges, needs and slacks that rule R4 counts. An invalid
 * plan is refused here, before any write: an unknown or duplicate node, a duplicate edge, a cycle, or a join that can
 * never be satisfied.
 *
 * A **part** is a node that has nodes of its own: a flow inside a flow, a group (all of its nodes, some may fail) or a
 * race (the first of them). It is a job that no worker runs: a member of the flow that contains it, and the flow of its
 * own nodes. A node that comes after a part waits for the part. If a part comes after a node, the first nodes of the
 * part wait for that node. Paths are names joined by dots, from the outermost flow on.
 */
import { MillraceError } from "../error.ts";
import { checkName, nameBytesMax, utf8Bytes } from "../name.ts";
import { bitsOf, everyEnd, meetsOf, targetOf, writeEdge } from "./edge.ts";

export const nodesMax = 100_000;
/** The length of a flow's id and the dot after it. */
const idBytes = 22;

export type Condition = "success" | "failure" | "always";

/** When a part ends, by its nodes. */
export type Part =
  | { readonly kind: "flow"; readonly failureMode: FailureMode }
  /** Tolerates N nodes that do not complete. A map may have a cap: N of its items are free at once. */
  | { readonly kind: "group"; readonly tolerate: number; readonly concurrency?: number }
  /** Decided when N nodes have completed. */
  | { readonly kind: "race"; readonly first: number; readonly cancelsRest: boolean };

/**
 * What the failure of a node means. isolate: its descendants are skipped, other nodes go on, the flow fails. fail-fast:
 * all other nodes are cancelled. collect: as isolate, but the flow completes, whatever its counts are.
 */
export type FailureMode = "isolate" | "fail-fast" | "collect";

export interface GraphNode {
  readonly path: string;
  /** The path of the part that contains it; "" for the flow itself. */
  readonly within: string;
  /** Null for a job. */
  readonly part: Part | null;
  /** Paths, each with the end that is waited for. */
  readonly after: readonly { readonly path: string; readonly on: Condition }[];
  /** Paths that additionally wait for the success of this one; absent for none. */
  readonly before?: readonly string[];
  /** How many of `after` have to be met; null for all. */
  readonly join: number | null;
  /** When it is freed, those of `after` that have not ended are cancelled. */
  readonly cancelsRest: boolean;
}

export interface PlannedNode extends GraphNode {
  /** The edges of the node; the first one leads to its flow. */
  readonly edges: string[];
  /** The edges that lead here, with the paths of their sources instead of targets. */
  readonly parents: string[];
  need: number;
  slack: number;
  /** For a part: the number of its own nodes. */
  members: number;
}

const completed = bitsOf("completed");
const failed = bitsOf("failed", "expired");
const masks: Readonly<Record<Condition, { readonly meets: number; readonly misses: number }>> = {
  success: { meets: completed, misses: everyEnd - completed },
  failure: { meets: failed, misses: everyEnd - failed },
  always: { meets: everyEnd, misses: 0 },
};

/** How the text of an edge begins. */
const masksText: Readonly<Record<Condition, string>> = {
  success: writeEdge({ ...masks.success, target: "" }),
  failure: writeEdge({ ...masks.failure, target: "" }),
  always: writeEdge({ ...masks.always, target: "" }),
};

/** What an edge waits for, by the text that it was written as. */
export function conditionOf(edge: string): Condition {
  const meets = meetsOf(edge);
  return meets === completed ? "success" : meets === failed ? "failure" : "always";
}

function flowMasks(part: Part): { readonly meets: number; readonly misses: number } {
  switch (part.kind) {
    case "flow":
      return { meets: everyEnd, misses: part.failureMode === "fail-fast" ? failed : 0 };
    case "group":
      return { meets: everyEnd, misses: everyEnd - completed };
    case "race":
      return masks.success;
  }
}

/** The first edge of a member of this flow or part. */
export function edgeToFlow(part: Part): string {
  return writeEdge({ ...flowMasks(part), target: "" });
}

/** How many ends a part needs, and how many may miss it. */
export function needOfPart(part: Part, members: number): { readonly need: number; readonly slack: number } {
  switch (part.kind) {
    case "flow":
      return { need: members, slack: 0 };
    case "group":
      return { need: members, slack: part.tolerate };
    case "race":
      return { need: part.first, slack: members - part.first };
  }
}

export function invalidFlow(message: string): MillraceError {
  return new MillraceError("invalid-flow", message);
}

/** Checks the name of a node, which must have no dot: dots separate the names of a path. */
export function checkNodeName(name: unknown, what: string): string {
  const checked = checkName(name, what);
  if (checked.includes("."))
    throw new MillraceError("invalid-name", `${what} has a dot, which stands between the names of a path.`);
  return checked;
}

interface Whole {
  /** "" for a new flow; else the path at which a flow grows. */
  readonly path: string;
  readonly part: Part;
  /** Whether a growing flow has a node already, by its path from `path` on. */
  readonly isThere?: (path: string) => boolean;
}

export interface Plan {
  readonly nodes: readonly PlannedNode[];
  /** Edges from existing nodes. */
  readonly links: readonly { readonly from: string; readonly edge: string }[];
  /** Existing nodes that wait for one more parent, once per entry. */
  readonly awaited: readonly string[];
}

/** @param whole the flow or part whose path is `within` of the outermost nodes. */
export function planGraph(given: readonly GraphNode[], whole: Whole): Plan {
  if (given.length === 0) throw invalidFlow("A flow without a node would never end; add one.");
  if (given.length > nodesMax)
    throw invalidFlow(`A flow has at most ${nodesMax} nodes, not ${given.length}; split it.`);
  const nodes = new Map<string, PlannedNode>();
  for (const node of given) {
    if (nodes.has(node.path) || whole.isThere?.(node.path) === true)
      throw invalidFlow(`Two nodes have the name ${JSON.stringify(node.path)}.`);
    if (utf8Bytes(node.path) > nameBytesMax - idBytes)
      throw new MillraceError(
        "invalid-name",
        `The path of a node has at most ${nameBytesMax - idBytes} bytes, with the names of all that it stands in.`,
      );
    nodes.set(node.path, { ...node, edges: [], parents: [], need: 0, slack: 0, members: 0 });
  }
  joinFlows(nodes, whole);
  const awaited = given.some(({ before }) => before !== undefined) ? goBefore(nodes, whole) : [];
  const links = connect(nodes, whole);
  for (const node of nodes.values()) if (node.part !== null) checkPart(node, node.part);
  checkNoCycle(nodes);
  return { nodes: [...nodes.values()], links, awaited };
}

/** The error for a node with a join: it could be freed without the node that is put before it. */
export function joinsSome(path: string, later: string): string {
  return `${JSON.stringify(path)} goes before ${JSON.stringify(later)}, which waits for some of several nodes only.`;
}

/** Applies `before`: a new node gets one more parent; an existing node has to wait for one more. */
function goBefore(nodes: Map<string, PlannedNode>, whole: Whole): readonly string[] {
  const awaited: string[] = [];
  for (const { path, before = [], within, edges } of [...nodes.values()])
    for (const later of before) {
      const node = nodes.get(later);
      if (node !== undefined) {
        if (node.join !== null) throw invalidFlow(joinsSome(path, later));
        nodes.set(later, { ...node, after: [...node.after, { path, on: "success" }] });
        continue;
      }
      if (whole.isThere?.(later) !== true || !isInside(later, within))
        throw invalidFlow(
          `${JSON.stringify(path)} goes before ${JSON.stringify(later)}, which is no node beside it.`,
        );
      edges.push(masksText.success + (within === "" ? later : later.slice(within.length + 1)));
      awaited.push(later);
    }
  return awaited;
}

/** The first edge of every node leads to its flow. */
function joinFlows(nodes: Map<string, PlannedNode>, whole: Whole): void {
  const toWhole = edgeToFlow(whole.part);
  for (const node of nodes.values()) {
    const flow = node.within === whole.path ? null : nodes.get(node.within);
    if (flow === undefined || (flow !== null && flow.part === null))
      throw invalidFlow(
        `${JSON.stringify(node.path)} stands in ${JSON.stringify(node.within)}, which is no part of the flow.`,
      );
    if (flow !== null) flow.members += 1;
    node.edges.push(flow === null || flow.part === null ? toWhole : edgeToFlow(flow.part));
  }
}

function checkPart({ path, members }: PlannedNode, part: Part): void {
  const name = JSON.stringify(path);
  if (members === 0) throw invalidFlow(`${name} has no node of its own, so it would never end.`);
  if (part.kind === "race" && part.first > members)
    throw invalidFlow(`The race ${name} wants the first ${part.first} of ${members}.`);
}

function connect(nodes: Map<string, PlannedNode>, whole: Whole): Plan["links"] {
  const links: { from: string; edge: string }[] = [];
  const entrances = entrancesOf(nodes);
  /** Nodes with parents, and whether they wait for only some of them. */
  const isLoose = new Map<PlannedNode, boolean>();
  const [parentText, edgeText] = [edgeTexts(), edgeTexts()];
  for (const node of nodes.values()) {
    const { after, join } = node;
    if (join !== null && (join < 1 || join > after.length))
      throw invalidFlow(
        `${JSON.stringify(node.path)} joins ${join} of the ${after.length} nodes that it comes after.`,
      );
    if (after.length === 0 && node.cancelsRest)
      throw invalidFlow(
        `${JSON.stringify(node.path)} cancels the rest of what it comes after, and comes after nothing.`,
      );
    if (after.length === 0) continue;
    checkAfter(node, nodes, whole);
    const slack = after.length - (join ?? after.length);
    for (const entrance of entrances(node)) {
      const before = isLoose.get(entrance);
      checkOneJoin(entrance, before, slack > 0);
      isLoose.set(entrance, slack > 0);
      entrance.slack += slack;
      entrance.need -= slack;
      for (const { path, on } of after) {
        const from = nodes.get(path);
        const parent = parentText(on, path);
        // A part and one of its nodes may come after the same node.
        if (before !== undefined && isKnownParent(entrance, parent)) continue;
        const within = from === undefined ? whole.path : from.within;
        const target = within === "" ? entrance.path : entrance.path.slice(within.length + 1);
        const edge = edgeText(on, target);
        if (from === undefined) links.push({ from: path, edge });
        else from.edges.push(edge);
        entrance.parents.push(parent);
        entrance.need += 1;
      }
    }
  }
  return links;
}

/** Texts of edges. In a wide flow most equal the last one, and comparing a text with itself is cheap. */
function edgeTexts(): (on: Condition, target: string) => string {
  let last: { readonly on: Condition; readonly target: string; readonly text: string } | null = null;
  return (on, target) => {
    if (last === null || last.on !== on || last.target !== target)
      last = { on, target, text: masksText[on] + target };
    return last.text;
  };
}

function checkAfter({ path: own, after }: PlannedNode, nodes: Map<string, PlannedNode>, whole: Whole): void {
  const seen = after.length > 1 ? new Set<string>() : null;
  const refuse = (path: string, how: string, why: string): MillraceError =>
    invalidFlow(`${JSON.stringify(own)} ${how} ${JSON.stringify(path)}${why}`);
  for (const { path } of after) {
    const from = nodes.get(path);
    if (from === undefined && whole.isThere?.(path) !== true)
      throw refuse(path, "comes after", ", which is no node of this flow.");
    if (seen?.has(path) === true) throw refuse(path, "comes after", " twice; name it once.");
    seen?.add(path);
    if (!isInside(own, from === undefined ? whole.path : from.within))
      throw refuse(path, "cannot come after", ", which stands inside of another part.");
  }
}

/** One pair of counts cannot express "some of these and all of those": the node would run before one of them. */
function checkOneJoin({ path }: PlannedNode, before: boolean | undefined, isLoose: boolean): void {
  if (before === undefined || !(before || isLoose)) return;
  throw invalidFlow(
    `${JSON.stringify(path)} waits for some of several nodes and for others as well, by itself and by the part that it ` +
      "stands in; put a node between them.",
  );
}

function isKnownParent({ path, parents }: PlannedNode, parent: string): boolean {
  if (parents.includes(parent)) return true;
  const from = targetOf(parent);
  if (!parents.some((other) => targetOf(other) === from)) return false;
  throw invalidFlow(
    `${JSON.stringify(path)} and the part that it stands in come after ${JSON.stringify(from)} under two conditions.`,
  );
}

const isInside = (path: string, within: string): boolean => within === "" || path.startsWith(`${within}.`);

/**
 * The nodes that wait for the parents of a node: the node itself, or for a part those of its nodes that have no parents
 * inside it.
 */
function entrancesOf(nodes: ReadonlyMap<string, PlannedNode>): (node: PlannedNode) => readonly PlannedNode[] {
  let inside: ReadonlyMap<string, readonly PlannedNode[]> | null = null;
  const find = (node: PlannedNode): readonly PlannedNode[] => {
    if (node.part === null) return [node];
    inside ??= Map.groupBy(nodes.values(), ({ within }) => within);
    return (inside.get(node.path) ?? [])
      .filter(({ after }) => !after.some(({ path }) => isInside(path, node.path)))
      .flatMap(find);
  };
  return find;
}

/** Whether every node is listed after its parents, as in most flows: then there is no cycle. */
function isInOrder(nodes: ReadonlyMap<string, PlannedNode>): boolean {
  const seen = new Set<string>();
  for (const { path, after, part } of nodes.values()) {
    if (part !== null || after.some((each) => !seen.has(each.path) && nodes.has(each.path))) return false;
    seen.add(path);
  }
  return true;
}

/** Removes nodes without parents until none is left; the remaining ones form a cycle. */
function checkNoCycle(nodes: ReadonlyMap<string, PlannedNode>): void {
  if (isInOrder(nodes)) return;
  const waits = new Map<string, number>();
  const next = new Map<string, string[]>();
  const wait = (path: string, other: string): void => {
    if (!nodes.has(other)) return;
    waits.set(path, (waits.get(path) ?? 0) + 1);
    const list = next.get(other);
    if (list === undefined) next.set(other, [path]);
    else list.push(path);
  };
  for (const { path, parents, within } of nodes.values()) {
    for (const parent of parents) wait(path, targetOf(parent));
    // A part ends after its nodes. So does the flow, for which no node waits.
    if (nodes.has(within)) wait(within, path);
  }
  const free = [...nodes.keys()].filter((path) => !waits.has(path));
  for (const path of free)
    for (const other of next.get(path) ?? []) {
      const left = (waits.get(other) as number) - 1;
      waits.set(other, left);
      if (left === 0) free.push(other);
    }
  if (free.length === nodes.size) return;
  const stuck = [...nodes.keys()].filter((path) => (waits.get(path) ?? 0) > 0).slice(0, 5);
  throw invalidFlow(
    `These nodes wait for each other in a cycle: ${stuck.map((path) => JSON.stringify(path)).join(", ")}.`,
  );
}

/** The nodes of the flow itself without descendants: their results are the flow's. */
export function lastNodes(nodes: readonly PlannedNode[], within: string): readonly string[] {
  const isLast = ({ edges }: PlannedNode): boolean =>
    edges.every((edge, at) => at === 0 || (meetsOf(edge) & completed) === 0);
  return nodes.filter((node) => node.within === within && isLast(node)).map(({ path }) => path);
}
