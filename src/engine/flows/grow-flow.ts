/**
 * Growth: what a handler adds to its own flow becomes part of the settle that ends its job, so that it happens with the
 * job's completion or not at all, and a flow is never decided while a node is about to add to it.
 */
import { digestText } from "../../codec/digest.ts";
import { MillraceError } from "../../model/error.ts";
import { idOfPath, isItem, numberOfItem, pathOfId, rootOf } from "../../model/flow/flow-meta.ts";
import { joinsSome, invalidFlow, needOfPart, planGraph } from "../../model/flow/graph.ts";
import type { Part, PlannedNode } from "../../model/flow/graph.ts";
import { capOf, firstItems } from "../../model/flow/capped-map.ts";
import type { FirstItems } from "../../model/flow/capped-map.ts";
import type { Effects, JobRecord, LeasedJob, NewJob } from "../../store/records.ts";
import type { AnyJob, Submission } from "../submit/job-definition.ts";
import type { Needs } from "../services.ts";
import { checkRefs, membersOf, planNodeJobs } from "./plan-flow.ts";
import { nodesInside } from "./flow.ts";
import type { BuiltNode, Flow } from "./flow.ts";
import { flowMetaOf } from "./members.ts";

type GrowFlowNeeds = Needs<"reads" | "planner">;

export type Growing = Required<Pick<Effects, "jobs" | "grows" | "links">>;

/**
 * @param within the id of the flow or part that the nodes are added to.
 * @param by the member that adds them: of two that add a node of one name at once, the store refuses the second.
 * @param isAgain a replay has brought the node back that adds them: what it has added before is there, and is left
 * alone.
 */
export async function planGrowth(
  needs: GrowFlowNeeds,
  added: Flow,
  within: string,
  { by, isAgain }: { readonly by: Pick<LeasedJob, "id" | "fence">; readonly isAgain: boolean },
): Promise<Growing> {
  const root = rootOf(within) ?? within;
  const path = pathOfId(within);
  const given = nodesInside(path, added.nodes);
  const flow = await needs.reads.add(within);
  const part = flow === null ? undefined : flowMetaOf(flow).part;
  if (part === undefined)
    throw new MillraceError("flow-closed", `The flow ${JSON.stringify(within)} is not there any more.`);
  if (capOf(part) !== null && given.some((node) => node.within === path && isItem(node.path)))
    throw invalidFlow("The nodes of a map are numbered; what is added to one has another name.");
  const known = await readKnown(needs, root, given);
  const doubled = given.find((node) => known.has(node.path));
  if (doubled !== undefined && !isAgain)
    throw invalidFlow(`Two nodes have the name ${JSON.stringify(doubled.path)}.`);
  const nodes = given.filter((node) => !known.has(node.path));
  const isClosing = flow?.cancelAsked === true || flow?.state !== "blocked";
  const there = await readThere(needs, { within, own: part, isClosing }, nodes);
  const growing = await assemble(needs, { root, path, part, nodes, isThere: (name) => there.has(name) });
  const digest = digestText(`${by.id} ${by.fence}`);
  return { ...growing, jobs: growing.jobs.map((job) => ({ ...job, digest })) };
}

/** Which of these nodes are there already. */
async function readKnown(
  needs: Needs<"reads">,
  root: string,
  nodes: readonly BuiltNode[],
): Promise<ReadonlySet<string>> {
  const records = await Promise.all(nodes.map(({ path }) => needs.reads.add(idOfPath(root, path))));
  return new Set(nodes.filter((_, at) => records[at] !== null).map(({ path }) => path));
}

/** The members beside these nodes that they come after or go before. */
async function readThere(
  needs: Needs<"reads">,
  { within, own, isClosing }: { readonly within: string; readonly own: Part; readonly isClosing: boolean },
  nodes: readonly BuiltNode[],
): Promise<ReadonlySet<string>> {
  const root = rootOf(within) ?? within;
  const added = new Set(nodes.map(({ path }) => path));
  const named = nodes.flatMap(({ after, before = [] }) => [...after.map(({ path }) => path), ...before]);
  const asked = [...new Set(named)].filter((path) => !added.has(path));
  const records = await Promise.all(asked.map((path) => needs.reads.add(idOfPath(root, path))));
  // An edge of what stands inside of another part leads elsewhere.
  const there = records.filter((record): record is JobRecord => record?.flow === within);
  const byPath = new Map(there.map((record) => [pathOfId(record.id), record]));
  for (const { path, before = [] } of nodes)
    for (const later of before) {
      const record = byPath.get(later);
      if (record === undefined) continue;
      const { part, wants } = flowMetaOf(record);
      if (part !== undefined)
        throw invalidFlow(
          `${JSON.stringify(path)} goes before ${JSON.stringify(later)}, which has nodes of its own.`,
        );
      // Of a flow that is being cancelled the store refuses the growth.
      if (record.state !== "blocked" && !isClosing && record.state !== "cancelled")
        throw invalidFlow(
          `${JSON.stringify(path)} goes before ${JSON.stringify(later)}, which waits for nothing any more (${record.state}).`,
        );
      if (wants !== undefined && wants.slack > 0) throw invalidFlow(joinsSome(path, later));
      if (capOf(own) !== null)
        throw invalidFlow(
          `${JSON.stringify(path)} goes before ${JSON.stringify(later)}, which waits for the cap of its map.`,
        );
    }
  return new Set(byPath.keys());
}

interface Addition {
  readonly root: string;
  readonly path: string;
  readonly part: Part;
  readonly nodes: readonly BuiltNode[];
  readonly isThere: (path: string) => boolean;
  /** Of a map with a cap: which of them wait behind it, and how many ends more than these its need counts. */
  readonly first?: FirstItems;
}

async function assemble(
  needs: Needs<"planner">,
  { root, path, part, nodes, isThere, first }: Addition,
): Promise<Growing> {
  if (nodes.length === 0) return { jobs: [], grows: [], links: [] };
  const plan = planGraph(nodes, { path, part, isThere });
  checkRefs(nodes, plan.nodes);
  // The plan is in the order of what was built.
  const jobs = await planNodeJobs(needs.planner, nodes);
  for (const node of plan.nodes) if (first?.isHeld(numberOfItem(node.path)) === true) node.need += 1;
  const memberOf = membersOf(root, plan.nodes);
  const members = plan.nodes.map((node, at) => memberOf(node, nodes[at] as BuiltNode, jobs[at] as NewJob));
  const total = plan.nodes.filter(({ within }: PlannedNode) => within === path).length;
  const [none, more] = [needOfPart(part, 0), needOfPart(part, total)];
  return {
    jobs: members,
    grows: [
      {
        id: idOfPath(root, path),
        // The need of a map with a cap is the next end, whoever is added.
        need: first?.need ?? (capOf(part) === null ? more.need - none.need : 0),
        slack: more.slack - none.slack,
        members: total,
      },
      ...plan.awaited.map((later) => ({ id: idOfPath(root, later), need: 1, slack: 0, members: 0 })),
    ],
    links: plan.links.map(({ from, edge }) => ({ from: idOfPath(root, from), edge })),
  };
}

/** The jobs of a list, one for each item, in the part that was made for them. */
export async function planItems(
  needs: GrowFlowNeeds,
  id: string,
  {
    job,
    items,
    options,
    isAgain,
  }: {
    readonly isAgain: boolean;
    readonly job: AnyJob;
    readonly items: readonly unknown[];
    readonly options: Submission["options"];
  },
): Promise<Growing> {
  const root = rootOf(id) ?? id;
  const path = pathOfId(id);
  const map = await needs.reads.add(id);
  const part: Part = (map === null ? undefined : flowMetaOf(map).part) ?? { kind: "group", tolerate: 0 };
  const given = items.map((input, at): BuiltNode => ({
    ...{
      path: `${path}.${at}`,
      within: path,
      part: null,
      after: [],
      join: null,
      cancelsRest: false,
      refs: [],
    },
    submission: { job, input, options },
  }));
  const known = isAgain ? await readKnown(needs, root, given) : new Set<string>();
  const nodes = given.filter((node) => !known.has(node.path));
  const cap = capOf(part);
  return assemble(needs, {
    ...{ root, path, part, nodes, isThere: (other) => known.has(other) },
    ...(cap === null ? {} : { first: firstItems(cap, nodes.length, isAgain) }),
  });
}
