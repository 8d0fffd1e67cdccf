/**
 * A flow as application code builds it: nodes, each a job with its input, and what each comes after. Building needs no
 * store; nothing is checked against others before the flow is submitted (plan-flow.ts).
 *
 *   const report = flow("monthly-report");
 *   const rows = report.add("fetch", fetchRows, { month });
 *   const pages = report.map("render", renderPage, rows.result.pages, { concurrency: 10, tolerate: 2 });
 *   report.add("merge", mergePages, { pages: pages.results });
 */
import { expanderName } from "../../model/flow/flow-meta.ts";
import type { Expansion, ResultRef } from "../../model/flow/flow-meta.ts";
import { checkNodeName, invalidFlow } from "../../model/flow/graph.ts";
import type { GraphNode, FailureMode, Part } from "../../model/flow/graph.ts";
import { checkName } from "../../model/name.ts";
import { checkBoolean, checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import { readBudgets } from "../budgets/budget-definition.ts";
import type { AnyBudgetUse, BudgetUse } from "../budgets/budget-definition.ts";
import { checkDefinition } from "../submit/job-definition.ts";
import type { AnyJob, AnySubmission, JobDefinition, Submission } from "../submit/job-definition.ts";
import {
  afterKeys,
  checkItems,
  checkFailureMode,
  checkSubmissions,
  listOf,
  MadeNode,
  MadePart,
  memberKeys,
  pathOf,
  readAfter,
  readExpansion,
} from "./flow-options.ts";
import type {
  AfterOptions,
  FlowDefinitionOptions,
  FlowNode,
  FlowPart,
  GroupOfOptions,
  MapOptions,
  NodeOptions,
  OnFailedJob,
  RaceOptions,
  SubFlowOptions,
} from "./flow-options.ts";
import { readPlainNodes } from "./plain-flow.ts";
import type { PlainEdge, PlainNodes, PlainResults } from "./plain-flow.ts";
import { takeRefs } from "./result-refs.ts";
import type { Ref, WithRefs } from "./result-refs.ts";

/** A node as it was given. */
export interface BuiltNode extends GraphNode {
  /** Null for a part. */
  readonly submission: AnySubmission | null;
  /** Of a flow inside the flow that says what it returns. */
  readonly returned?: Returned;
  readonly refs: readonly ResultRef[];
  readonly expands?: Expansion;
}

/** Paths of nodes by the names that their results have. */
export type Returned = Readonly<Record<string, string>>;

/** The plain form of a flow (plain-flow.ts). */
export interface PlainGraph<
  Nodes extends PlainNodes = PlainNodes,
  Edges extends readonly PlainEdge[] = readonly PlainEdge[],
> {
  /** What `job.with(input, options)` returns, by the name of the node; beside it `join` and `cancelRest`. */
  readonly nodes: Nodes;
  /** `{ from, to }`: `to` runs once `from` has completed; with `on: "failure"` or `"always"` once it has ended so. */
  readonly edges?: Edges;
}

type ResultOfNode<Node> =
  Node extends FlowPart<infer Item> ? readonly Item[] : Node extends FlowNode<infer Result> ? Result : never;
type ReturnedBy<Nodes> = { readonly [Name in keyof Nodes]: ResultOfNode<Nodes[Name]> };

/** Options of a node that say where it stands in the flow; all others are its job's. */
const placeKeys: readonly string[] = [...afterKeys, "cancelRest", "before"];
const nodeKeys: readonly string[] = [...memberKeys, ...placeKeys];
const none: readonly never[] = [];

type ResultOfEach<Many extends readonly AnySubmission[]> = ResultOfOne<Many[number]>;
/** Of each of several kinds of jobs by itself. */
type ResultOfOne<One> = One extends Submission<infer _In, infer Result> ? Result : never;

const inPart = (path: string, name: string): string =>
  path === "" ? name : name === "" ? path : `${path}.${name}`;

function pathsInside(paths: Returned, inside: (path: string) => string): Returned {
  return Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, inside(path)]));
}

/** The nodes of a flow as they stand in a part of another. @param path that of the part; "" leaves them as they are. */
export function nodesInside(path: string, nodes: readonly BuiltNode[]): readonly BuiltNode[] {
  const inside = (name: string): string => inPart(path, name);
  return nodes.map((node) => ({
    ...node,
    path: inside(node.path),
    within: inside(node.within),
    after: node.after.map((each) => ({ ...each, path: inside(each.path) })),
    ...(node.before === undefined ? {} : { before: node.before.map(inside) }),
    refs: node.refs.map((ref) => ({ ...ref, of: inside(ref.of) })),
    ...(node.returned === undefined ? {} : { returned: pathsInside(node.returned, inside) }),
  }));
}

/** The results of a flow whose nodes TypeScript does not know. */
export type AnyResults = Readonly<Record<string, unknown>>;

/** A flow, whatever its results are. */
export type AnyFlow = Flow<object>;

/** What `run.result()` of the flow answers. */
export type ResultsOf<Of> = Of extends Flow<infer Results> ? Results : never;

/** @typeParam Results what `run.result()` answers. */
export class Flow<Results extends object = AnyResults> {
  readonly name: string;
  /** @internal */
  readonly nodes: BuiltNode[] = [];
  /** Only for the type checker. */
  declare readonly __results?: Results;
  readonly #title: string;
  readonly #failureMode: FailureMode | null;
  readonly #budgets: readonly AnyBudgetUse[];
  /** @internal */
  readonly onFailed: OnFailedJob | null;
  #returned: Returned | null = null;

  constructor(name: string, options: FlowDefinitionOptions & Partial<PlainGraph> = {}) {
    this.name = checkName(name, "flow name");
    this.#title = `flow ${JSON.stringify(name)}`;
    const given = checkOptions(options, this.#title, [
      "failureMode",
      "budgets",
      "onFailed",
      "nodes",
      "edges",
    ]) as typeof options;
    const { failureMode, budgets, onFailed, nodes, edges } = given;
    if (onFailed !== undefined) checkDefinition(onFailed as AnyJob, `${this.#title}: onFailed`);
    this.onFailed = onFailed ?? null;
    this.#budgets = budgets === undefined ? [] : readBudgets(budgets, `${this.#title}: budgets`);
    this.#failureMode = failureMode === undefined ? null : checkFailureMode(failureMode, "flow: failureMode");
    if (nodes === undefined && edges === undefined) return;
    for (const { name: node, submission, options: own } of readPlainNodes(nodes, edges ?? [], this.#title))
      this.add(node, submission.job as AnyJob, submission.input as never, own as never);
  }

  /** @internal The paths of the nodes whose results are the flow's, by names; null for those of its last nodes. */
  get returned(): Returned | null {
    return this.#returned;
  }

  /** @internal */
  set returned(paths: Returned | null) {
    this.#returned = paths;
  }

  /**
   * Says which results `run.result()` answers, by names of your own, and with their types. Without it, these are the
   * results of the last nodes by the names of the nodes.
   *
   * @example
   *   const built = report.returns({ text: merged, pages });
   *   const { text } = await (await mill.submit(built)).result(); // a string
   */
  returns<const Nodes extends Readonly<Record<string, FlowNode>>>(nodes: Nodes): Flow<ReturnedBy<Nodes>> {
    const what = `${this.#title}: returns`;
    if (typeof nodes !== "object" || nodes === null || Object.keys(nodes).length === 0)
      throw invalidOption(`${what}: give nodes of the flow by names.`);
    this.#returned = Object.fromEntries(
      Object.entries(nodes).map(([name, node]) => [checkName(name, what), pathOf(node, what, this)]),
    );
    return this as unknown as Flow<ReturnedBy<Nodes>>;
  }

  /** @internal */
  get failureMode(): FailureMode | null {
    return this.#failureMode;
  }

  /** Adds a job. References to results of other nodes in its input make it come after these. */
  add<In, Out, Result, Returned>(
    name: string,
    job: JobDefinition<In, Out, Result, Returned>,
    input: WithRefs<NoInfer<In>>,
    options: NodeOptions<NoInfer<In>> = {},
  ): FlowNode<Result> {
    const what = this.#titleOf("add", name);
    checkDefinition(job, what);
    const given = checkOptions(options, what, nodeKeys) as NodeOptions<In>;
    const { cancelRest = false } = given;
    const before =
      given.before === undefined
        ? none
        : listOf(given.before).map((node) => pathOf(node, `${what}: before`, this));
    this.#addJob({
      path: name,
      within: "",
      job: job as AnyJob,
      input,
      options: given,
      cancelsRest: checkBoolean(cancelRest, `${what}: cancelRest`),
      before,
    });
    return new MadeNode<Result>(this, name);
  }

  /** Adds a job for each item of a list, which may be the result of another node. */
  map<In, Out, Result, Returned>(
    name: string,
    job: JobDefinition<In, Out, Result, Returned>,
    items: readonly WithRefs<NoInfer<In>>[] | Ref<readonly NoInfer<In>[]>,
    options: MapOptions<NoInfer<In>> = {},
  ): FlowPart<Result> {
    const what = this.#titleOf("map", name);
    checkDefinition(job, what);
    const given = checkOptions(options, what, [
      ...memberKeys,
      ...afterKeys,
      "concurrency",
      "tolerate",
    ]) as MapOptions<In>;
    const { concurrency, tolerate = 0 } = given;
    checkItems(items, what);
    if (concurrency !== undefined) checkWhole(concurrency, `${what}: concurrency`, 1, 1_000_000);
    const path = this.#addPart(
      name,
      {
        kind: "group",
        tolerate: checkWhole(tolerate, `${what}: tolerate`, 0, 1_000_000),
        ...(concurrency === undefined ? {} : { concurrency }),
      },
      given,
      what,
    );
    const expands = readExpansion(given as object, what);
    this.#addJob({
      path: `${path}.${expanderName}`,
      within: path,
      job: job as AnyJob,
      input: items,
      options: {},
      expands,
    });
    return new MadePart(this, path);
  }

  /** Adds jobs of which the first to complete decide. */
  race<const Many extends readonly AnySubmission[]>(
    name: string,
    jobs: Many,
    options: RaceOptions = {},
  ): FlowPart<ResultOfEach<Many>> {
    const what = this.#titleOf("race", name);
    const given = checkOptions(options, what, [...afterKeys, "first", "cancelRest"]) as RaceOptions;
    const { first = 1, cancelRest = true } = given;
    const part: Part = {
      kind: "race",
      first: checkWhole(first, `${what}: first`, 1, 100_000),
      cancelsRest: checkBoolean(cancelRest, `${what}: cancelRest`),
    };
    return this.#addMany(name, part, jobs, given, what);
  }

  /** Adds jobs that run beside each other. The group has completed once all of them have. */
  group<const Many extends readonly AnySubmission[]>(
    name: string,
    jobs: Many,
    options: GroupOfOptions = {},
  ): FlowPart<ResultOfEach<Many>> {
    const what = this.#titleOf("group", name);
    const given = checkOptions(options, what, [...afterKeys, "tolerate"]) as GroupOfOptions;
    const tolerate = checkWhole(given.tolerate ?? 0, `${what}: tolerate`, 0, 1_000_000);
    return this.#addMany(name, { kind: "group", tolerate }, jobs, given, what);
  }

  /** Adds a group and a job that comes after it, whose input is made of the results of the group. */
  chord<In, Out, Result, Returned, const Many extends readonly AnySubmission[]>(
    name: string,
    jobs: Many,
    last: JobDefinition<In, Out, Result, Returned>,
    input: (results: Ref<readonly ResultOfEach<Many>[]>) => WithRefs<NoInfer<In>>,
    options: GroupOfOptions = {},
  ): FlowNode<Result> {
    const group = this.group(name, jobs, options);
    return this.add(`${checkNodeName(name, "chord name")} last`, last, input(group.results), {
      after: group,
    });
  }

  /** Adds jobs one behind the other: `name 1`, `name 2` and so on. @returns the last. */
  chain<const Many extends readonly [AnySubmission, ...AnySubmission[]]>(
    name: string,
    jobs: Many,
    options: AfterOptions = {},
  ): FlowNode<LastResult<Many>> {
    const what = this.#titleOf("chain", name);
    checkSubmissions(jobs, what);
    const first = checkOptions(options, what, afterKeys) as AfterOptions;
    let last: FlowNode | null = null;
    for (const [at, { job, input, options: own }] of jobs.entries()) {
      const before: AfterOptions = last === null ? first : { after: last };
      last = this.add(`${name} ${at + 1}`, job as AnyJob, input as never, { ...own, ...before } as never);
    }
    return last as unknown as FlowNode<LastResult<Many>>;
  }

  /**
   * Adds another flow as one node, which ends when that flow does. Its result has those of the nodes whose success
   * nothing in it waits for, by their names.
   */
  sub<Result extends object = AnyResults>(
    name: string,
    other: Flow<Result> | Flow,
    options: SubFlowOptions = {},
  ): FlowNode<Result> {
    const what = this.#titleOf("sub", name);
    if (!(other instanceof Flow)) throw invalidOption(`${what}: give what flow(...) returned.`);
    if ((other as object) === this) throw invalidFlow(`${what}: a flow cannot be a part of itself.`);
    if (other.onFailed !== null)
      throw invalidOption(`${what}: it has onFailed, which only a whole flow can have; give it to this one.`);
    const given = checkOptions(options, what, ["after", "always", "join"]) as AfterOptions;
    const path = this.#addPart(
      name,
      { kind: "flow", failureMode: other.failureMode ?? "isolate" },
      given,
      what,
      other.returned,
    );
    for (const node of nodesInside(path, other.nodes)) this.nodes.push(node);
    return new MadeNode<Result>(this, path);
  }

  /** How errors name what is added. Its own name is checked here: not every value can be shown. */
  #titleOf(verb: string, name: string): string {
    return `${this.#title}: ${verb} ${JSON.stringify(checkNodeName(name, `${this.#title}: ${verb}: name`))}`;
  }

  #addMany<Item>(
    name: string,
    part: Part,
    jobs: readonly AnySubmission[],
    after: AfterOptions,
    what: string,
  ): FlowPart<Item> {
    checkSubmissions(jobs, what);
    const path = this.#addPart(name, part, after, what);
    for (const [at, { job, input, options = {} }] of jobs.entries()) {
      checkOptions(options, `${what}: ${at}`, memberKeys);
      this.#addJob({ path: `${path}.${at}`, within: path, job: job as AnyJob, input, options });
    }
    return new MadePart(this, path);
  }

  #addPart(
    path: string,
    part: Part,
    options: AfterOptions,
    what: string,
    returned: Returned | null = null,
  ): string {
    const { after, join } = readAfter(options, what, this);
    const node: BuiltNode = {
      ...{ path, within: "", part, after, join, cancelsRest: false, submission: null, refs: [] },
    };
    const inside = (name: string): string => inPart(path, name);
    this.nodes.push(returned === null ? node : { ...node, returned: pathsInside(returned, inside) });
    return path;
  }

  #addJob(given: {
    readonly path: string;
    readonly within: string;
    readonly job: AnyJob;
    readonly input: unknown;
    readonly options: AfterOptions & object;
    readonly cancelsRest?: boolean;
    readonly before?: readonly string[];
    readonly expands?: Expansion;
  }): void {
    const { path, within, job, options, cancelsRest = false, before = none, expands } = given;
    const what = `${this.#title}: ${JSON.stringify(path)}`;
    const { input, refs } = takeRefs(this, given.input);
    const { after, join } = readAfter(options, what, this);
    const implied = refs.length === 0 ? none : this.#impliedBy(refs, after, what);
    const [ref] = refs;
    if (ref !== undefined && join !== null && join < after.length + implied.length)
      throw invalidFlow(
        `${what} joins ${join} of ${after.length + implied.length} nodes, and refers to the result of ${JSON.stringify(ref.of)}, ` +
          "which may not have completed by then; a race has the results of those that came first.",
      );
    const node: BuiltNode = {
      ...{ path, within, part: null, cancelsRest, refs, join },
      after: implied.length === 0 ? after : [...after, ...implied],
      submission: { job, input, options: this.#withBudgets(job, jobOptionsOf(options), expands) },
    };
    if (expands === undefined && before.length === 0) this.nodes.push(node);
    else
      this.nodes.push({
        ...node,
        ...(expands === undefined ? {} : { expands }),
        ...(before.length === 0 ? {} : { before }),
      });
  }

  /** The options of a node with the budgets of the flow, beside those of its job or of its options. */
  #withBudgets(job: AnyJob, options: Submission["options"], expands?: Expansion): Submission["options"] {
    if (this.#budgets.length === 0) return options;
    const own =
      options?.budgets === undefined
        ? (job.options.budgets ?? [])
        : readBudgets(options.budgets, `${this.#title}: budgets`);
    const more = this.#budgets.filter(({ budget }) => own.every((use) => use.budget.name !== budget.name));
    if (more.length === 0) return options;
    const [{ budget }] = more as [AnyBudgetUse];
    if (expands !== undefined)
      throw invalidOption(
        `${this.#title}: its budget ${JSON.stringify(budget.name)} must be one of the budgets of the job ${JSON.stringify(job.name)}, because the jobs of a map are made later, by the definition of their job.`,
      );
    return { ...options, budgets: [...own, ...more] as unknown as readonly BudgetUse[] };
  }

  /** What an input refers to has to complete before it is needed. */
  #impliedBy(refs: readonly ResultRef[], after: GraphNode["after"], what: string): GraphNode["after"] {
    const implied = new Set<string>();
    for (const { of } of refs) {
      const said = after.find(({ path }) => path === of);
      if (said === undefined) implied.add(of);
      else if (said.on !== "success")
        throw invalidFlow(
          `${what} refers to the result of ${JSON.stringify(of)}, and does not come after its success.`,
        );
    }
    return [...implied].map((path) => ({ path, on: "success" }));
  }
}

/** The options of a node that are its job's; undefined for none. */
function jobOptionsOf(options: object): Submission["options"] {
  if (Object.keys(options).every((key) => placeKeys.includes(key))) return undefined;
  return Object.fromEntries(Object.entries(options).filter(([key]) => !placeKeys.includes(key)));
}

type LastResult<Many extends readonly AnySubmission[]> = Many extends readonly [...unknown[], infer Last]
  ? ResultOfOne<Last>
  : never;

/**
 * A flow to be built and submitted: node by node, or in its plain form.
 *
 * @example
 *   const order = flow("order", {
 *     nodes: { pay: pay.with({ cents: 4200 }), ship: ship.with({ to: "Ada" }) },
 *     edges: [{ from: "pay", to: "ship" }],
 *   });
 *   await (await mill.submit(order)).result(); // { ship: ... }
 */
export function flow<const Nodes extends PlainNodes, const Edges extends readonly PlainEdge[] = readonly []>(
  name: string,
  options: FlowDefinitionOptions & PlainGraph<Nodes, Edges>,
): Flow<PlainResults<Nodes, Edges>>;
export function flow(name: string, options?: FlowDefinitionOptions): Flow;
export function flow(name: string, options?: FlowDefinitionOptions & Partial<PlainGraph>): Flow {
  return new Flow(name, options);
}
