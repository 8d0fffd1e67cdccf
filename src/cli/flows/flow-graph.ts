/**
 * The graph of a flow as lines of text. Nodes of a chain stand straight below each other, what branches off is drawn as
 * a tree (flow-levels.ts), and what is inside of a part is set off by a dotted line. What the place of a line does not
 * say, its end does.
 *
 *   ✓ fetch            completed                         400ms
 *   ├─ ● render ×1,000  60 running, 940 completed         map, 2 may fail
 *   ├─ ✓ check         completed                         12ms
 *   └─ · merge         blocked                           after render, check
 *
 * A map, a group or a race of many nodes is one line that counts them, and so are many nodes with the same job, parents
 * and children.
 */
import type { FlowNodeView } from "../../client/flows/flows.ts";
import { durationText } from "../../model/duration.ts";
import { expanderName } from "../../model/flow/flow-meta.ts";
import { isTerminal, terminalStates } from "../../model/job/job-state.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { escapeText, shorten } from "../output/escape.ts";
import { alikeMax, levelsOf, withinOf } from "./flow-levels.ts";
import type { Level, Place } from "./flow-levels.ts";

const linesMax = 200;
const nameCharsMax = 60;
const detailCharsMax = 100;
/** If one line stands for many nodes, up to this many failed ones get lines of their own. */
const failedMax = 3;
const parentsMax = 5;

const marks: Readonly<Record<JobState, string>> = {
  ...{ completed: "✓", failed: "✗", expired: "✗", cancelled: "×", skipped: "-" },
  ...{ running: "●", suspended: "●", ready: "○", scheduled: "○", blocked: "·" },
};

interface Line {
  /** The tree, the mark and the name. */
  readonly left: string;
  readonly state: string;
  readonly detail: string;
}

/** @param now the time until which running nodes are counted as running. */
export function drawFlow(nodes: readonly FlowNodeView[], now: number): readonly string[] {
  const lines = new Drawing(nodes, now).lines();
  const shown = lines.slice(0, linesMax);
  const width = (of: (line: Line) => string): number =>
    shown.reduce((max, line) => Math.max(max, lengthOf(of(line))), 0);
  const widths = [
    width(({ left }) => left),
    width(({ state, detail }) => (detail === "" ? "" : state)),
  ] as const;
  const text = ({ left, state, detail }: Line): string =>
    `${pad(left, widths[0])}  ${pad(state, widths[1])}  ${detail}`.trimEnd();
  const isMore = lines.length > shown.length ? ["… and more; --json lists all nodes"] : [];
  return [...shown.map(text), ...isMore];
}

/** "940 completed, 60 running": what is over first. */
export function countStates(nodes: readonly Pick<FlowNodeView, "state">[]): string {
  const counts = Map.groupBy(nodes, ({ state }) => state);
  return shownStates
    .flatMap((state) => (counts.has(state) ? [`${count(counts.get(state)?.length ?? 0)} ${state}`] : []))
    .join(", ");
}

const shownStates: readonly JobState[] = [
  ...terminalStates,
  ...(["running", "suspended", "ready", "scheduled", "blocked"] as const),
];

export function count(number: number): string {
  return number.toLocaleString("en-US");
}

class Drawing {
  readonly #levels: ReadonlyMap<string, Level>;
  readonly #inside: ReadonlyMap<string, readonly FlowNodeView[]>;
  readonly #now: number;
  readonly #lines: Line[] = [];

  constructor(nodes: readonly FlowNodeView[], now: number) {
    // What makes the jobs of a map is worth a line only while there are none.
    this.#levels = levelsOf(nodes, (node) => !(isExpander(node) && node.state === "completed"));
    this.#inside = insideOf(nodes);
    this.#now = now;
  }

  lines(): readonly Line[] {
    this.#drawLevel("", "");
    return this.#lines;
  }

  #drawLevel(within: string, indent: string): void {
    const level = this.#levels.get(within);
    if (level !== undefined) this.#drawBelow(level, "", indent);
  }

  #drawBelow(level: Level, path: string, indent: string): void {
    let above = path;
    let next = level.below.get(above) ?? [];
    // Straight down, so that a long chain does not wander to the right.
    while (next.length === 1 && this.#lines.length <= linesMax) {
      const [only] = next as readonly [Place];
      this.#drawPlace(level, only, { above, first: indent, rest: indent });
      above = only.node.name;
      next = level.below.get(above) ?? [];
    }
    for (const [at, place] of next.entries()) {
      if (this.#lines.length > linesMax) return;
      const isLast = at === next.length - 1;
      const rest = `${indent}${isLast ? "   " : "│  "}`;
      this.#drawPlace(level, place, { above, first: `${indent}${isLast ? "└─ " : "├─ "}`, rest });
      this.#drawBelow(level, place.node.name, rest);
    }
  }

  #drawPlace(
    level: Level,
    place: Place,
    { above, first, rest }: { readonly above: string; readonly first: string; readonly rest: string },
  ): void {
    const { node, alike } = place;
    const inside = this.#inside.get(node.name) ?? [];
    const isMany = alike.length > 1;
    const isCounted = isMany || (node.part !== null && node.part !== "flow" && inside.length > alikeMax);
    const counted = isMany ? alike : inside;
    const detail = [
      ...(node.part === null ? [] : [node.part]),
      ...(isMany ? [] : [this.#detailOf(node)]),
      ...afterTexts(level, place, above),
      ...joinText(node),
    ];
    this.#lines.push({
      left: `${first}${marks[overallState(node, counted)]} ${nameText(place, isCounted ? counted.length : 1)}`,
      state: counted.length === 0 ? node.state : countStates(counted),
      detail: detail.filter((text) => text !== "").join(", "),
    });
    if (isCounted) this.#drawFailed(counted, `${rest}┆ `);
    else this.#drawLevel(node.name, `${rest}┆ `);
  }

  #drawFailed(nodes: readonly FlowNodeView[], indent: string): void {
    const failed = nodes.filter(({ state }) => state === "failed" || state === "expired");
    for (const node of failed.slice(0, failedMax))
      this.#lines.push({
        left: `${indent}${marks[node.state]} ${ownName(node.name)}`,
        state: node.state,
        detail: this.#detailOf(node),
      });
    if (failed.length > failedMax)
      this.#lines.push({
        left: `${indent}… ${count(failed.length - failedMax)} more failed`,
        state: "",
        detail: "",
      });
  }

  #detailOf({ state, reason, error, startedAt, ranMs, attempt }: FlowNodeView): string {
    const attempts = attempt > 1 ? `attempt ${attempt}, ` : "";
    if (error !== null && state !== "cancelled")
      return shorten(`${attempts}${error.name}: ${error.message}`, detailCharsMax);
    if (state === "running" && startedAt !== null)
      return `${attempts}for ${durationText(Math.max(0, this.#now - startedAt.getTime()))}`;
    if (state === "completed" && ranMs !== null) return ranMs < 1 ? "<1ms" : durationText(ranMs);
    return reason === null ? "" : escapeText(reason);
  }
}

/** The jobs inside of each part, at any depth. */
function insideOf(nodes: readonly FlowNodeView[]): ReadonlyMap<string, readonly FlowNodeView[]> {
  const inside = new Map<string, FlowNodeView[]>();
  for (const node of nodes) {
    if (node.job === null) continue;
    for (let path = withinOf(node.name); path !== ""; path = withinOf(path)) {
      const known = inside.get(path);
      if (known === undefined) inside.set(path, [node]);
      else known.push(node);
    }
  }
  return inside;
}

/** By which a line is marked: of a part, or of many, what is the matter with them. */
function overallState({ state }: FlowNodeView, counted: readonly FlowNodeView[]): JobState {
  if (counted.length === 0 || state === "failed") return state;
  const has = (wanted: JobState): boolean => counted.some((node) => node.state === wanted);
  if (counted.every((node) => node.state === state)) return state;
  if (state === "completed" && !counted.some((node) => !isTerminal(node.state))) return state;
  return has("running") || counted.some((node) => isTerminal(node.state)) ? "running" : "ready";
}

function nameText({ node, alike }: Place, many: number): string {
  const [first, last] = [ownName(node.name), ownName(alike.at(-1)?.name ?? node.name)];
  const name = first === last ? first : `${first} … ${last}`;
  return `${shorten(name, nameCharsMax)}${many > 1 ? ` ×${count(many)}` : ""}`;
}

function ownName(path: string): string {
  return escapeText(path.slice(path.lastIndexOf(".") + 1));
}

/** What a node comes after, if its place does not show it. */
function afterTexts(level: Level, { parents }: Place, above: string): readonly string[] {
  const known = [...parents].flatMap(([path, on]) => {
    const place = level.places.get(path);
    return place === undefined || (path === above && on === "success")
      ? []
      : [{ on, name: nameText(place, 1) }];
  });
  return (
    [
      ["success", "after"],
      ["failure", "on failure of"],
      ["always", "after the end of"],
    ] as const
  ).flatMap(([wanted, words]) => {
    const named = known.filter(({ on }) => on === wanted).map(({ name }) => name);
    const left = named.length - parentsMax;
    const more = left > 0 ? ` and ${count(left)} more` : "";
    return named.length === 0 ? [] : [`${words} ${named.slice(0, parentsMax).join(", ")}${more}`];
  });
}

/** Of a node that does not need all of those that it comes after. */
function joinText({ join, after, state }: FlowNodeView): readonly string[] {
  if (join === null || after.length < 2 || join.needs === after.length) return [];
  const came = state === "blocked" ? `, ${count(join.came)} came` : "";
  return [`needs ${count(join.needs)} of ${count(after.length)}${came}`];
}

function isExpander({ name, job, part }: FlowNodeView): boolean {
  return job === null && part === null && name.endsWith(`.${expanderName}`);
}

function lengthOf(text: string): number {
  return Array.from(text).length;
}

function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - lengthOf(text)));
}
