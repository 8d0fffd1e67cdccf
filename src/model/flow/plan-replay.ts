/**
 * Which members of a flow come back by a replay, and in which order. First, blocked nodes after them are held: they
 * would count twice a node that ends before their own step. Then the nodes that run again are held back. Then the nodes
 * that wait for these wait again, in topological order. Then the held nodes are released. So no node runs before its
 * parents, whatever happens in between, and if a process dies on the way the plan can be followed again.
 *
 *   blocks    the steps that are blocked now
 *   runs      nodes that run again, and come after no other such node
 *   steps     their descendants: those that were skipped and, if requested, those that have run; also those that are
 *             still blocked, because an arrival from a node that runs again no longer counts. Among them are the flows
 *             and parts that contain these nodes, each after the first of its nodes that has come back, inner ones
 *             first: a part without live nodes would be decided at once
 */
import { isTerminal } from "../job/job-state.ts";
import type { JobState } from "../job/job-state.ts";
import { readEdge, targetOf, withTarget } from "./edge.ts";
import { isItem } from "./flow-meta.ts";

/** A member, or the flow itself (path ""). */
export interface Member {
  readonly path: string;
  readonly state: JobState;
  readonly rev: number;
  readonly isPart: boolean;
  /** A map with a cap on how many items run at once. */
  readonly isCapped: boolean;
  /** For a flow or a part: a failure in it has cancelled its other nodes. */
  readonly hasCancelledRest: boolean;
  /** When it was freed it cancelled its parents that had not ended. */
  readonly hasCancelledParents: boolean;
  /** It was never freed, or not since its last replay. */
  readonly isUnfreed: boolean;
  /** The path of the flow or part that contains it; null for the flow itself. */
  readonly within: string | null;
  readonly edges: readonly string[];
  /** The edges that led here at its submit, with the paths of their sources instead of targets. */
  readonly parents: readonly string[];
}

/** Each with the rev that it had: a node that has changed since is not touched. */
export type Marked = readonly (readonly [path: string, rev: number])[];

export interface ReplayPlan {
  /** Steps that are blocked now, and so stay until their own step. */
  readonly blocks: Marked;
  readonly runs: Marked;
  readonly steps: Marked;
  /** Those of the runs that were cancelled or expired before they were freed: their parents decide about them. */
  readonly unfreed: readonly string[];
  /** Capped maps that contain such nodes: items that run again there wait for the cap. */
  readonly capped: readonly string[];
  /** Their items that wait for the cap now, and do so again after those that come back. */
  readonly behindCap: readonly string[];
  /** How many of the steps are nodes, not parts, that wait again. */
  readonly waits: number;
  /** For steps to which handlers have added parents: edges from these, with their paths instead of targets. */
  readonly added: Readonly<Record<string, readonly string[]>>;
}

export interface ReplayAsked {
  /**
   * Paths that run again. By default all nodes that failed, expired or were cancelled with the flow or part that
   * contains them.
   */
  readonly nodes?: readonly string[];
  /** Whether their descendants run again although they have run; else only skipped ones come back. */
  readonly withRest: boolean;
}

const failedStates: readonly JobState[] = ["failed", "expired"];

export function planReplay(members: ReadonlyMap<string, Member>, asked: ReplayAsked): ReplayPlan {
  const runs = new Set(
    asked.nodes ?? [...members.values()].filter(hasFailed(members)).map(({ path }) => path),
  );
  // A node that runs again and comes after another such node waits for it.
  const behind = reach(members, runs, (member) => runs.has(member.path) || comesBack(member, asked));
  for (const path of behind) runs.delete(path);
  const again = inOrder(
    members,
    behind.filter((path) => members.get(path)?.isPart === false),
  );
  const steps = withParts(members, runs, again);
  const capped = new Set(steps.filter((path) => members.get(path)?.isCapped === true));
  const behindCap = [...members.values()].filter(
    ({ path, within, state }) => state === "blocked" && capped.has(within ?? "") && isItem(path),
  );
  const unfreed = asked.nodes === undefined ? [...runs].filter((path) => isUnfreed(members.get(path))) : [];
  const blockedNow = new Set(again.filter((path) => members.get(path)?.state === "blocked"));
  const marked = (paths: Iterable<string>): Marked =>
    [...paths].map((path) => [path, members.get(path)?.rev ?? 0] as const);
  return {
    blocks: marked(blockedNow),
    runs: marked(runs),
    unfreed,
    // Holding a node raises its rev by one.
    steps: marked(steps).map(([path, rev]) => [path, blockedNow.has(path) ? rev + 1 : rev] as const),
    capped: [...capped],
    behindCap: behindCap.map(({ path }) => path),
    waits: again.length,
    added: addedParents(members, new Set([...again, ...unfreed])),
  };
}

/** A node that has run and failed was freed, although a replay may have released it without counting again. */
const isUnfreed = (member: Member | undefined): boolean =>
  member?.isUnfreed === true && member.state !== "failed";

/** Which nodes run again if none is named. */
function hasFailed(members: ReadonlyMap<string, Member>): (member: Member) => boolean {
  return (member) => {
    if (member.isPart) return false;
    return (
      failedStates.includes(member.state) ||
      (member.state === "cancelled" && wasCancelledWith(members, member))
    );
  };
}

/**
 * Whether a node was cancelled because its flow was, or the part that contains it, or because another node failed. It
 * was not if it was cancelled alone, has lost a race, or is no longer needed by a join.
 */
function wasCancelledWith(members: ReadonlyMap<string, Member>, node: Member): boolean {
  for (let own = node; own.within !== null;) {
    const flow = members.get(own.within);
    const isNeedless = nextOf(members, own).some((path) => members.get(path)?.hasCancelledParents === true);
    if (flow === undefined || isNeedless) return false;
    if (flow.state !== "cancelled") return flow.hasCancelledRest;
    own = flow;
  }
  return true;
}

/** A node to which parents were added does not record it; each added parent has the edge. */
function addedParents(
  members: ReadonlyMap<string, Member>,
  blocks: ReadonlySet<string>,
): Record<string, readonly string[]> {
  const added: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  const known = new Map([...blocks].map((path) => [path, new Set(members.get(path)?.parents)]));
  for (const { path, within, edges } of members.values())
    for (const edge of within === null ? [] : edges.slice(1)) {
      const target = within === "" ? targetOf(edge) : `${within}.${targetOf(edge)}`;
      const parent = withTarget(edge, path);
      if (known.get(target)?.has(parent) === false) (added[target] ??= []).push(parent);
    }
  return added;
}

function comesBack({ state, isPart }: Member, { withRest }: ReplayAsked): boolean {
  if (isPart) return true;
  return state === "blocked" || state === "skipped" || (withRest && isTerminal(state));
}

/** Where the end of a member leads: its targets, and the flow or part that contains it. */
function nextOf(members: ReadonlyMap<string, Member>, { within, edges }: Member): readonly string[] {
  if (within === null) return [];
  return edges
    .map((text) => readEdge(text).target)
    .map((target) => (target === "" ? within : within === "" ? target : `${within}.${target}`))
    .filter((path) => path !== "" && members.has(path));
}

/** All descendants of these that come back. */
function reach(
  members: ReadonlyMap<string, Member>,
  from: ReadonlySet<string>,
  isReached: (member: Member) => boolean,
): readonly string[] {
  const reached = new Set<string>();
  const rest = [...from];
  for (const path of rest)
    for (const next of nextOf(members, members.get(path) as Member)) {
      const member = members.get(next) as Member;
      if (reached.has(next) || !isReached(member)) continue;
      reached.add(next);
      rest.push(next);
    }
  return [...reached];
}

/** In topological order. */
function inOrder(members: ReadonlyMap<string, Member>, paths: readonly string[]): readonly string[] {
  const wanted = new Set(paths);
  const order: string[] = [];
  const seen = new Set<string>();
  const before = new Map<string, string[]>();
  for (const [path, member] of members)
    for (const next of nextOf(members, member)) {
      const list = before.get(next);
      if (list === undefined) before.set(next, [path]);
      else list.push(path);
    }
  // Without recursion: a chain may be as long as the flow is large.
  for (const path of paths) {
    const stack: { readonly path: string; isOpen: boolean }[] = [{ path, isOpen: false }];
    while (stack.length > 0) {
      const top = stack.at(-1) as { path: string; isOpen: boolean };
      if (top.isOpen || seen.has(top.path)) {
        if (top.isOpen && wanted.has(top.path)) order.push(top.path);
        stack.pop();
        continue;
      }
      seen.add(top.path);
      top.isOpen = true;
      for (const earlier of before.get(top.path) ?? [])
        if (!seen.has(earlier)) stack.push({ path: earlier, isOpen: false });
    }
  }
  return order;
}

/** The nodes that wait again, and each flow or part as soon as one of its nodes lives, the inner ones first. */
function withParts(
  members: ReadonlyMap<string, Member>,
  runs: ReadonlySet<string>,
  blocks: readonly string[],
): readonly string[] {
  const steps = new Set<string>();
  const open = (path: string): void => {
    for (let at = members.get(path)?.within ?? null; at !== null; at = members.get(at)?.within ?? null)
      if (members.has(at)) steps.add(at);
  };
  for (const path of runs) open(path);
  for (const path of blocks) {
    steps.add(path);
    open(path);
  }
  return [...steps];
}
