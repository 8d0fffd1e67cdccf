/**
 * The graph of a flow, level by level, as it is to be drawn: the flow itself is one level, and the inside of each of
 * its parts is another. At a level a part is one node. Every node gets a place under the last node that all ways to it
 * go through (its dominator), so that a graph is drawn as a tree of which each node is in one place.
 */
import type { FlowNodeView } from "../../client/flows/flows.ts";

/** More nodes with the same job, parents and children are one. */
export const alikeMax = 8;

type Condition = FlowNodeView["after"][number]["on"];

export interface Place {
  readonly node: FlowNodeView;
  /** By their paths, at the same level, and what has to become of each. */
  readonly parents: ReadonlyMap<string, Condition>;
  readonly children: ReadonlySet<string>;
  /** More than one if it stands for many that are alike. */
  alike: readonly FlowNodeView[];
}

export interface Level {
  readonly places: ReadonlyMap<string, Place>;
  /** By dominator, "" for none: those under it, each after its parents. */
  readonly below: ReadonlyMap<string, readonly Place[]>;
}

/**
 * By the path of what they are the inside of; "" for the flow.
 * @param isShown others only lend their edges to what they stand in.
 */
export function levelsOf(
  nodes: readonly FlowNodeView[],
  isShown: (node: FlowNodeView) => boolean,
): ReadonlyMap<string, Level> {
  const parents = new Map<string, Map<string, Condition>>();
  const children = new Map<string, Set<string>>();
  const at = <Value>(values: Map<string, Value>, key: string, none: Value): Value => {
    const known = values.get(key);
    if (known === undefined) values.set(key, none);
    return known ?? none;
  };
  for (const { name, after } of nodes)
    for (const { name: parent, on } of after) {
      const [from, to] = partWays(parent, name);
      if (from === to) continue;
      at(parents, to, new Map()).set(from, on);
      at(children, from, new Set()).add(to);
    }
  const inside = Map.groupBy(nodes.filter(isShown), ({ name }) => withinOf(name));
  const places = (level: readonly FlowNodeView[]): readonly Place[] =>
    level.map((node) => ({
      ...{ node, alike: [node] },
      parents: parents.get(node.name) ?? new Map(),
      children: children.get(node.name) ?? new Set(),
    }));
  return new Map(
    [...inside].map(([within, level]) => [
      within,
      levelOf(inParentsOrder(mergeAlike(places(level), (path) => inside.has(path)))),
    ]),
  );
}

export function withinOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf(".")));
}

/** An edge belongs to the level at which the ways to its two ends part: these are the nodes there. */
function partWays(one: string, other: string): readonly [one: string, other: string] {
  const [ones, others] = [one.split("."), other.split(".")];
  let same = 0;
  while (same < ones.length - 1 && same < others.length - 1 && ones[same] === others[same]) same += 1;
  const upTo = (names: readonly string[]): string => names.slice(0, same + 1).join(".");
  return [upTo(ones), upTo(others)];
}

function mergeAlike(places: readonly Place[], isPart: (path: string) => boolean): readonly Place[] {
  const kinds = Map.groupBy(places, ({ node, parents, children }) =>
    JSON.stringify(isPart(node.name) ? node.name : [node.job, [...parents], [...children]]),
  );
  const names = new Map<string, string>();
  const merged: Place[] = [];
  for (const alike of kinds.values()) {
    const [first] = alike as [Place, ...Place[]];
    if (alike.length <= alikeMax) {
      merged.push(...alike);
      continue;
    }
    first.alike = alike.map(({ node }) => node);
    for (const { node } of alike) names.set(node.name, first.node.name);
    merged.push(first);
  }
  if (names.size === 0) return merged;
  const renamed = (path: string): string => names.get(path) ?? path;
  return merged.map((place) => ({
    ...place,
    parents: new Map([...place.parents].map(([path, on]) => [renamed(path), on])),
    children: new Set([...place.children].map(renamed)),
  }));
}

/** Each after all of its parents, else in the given order. */
function inParentsOrder(places: readonly Place[]): readonly Place[] {
  const byPath = new Map(places.map((place) => [place.node.name, place]));
  const waits = new Map<string, number>();
  for (const { node, parents } of places)
    waits.set(node.name, [...parents.keys()].filter((path) => byPath.has(path)).length);
  const ordered = places.filter(({ node }) => waits.get(node.name) === 0);
  for (const { children } of ordered)
    for (const path of children) {
      const left = (waits.get(path) ?? 0) - 1;
      waits.set(path, left);
      const place = byPath.get(path);
      if (left === 0 && place !== undefined) ordered.push(place);
    }
  return ordered;
}

function levelOf(places: readonly Place[]): Level {
  const byPath = new Map(places.map((place) => [place.node.name, place]));
  const dominators = new Map<string, string>();
  const depths = new Map<string, number>([["", 0]]);
  const depthOf = (path: string): number => depths.get(path) ?? 0;
  const up = (path: string): string => dominators.get(path) ?? "";
  const meet = (one: string, other: string): string => {
    let [left, right] = [one, other];
    while (left !== right)
      if (depthOf(left) >= depthOf(right)) left = up(left);
      else right = up(right);
    return left;
  };
  for (const { node, parents } of places) {
    const known = [...parents.keys()].filter((path) => byPath.has(path));
    const found = known.length === 0 ? "" : known.reduce(meet);
    dominators.set(node.name, found);
    depths.set(node.name, depthOf(found) + 1);
  }
  return { places: byPath, below: Map.groupBy(places, ({ node }) => up(node.name)) };
}
