/** What the verbs of a flow's builder take, and how their options are read. */
import type { Expansion } from "../../model/flow/flow-meta.ts";
import { invalidFlow, nodesMax } from "../../model/flow/graph.ts";
import type { Condition, GraphNode, FailureMode } from "../../model/flow/graph.ts";
import { checkName } from "../../model/name.ts";
import { checkWhole, invalidOption } from "../../model/option.ts";
import { checkDefinition } from "../submit/job-definition.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { AnyJob, AnySubmission, JobDefinition, Submission } from "../submit/job-definition.ts";
import type { Budget, BudgetUse } from "../budgets/budget-definition.ts";
import { enqueueKeys, ownKeys, readEnqueueOptions } from "../submit/job-options.ts";
import type { EnqueueOptions, OwnOption } from "../submit/job-options.ts";
import type { FailedFlow } from "./failed-flow.ts";
import { isRef, refTo } from "./result-refs.ts";
import type { Ref } from "./result-refs.ts";

/** A node, or the name of one. */
export type NodeOrName = FlowNode | string;

export interface AfterOptions {
  /** It runs once these have completed. */
  after?: NodeOrName | readonly NodeOrName[];
  /** It runs once these have failed or expired. */
  afterFailureOf?: NodeOrName | readonly NodeOrName[];
  /** It runs once these have ended, in whichever way. */
  always?: NodeOrName | readonly NodeOrName[];
  /** How many of all these: "all" (the default), "any", or a number of them. */
  join?: "all" | "any" | number;
}

/** What a member of a flow cannot have: its id follows from the flow's. */
type MemberOptions<In> = Omit<EnqueueOptions<In>, OwnOption>;

export interface NodeOptions<In> extends MemberOptions<In>, AfterOptions {
  /** Nodes that wait for the success of this one too; for handlers that add to their own flow. */
  before?: NodeOrName | readonly NodeOrName[];
  /** Once it is freed, those of the nodes that it comes after which have not ended are cancelled. */
  cancelRest?: boolean;
}

export interface MapOptions<In> extends MemberOptions<In>, AfterOptions {
  /** How many run at once; any number by default. */
  concurrency?: number;
  /**
   * How many may end otherwise than completed; 0 by default. Above that the rest is cancelled and the map has failed.
   */
  tolerate?: number;
}

export interface RaceOptions extends AfterOptions {
  /** How many have to complete; 1 by default. */
  first?: number;
  /** Whether the others are cancelled then; true by default. */
  cancelRest?: boolean;
}

export interface GroupOfOptions extends AfterOptions {
  tolerate?: number;
}

export interface SubFlowOptions extends AfterOptions {
  failureMode?: never;
}

/** A node of a flow that is being built. */
export interface FlowNode<Result = unknown> {
  readonly name: string;
  /** Stands in the input of a node that comes after this one for its result, or a part of it. */
  readonly result: Ref<Result>;
}

/** A map, a group or a race of several. */
export interface FlowPart<Item = unknown> {
  readonly name: string;
  /** Stands for the results of its nodes that completed, in their order. */
  readonly results: Ref<readonly Item[]>;
  readonly result: Ref<readonly Item[]>;
}

export interface FlowDefinitionOptions {
  /** What the failure of a node means; "isolate" by default. The submit may say otherwise. */
  failureMode?: FailureMode;
  /**
   * Budgets of all its nodes, beside those of their jobs. The job of a map names them itself, and a flow inside says
   * its own.
   */
  budgets?: readonly (Budget | BudgetUse)[];
  /**
   * A job that is made once the flow fails, whoever ends it, and once for each flow. Its input says which nodes failed.
   *
   * @example
   *   const report = job<FailedFlow>("report-failed-flow");
   *   const order = flow("order", { onFailed: report });
   */
  onFailed?: OnFailedJob;
}

// oxlint-disable-next-line no-explicit-any -- only the input matters: the result of the job is nobody's
export type OnFailedJob = JobDefinition<FailedFlow, any, any, any>;

export const afterKeys = ["after", "afterFailureOf", "always", "join"] as const;
export const memberKeys = enqueueKeys.filter((key) => !ownKeys.includes(key));

const policies: readonly FailureMode[] = ["isolate", "fail-fast", "collect"];

export function checkFailureMode(value: unknown, what: string): FailureMode {
  if (policies.includes(value as FailureMode)) return value as FailureMode;
  throw invalidOption(`${what} must be one of ${policies.join(", ")}.`);
}

function hasFunction(value: unknown): boolean {
  if (typeof value === "function") return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasFunction);
}

export function checkSubmissions(jobs: readonly AnySubmission[], what: string): void {
  if (!Array.isArray(jobs) || jobs.length === 0)
    throw invalidOption(`${what}: give a list of job.with(input, options).`);
  for (const submission of jobs as readonly (Partial<AnySubmission> | null)[]) {
    if (typeof submission !== "object" || submission === null)
      throw invalidOption(`${what}: give a list of job.with(input, options).`);
    checkDefinition(submission.job as AnyJob, what);
  }
}

const conditions: readonly { readonly key: keyof AfterOptions; readonly on: Condition }[] = [
  { key: "after", on: "success" },
  { key: "afterFailureOf", on: "failure" },
  { key: "always", on: "always" },
];

/** @param flow the flow that is being built. */
export function readAfter(
  options: AfterOptions,
  what: string,
  flow: object,
): Pick<GraphNode, "after" | "join"> {
  const after: GraphNode["after"][number][] = [];
  for (const { key, on } of conditions) {
    const given: unknown = options[key];
    if (given === undefined) continue;
    const name = `${what}: ${key}`;
    for (const node of listOf(given)) after.push({ path: pathOf(node, name, flow), on });
  }
  const { join = "all" } = options;
  if (join === "all") return { after, join: null };
  if (join !== "any") checkWhole(join, `${what}: join`, 1, 100_000);
  return { after, join: join === "any" ? 1 : (join as number) };
}

export function listOf(given: unknown): readonly unknown[] {
  if (given === undefined) return [];
  return Array.isArray(given) ? given : [given];
}

/**
 * A node as the builder hands it out. It knows which flow has made it, because a node of another flow may have the same
 * name. A reference to its result is made when somebody asks for one: most nodes of a wide flow are never asked.
 */
export class MadeNode<Result> implements FlowNode<Result> {
  readonly name: string;
  readonly #flow: object;
  readonly #isPart: boolean;

  constructor(flow: object, name: string, isPart = false) {
    this.name = name;
    this.#flow = flow;
    this.#isPart = isPart;
  }

  get result(): Ref<Result> {
    return refTo(this.#flow, this.name, this.#isPart);
  }

  /** The flow that has made it; undefined for what is no node. */
  static makerOf(node: unknown): object | undefined {
    return typeof node === "object" && node !== null && #flow in node ? node.#flow : undefined;
  }
}

export class MadePart<Item> extends MadeNode<readonly Item[]> implements FlowPart<Item> {
  constructor(flow: object, name: string) {
    super(flow, name, true);
  }

  get results(): Ref<readonly Item[]> {
    return this.result;
  }
}

export function pathOf(node: unknown, what: string, flow: object): string {
  if (typeof node === "string") return checkName(node, what);
  const maker = MadeNode.makerOf(node);
  if (maker === undefined) throw invalidOption(`${what}: give a node, its name or a list of these.`);
  const { name } = node as FlowNode;
  if (maker !== flow) throw invalidFlow(`${what}: ${JSON.stringify(name)} is a node of another flow.`);
  return name;
}

/** A list that is known is checked before anything is written; one that is a result, when it is there. */
export function checkItems(items: unknown, what: string): void {
  if (isRef(items)) return;
  if (!Array.isArray(items)) throw invalidOption(`${what}: give a list, or the result of a node.`);
  if (items.length >= nodesMax)
    throw invalidFlow(`${what}: a map takes at most ${nodesMax - 1} items, not ${items.length}.`);
}

/**
 * Options of the jobs of a map, checked now and kept as JSON: a process without this code must be able to use them
 * later.
 */
export function readExpansion(given: MapOptions<never>, what: string): Expansion {
  const own: Record<string, unknown> = { ...given };
  for (const key of [...afterKeys, "concurrency", "tolerate"]) delete own[key];
  const { tags = [] } = readEnqueueOptions(own, what);
  checkMemberTags(tags, what);
  for (const [key, value] of Object.entries(own))
    if (hasFunction(value))
      throw invalidOption(
        `${what}: ${key} has a function, which cannot be kept until the list is known; give it to the job's definition.`,
      );
  const { runAt, deadline } = own;
  if (runAt instanceof Date) own["runAt"] = runAt.getTime();
  if (!(deadline instanceof Date)) return { options: own };
  delete own["deadline"];
  return { options: own, deadlineAt: deadline.getTime() };
}

/** What `readExpansion` was given, for each job of the list. */
export function optionsOfItem({ options = {}, deadlineAt }: Expansion): Submission["options"] {
  const own = deadlineAt === undefined ? options : { ...options, deadline: new Date(deadlineAt) };
  return Object.keys(own).length === 0 ? undefined : own;
}

export function checkMemberTags(tags: readonly string[], what: string): void {
  const { tagsPerJobMax } = storeLimits;
  if (tags.length >= tagsPerJobMax)
    throw invalidOption(`${what} has ${tags.length} tags; one of the ${tagsPerJobMax} is its flow's own.`);
}
