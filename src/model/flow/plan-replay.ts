/**
 * Which members of a flow come back by a replay, and in which order. What is blocked behind them is parked first,
 * because it would count a node that ends twice before its own step comes; then those that are to run again are held
 * back; then what waits for them waits again, each behind what it waits for; then they are let go. So nobody runs
 * before what it comes after, whatever happens in between, and whoever dies on the way leaves a plan that can be gone
 * through again.
 *
 *   parks     the steps that are blocked now
 *   runs      what runs again, and comes after nothing that does
 *   steps     what waits for them, directly or not: what was skipped, and where that is asked for what has run; also
 *             what is still blocked, because what has arrived from a node that runs again no longer counts. Among them
 *             the flows and parts that these and the runs stand in, each behind the first of its nodes that has come
 *             back, the inner ones first: one that goes on while nothing in it lives would be decided at once
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
  /** A map that lets so many of its items run at once. */
  readonly isCapped: boolean;
  /** Of a flow or a part: what failed in it has cancelled the rest of it. */
  readonly hasCancelledRest: boolean;
  /** It was freed, and has cancelled those of its parents that had not ended. */
  readonly hasCancelledParents: boolean;
  /** It has never been freed, or not since it came back. */
  readonly isUnfreed: boolean;
  /** The path of the flow or part that it stands in; null for the flow itself. */
  readonly within: string | null;
  readonly edges: readonly string[];
  /** The edges that led here at its submit, with the paths that they come from in place of targets. */
  readonly parents: readonly string[];
}

/** Each with the rev that it had: whatever has moved on since is left alone. */
export type Marked = readonly (readonly [path: string, rev: number])[];

export interface ReplayPlan {
  readonly parks: Marked;
  readonly runs: Marked;
  readonly steps: Marked;
  /**
   * Those of the runs that were cancelled or expired before they were freed: what they come after decides about them.
   */
  readonly unfreed: readonly string[];
  /** Maps with a cap that nodes of these stand in: what runs again there waits behind the cap. */
  readonly capped: readonly string[];
  /** Items of theirs that wait behind the cap now, and do so again behind those that come back. */
  readonly behindCap: readonly string[];
  /** How many of the steps are nodes that wait again. */
  readonly waits: number;
  /**
   * Of steps that handlers have made to wait for more: edges from these nodes, with their paths in place of targets.
   */
  readonly added: Readonly<Record<string, readonly string[]>>;
}

export interface ReplayAsked {
  /**
   * Paths that run again; left out for all that failed, expired or was cancelled with the flow or part that it stands
   * in.
   */
  readonly nodes?: readonly string[];
  /** Whether what comes after them runs again although it has run; else only what was skipped comes back. */
  readonly withRest: boolean;
}

const failedStates: readonly JobState[] = ["failed", "expired"];

export function planReplay(members: ReadonlyMap<string, Member>, asked: ReplayAsked): ReplayPlan {
  const runs = new Set(
    asked.nodes ?? [...members.values()].filter(hasFailed(members)).map(({ path }) => path),
  );
  // What comes after another that runs again waits for that one, although it is to run again itself.
  const behind = reach(members, runs, (member) => runs.has(member.path) || comesBack(member, asked));
  for (const path of behind) runs.delete(path);
  const blocks = inOrder(
    members,
    behind.filter((path) => members.get(path)?.isPart === false),
  );
  const steps = withParts(members, runs, blocks);
  const capped = new Set(steps.filter((path) => members.get(path)?.isCapped === true));
  const behindCap = [...members.values()].filter(
    ({ path, within, state }) => state === "blocked" && capped.has(within ?? "") && isItem(path),
  );
  const unfreed = asked.nodes === undefined ? [...runs].filter((path) => isUnfreed(members.get(path))) : [];
  const parked = new Set(blocks.filter((path) => members.get(path)?.state === "blocked"));
  const marked = (paths: Iterable<string>): Marked =>
    [...paths].map((path) => [path, members.get(path)?.rev ?? 0] as const);
  return {
    parks: marked(parked),
    runs: marked(runs),
    unfreed,
    // Parking makes one rev more.
    steps: marked(steps).map(([path, rev]) => [path, parked.has(path) ? rev + 1 : rev] as const),
    capped: [...capped],
    behindCap: behindCap.map(({ path }) => path),
    waits: blocks.length,
    added: addedParents(members, new Set([...blocks, ...unfreed])),
  };
}

/** A node that has run and failed was freed, although a replay may have let it go without counting anew. */
const isUnfreed = (member: Member | undefined): boolean =>
  member?.isUnfreed === true && member.state !== "failed";

/** Which nodes run again where none is named. */
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
 * Whether a node was cancelled because its flow was, or the part that it stands in, or because of what failed beside
 * it. One that somebody cancelled alone was not; neither was one that has lost a race, or that a join has no more use
 * for.
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

/** A node that grew says nothing of it itself; whoever was added before it has the edge. */
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

/** Where the end of a member leads: its targets, and the flow or part that it stands in. */
function nextOf(members: ReadonlyMap<string, Member>, { within, edges }: Member): readonly string[] {
  if (within === null) return [];
  return edges
    .map((text) => readEdge(text).target)
    .map((target) => (target === "" ? within : within === "" ? target : `${within}.${target}`))
    .filter((path) => path !== "" && members.has(path));
}

/** Everything that lies behind these, as far as it comes back. */
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

/** Each behind all of them that lead to it. */
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
