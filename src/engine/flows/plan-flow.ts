/**
 * From a flow as it was built to the unit that a store takes: one job for the flow, one for each node, all of them or
 * none. All that is refused is refused here. The flow's id is minted where its members have to lie; theirs follow from
 * it.
 */
import { canonicalText, digestText } from "../../codec/digest.ts";
import { MillraceError } from "../../model/error.ts";
import { flowQueue, idOfPath, memberTag } from "../../model/flow/flow-meta.ts";
import type { FlowMeta, Invoker } from "../../model/flow/flow-meta.ts";
import { writeFreed } from "../../model/flow/freed.ts";
import { invalidFlow, lastNodes, needOfPart, planGraph } from "../../model/flow/graph.ts";
import type { FailureMode, Part, PlannedNode } from "../../model/flow/graph.ts";
import { newWaits } from "../../model/flow/flow-waits.ts";
import { readMeta, writeMeta } from "../../model/job/job-meta.ts";
import { parsePolicy, writePolicy } from "../../model/job/job-policy.ts";
import type { JobPolicy } from "../../model/job/job-policy.ts";
import { askedPartition } from "../../model/routing/placement.ts";
import type { NewJob } from "../../store/records.ts";
import type { Submission } from "../submit/job-definition.ts";
import type { Needs } from "../services.ts";
import type { ReadOptions } from "../submit/job-options.ts";
import type { JobPlanner } from "../submit/job-planner.ts";
import { keptOnFailed, planOnFailed } from "./failed-flow.ts";
import type { AnyFlow, BuiltNode, Returned } from "./flow.ts";
import { checkMemberTags } from "./flow-options.ts";
import { withUnknown } from "./result-refs.ts";

export interface PlannedFlow {
  readonly id: string;
  readonly jobs: readonly NewJob[];
}

export interface FlowJobOptions extends Pick<ReadOptions, "tags"> {
  readonly failureMode: FailureMode;
  readonly policy: JobPolicy;
  /** An id that was minted or derived before; left out: a new one. */
  readonly id?: string;
  /** It is kept, and made later: it has no id yet, and its members have the ends of theirs. */
  readonly isTemplate?: true;
  /** Of a flow that a durable run invokes. */
  readonly invokedBy?: Invoker;
  /** Of a flow that is submitted once by this key: its id follows from it. */
  readonly key?: string;
}

/** Throws at once for a graph that cannot be; rejects for a job that cannot be. */
export function planFlow(
  needs: Needs<"ids" | "planner">,
  flow: AnyFlow,
  options: FlowJobOptions,
): Promise<PlannedFlow> {
  const part: Part = { kind: "flow", failureMode: options.failureMode };
  // In the order of what was built.
  const { nodes } = planGraph(flow.nodes, { path: "", part });
  checkRefs(flow.nodes, nodes);
  checkReturned(flow.nodes, flow.returned ?? {}, flow.name);
  return planAll(needs, flow, { ...options, part, nodes });
}

async function planAll(
  needs: Needs<"ids" | "planner">,
  flow: AnyFlow,
  options: FlowJobOptions & { readonly part: Part; readonly nodes: readonly PlannedNode[] },
): Promise<PlannedFlow> {
  const { part, nodes } = options;
  const jobs = await planNodeJobs(needs.planner, flow.nodes);
  const { invokedBy, key } = options;
  const { onFailed } = flow;
  const ifFailed = onFailed === null ? null : planOnFailed(needs.planner, onFailed, flow.name);
  const id = placeFlow(needs, flow, ifFailed === null ? jobs : [...jobs, ifFailed], options);
  const content = key === undefined ? null : contentOf(flow);
  const memberOf = membersOf(id, nodes);
  const members = nodes.map((node, at) => memberOf(node, flow.nodes[at] as BuiltNode, jobs[at] as NewJob));
  const total = nodes.filter(({ within }) => within === "").length;
  const whole: NewJob = {
    ...partJob(id, flow.name),
    policy: writePolicy(options.policy),
    meta: writeMeta({
      flow: {
        part,
        ...(flow.returned === null ? { ends: lastNodes(nodes, "") } : { returned: flow.returned }),
        ...(invokedBy === undefined ? {} : { invokedBy }),
        ...(ifFailed === null ? {} : { onFailed: keptOnFailed(ifFailed) }),
        ...(key === undefined || content === null ? {} : { key, content }),
      },
    }),
    tags: options.tags ?? null,
    waits: newWaits({ ...needOfPart(part, total), defers: 1, total }),
  };
  const all = [whole, ...members];
  // A digest makes a store look each id up, so that a second submit of the key meets the first one.
  return { id, jobs: content === null ? all : all.map((job) => ({ ...job, digest: content })) };
}

/** The id of a flow, in the partition that its members ask for. */
function placeFlow(
  { ids }: Needs<"ids">,
  { name }: AnyFlow,
  jobs: readonly NewJob[],
  { id, invokedBy, isTemplate }: FlowJobOptions,
): string {
  if (isTemplate === true) return "";
  const { placement } = ids;
  if (placement === null || invokedBy !== undefined) return id ?? ids.mint();
  const partition = askedPartition(placement, { jobs });
  if (id === undefined) return partition === null ? ids.mint() : ids.mint(partition);
  if (partition !== null && partition !== placement.ofId(id))
    throw new MillraceError(
      "placement-conflict",
      `The flow ${JSON.stringify(name)} was given an id or a key that lies in another partition of this store than a limit or a unique key of its nodes. Give both names the same text in braces, or leave the key out.`,
    );
  return id;
}

/** Equal flows have equal texts: their names, nodes, edges and inputs, whatever the options of their jobs. */
function contentOf({ name, nodes, returned }: AnyFlow): string {
  const shown = nodes.map(({ path, within, part, after, join, cancelsRest, submission, refs, expands }) => [
    ...[path, within, part, after, join, cancelsRest, refs, expands ?? null],
    submission === null ? null : [submission.job.name, canonicalText(submission.input)],
  ]);
  return digestText(JSON.stringify(returned === null ? [name, shown] : [name, shown, returned]));
}

/** Most jobs are planned without a promise. */
export async function planNodeJobs(
  planner: JobPlanner,
  nodes: readonly BuiltNode[],
): Promise<readonly NewJob[]> {
  const planned = nodes.map((node) => planNode(planner, node));
  return planned.some((each) => each instanceof Promise)
    ? Promise.all(planned.map(async (each) => each))
    : (planned as NewJob[]);
}

/** That of a member follows from its flow's. */
const noId = (): string => "";

/** The job of a node, before it knows its place in the flow. */
function planNode(
  planner: JobPlanner,
  { path, submission, refs, expands }: BuiltNode,
): NewJob | Promise<NewJob> {
  if (submission === null) return partJob("", path);
  const given = submission as Submission;
  if (expands !== undefined) return planner.planExpander(given);
  if (refs.length === 0) return planner.plan(given, noId);
  const refuse = (of: string): Error =>
    invalidFlow(
      `${JSON.stringify(path)}: its group, its unique key or the key of a limit is computed from the result of ` +
        `${JSON.stringify(of)}, which nobody knows yet; give it as an option of the node.`,
    );
  return planner.planIncomplete(given, (input) => withUnknown(input, refs, refuse));
}

/** A flow or a part of one: a job that nobody claims. */
export function partJob(id: string, name: string): NewJob {
  return {
    ...{ id, digest: null, queue: flowQueue, name, input: "null", policy: null, meta: null, tags: null },
    ...{ due: { inMs: 0 }, rankBase: 0, rankSlope: 1, deadline: null, ttlMs: null, unique: null },
  };
}

/** By the path of a flow inside the flow: the nodes that it ends with. */
type EndsOf = (path: string) => readonly string[];

function endsIn(nodes: readonly PlannedNode[]): EndsOf {
  let inside: ReadonlyMap<string, readonly PlannedNode[]> | null = null;
  return (path) => {
    inside ??= Map.groupBy(nodes, ({ within }) => within);
    return lastNodes(inside.get(path) ?? [], path);
  };
}

interface Place {
  readonly node: PlannedNode;
  readonly built: BuiltNode;
  readonly job: NewJob;
}

/** Makes members of one flow. One that stands in it like the one before it shares what that says about the flow. */
export function membersOf(
  root: string,
  nodes: readonly PlannedNode[],
): (node: PlannedNode, built: BuiltNode, job: NewJob) => NewJob {
  let last: (Place & { readonly member: NewJob }) | null = null;
  const endsOf = endsIn(nodes);
  return (node, built, job) => {
    const place = { node, built, job };
    const id = idOfPath(root, node.path);
    if (last !== null && standAlike(last, place)) {
      const { meta, tags, flow = null, edges = null, freed = null, waits = null } = last.member;
      return { ...job, id, meta, tags, flow, edges, freed, waits };
    }
    const member = memberOf(root, id, place, endsOf);
    last = { ...place, member };
    return member;
  };
}

/** Whether two jobs differ in nothing that a member says about its flow. */
function standAlike(one: Place, other: Place): boolean {
  return (
    isUsual(one.built) &&
    isUsual(other.built) &&
    one.node.within === other.node.within &&
    one.node.need === other.node.need &&
    one.node.slack === other.node.slack &&
    one.node.cancelsRest === other.node.cancelsRest &&
    one.job.meta === other.job.meta &&
    one.job.tags === other.job.tags &&
    one.job.due === other.job.due &&
    one.job.rankBase === other.job.rankBase &&
    one.job.rankSlope === other.job.rankSlope &&
    one.job.ttlMs === other.job.ttlMs &&
    areSame(one.node.edges, other.node.edges) &&
    areSame(one.node.parents, other.node.parents)
  );
}

/** A job whose input is known. */
const isUsual = ({ part, refs, expands }: BuiltNode): boolean =>
  part === null && refs.length === 0 && expands === undefined;

function areSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, at) => text === other[at]);
}

function memberOf(root: string, id: string, { node, built, job }: Place, endsOf: EndsOf): NewJob {
  const { part, edges, parents, members } = node;
  const { need, slack } = part === null ? node : needOfPart(part, members);
  const flow: FlowMeta = {
    ...(part === null ? {} : { part }),
    ...(part?.kind === "flow" ? resultsOf(node, built, endsOf) : {}),
    ...(parents.length === 0 ? {} : { parents, wants: { need, slack } }),
    ...(node.cancelsRest ? { cancelsRest: true } : {}),
    ...(built.refs.length === 0 ? {} : { refs: built.refs }),
    ...(built.expands === undefined ? {} : { expands: built.expands }),
  };
  const { due, rankBase, rankSlope, ttlMs } = job;
  const defers = part !== null || node.cancelsRest ? 1 : 0;
  return {
    ...job,
    id,
    meta: writeMeta({ ...readMeta(job.meta), flow }),
    policy: policyOf(job, built),
    tags: tagsOf(root, node.path, job),
    flow: idOfPath(root, node.within),
    edges,
    freed: part === null ? writeFreed({ due, rankBase, rankSlope, ttlMs }) : null,
    waits: newWaits({ need, slack, defers, ...(part === null ? {} : { total: members }) }),
  };
}

function resultsOf(
  { path }: PlannedNode,
  { returned }: BuiltNode,
  endsOf: EndsOf,
): Pick<FlowMeta, "ends" | "returned"> {
  return returned === undefined ? { ends: endsOf(path) } : { returned };
}

/** Making the jobs of a list has no result and no input to check, and is tried as often as any job. */
function policyOf({ policy }: NewJob, { expands }: BuiltNode): string | null {
  return expands === undefined ? policy : writePolicy({ ...parsePolicy(policy), keepsResult: false });
}

function tagsOf(root: string, path: string, { tags }: NewJob): readonly string[] {
  if (tags !== null) checkMemberTags(tags, `The node ${JSON.stringify(path)}`);
  return [...(tags ?? []), memberTag(root)];
}

/** A result that is not kept is there for nobody. @param planned the same nodes in the same order. */
export function checkRefs(nodes: readonly BuiltNode[], planned: readonly PlannedNode[]): void {
  if (nodes.every(({ refs }) => refs.length === 0)) return;
  const byPath = new Map(nodes.map((node) => [node.path, node]));
  const inside = Map.groupBy(nodes, ({ within }) => within);
  const endsOf = endsIn(planned);
  for (const { path, refs } of nodes)
    for (const ref of refs) {
      const own = byPath.get(ref.of);
      if (own === undefined) continue;
      const refuse = (of: string, why: string): MillraceError =>
        invalidFlow(`${JSON.stringify(path)} refers to the result of ${JSON.stringify(of)}, ${why}.`);
      if (own.part?.kind === "flow") {
        const [name] = ref.path;
        if (name === undefined) continue;
        const { returned } = own;
        const end = `${ref.of}.${name}`;
        if (returned !== undefined && !Object.hasOwn(returned, name))
          throw refuse(end, "which the flow inside does not return");
        if (returned !== undefined) continue;
        if (!endsOf(ref.of).includes(end))
          throw refuse(end, "which is no node that the flow inside ends with");
        if (keepsNoResult(byPath.get(end) as BuiltNode)) throw refuse(end, "which keeps none");
        continue;
      }
      // The results of a part are those of its nodes.
      const referred = own.part === null ? [own] : (inside.get(ref.of) ?? []);
      if (referred.some(keepsNoResult)) throw refuse(ref.of, "which keeps none");
    }
}

/** Of a flow and of those inside it: what they return is there, and is kept. */
function checkReturned(nodes: readonly BuiltNode[], own: Returned, title: string): void {
  const all = [own, ...nodes.map(({ returned }) => returned ?? {})].flatMap((each) => Object.entries(each));
  if (all.length === 0) return;
  const byPath = new Map(nodes.map((node) => [node.path, node]));
  for (const [name, path] of all) {
    const node = byPath.get(path);
    const what = `The flow ${JSON.stringify(title)} returns ${JSON.stringify(path)} as ${JSON.stringify(name)}`;
    if (node === undefined) throw invalidFlow(`${what}, which is none of its nodes.`);
    if (keepsNoResult(node)) throw invalidFlow(`${what}, which keeps no result.`);
  }
}

function keepsNoResult({ submission, expands }: BuiltNode): boolean {
  const options = (expands?.options ?? submission?.options) as { readonly keepResult?: unknown } | undefined;
  const keeps = options?.keepResult ?? submission?.job.options.policy.keepsResult;
  return keeps === false || keeps === 0;
}
