/** Flows as an application sees them: submit one, wait for it, read it, and operate on it as a whole. */
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import { MillraceError } from "../../model/error.ts";
import { idOfNode, targetOf, withTarget } from "../../model/flow/edge.ts";
import { flowQueue, idOfKey, pathOfId } from "../../model/flow/flow-meta.ts";
import type { AnyResults, Flow } from "../../engine/flows/flow.ts";
import { conditionOf } from "../../model/flow/graph.ts";
import type { Condition, FailureMode, Part } from "../../model/flow/graph.ts";
import { countMembers } from "../../model/flow/decide-flow.ts";
import type { FlowCounts } from "../../model/flow/decide-flow.ts";
import { readWaits } from "../../model/flow/flow-waits.ts";
import { durationMs } from "../../model/duration.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { JobState, TerminalState } from "../../model/job/job-state.ts";
import { checkName } from "../../model/name.ts";
import { checkBoolean, checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import { failedNodes } from "../../engine/flows/failed-flow.ts";
import { allMembers, flowMetaOf } from "../../engine/flows/members.ts";
import { cancelWhole, readFlow, replayNodes } from "../../engine/flows/requested-changes.ts";
import { submitFlow } from "../../engine/flows/submit-flow.ts";
import { readSubmitOptions } from "../../engine/flows/submit-options.ts";
import type { SubmitFlowOptions } from "../../engine/flows/submit-options.ts";
import type { CallOptions } from "../../engine/calls/call-limit.ts";
import { asOneCall } from "../../engine/calls/one-call.ts";
import type { Needs } from "../../engine/services.ts";
import { readFlowResult } from "../../engine/flows/part-results.ts";
import type { Results } from "../../engine/calls/results.ts";
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../../store/operations.ts";
import type { JobRecord } from "../../store/records.ts";
import { readCursor } from "../jobs/job-filter.ts";
import { thrownAs } from "../jobs/job-handle.ts";
import type { WaitForOptions } from "../jobs/job-handle.ts";

type FlowsNeeds = Needs<
  | "platform"
  | "giveUpMs"
  | "store"
  | "coder"
  | "ids"
  | "changes"
  | "reads"
  | "planner"
  | "log"
  | "policies"
  | "strideMs"
  | "submitter"
>;

/** The state of a flow. It is "running" from its submit until the last of its nodes has ended. */
export type FlowState = "running" | Exclude<TerminalState, "skipped">;

export interface FlowView {
  readonly id: string;
  readonly name: string;
  /** The key that it was submitted with; null for none. */
  readonly key: string | null;
  readonly state: FlowState;
  readonly reason: string | null;
  readonly failureMode: FailureMode;
  readonly counts: FlowCounts;
  /** Its cancel was asked for, or it fails fast: no node can be added any more. */
  readonly isClosing: boolean;
  readonly tags: readonly string[];
  readonly createdAt: Date;
  readonly endedAt: Date | null;
}

export interface FlowNodeView {
  /** Its path: the names of the parts around it and its own, with dots between. */
  readonly name: string;
  readonly id: string;
  readonly job: string | null;
  /** Null for a node that runs a job. */
  readonly part: Part["kind"] | null;
  readonly state: JobState;
  readonly reason: string | null;
  readonly attempt: number;
  /** The nodes before it, each with the end that it waits for. */
  readonly after: readonly { readonly name: string; readonly on: Condition }[];
  /** How many ends its join needs, and how many have come. Null for a node with none before it. */
  readonly join: { readonly needs: number; readonly came: number } | null;
  /** What its last attempt threw, unless it completed. */
  readonly error: { readonly name: string; readonly message: string } | null;
  readonly startedAt: Date | null;
  /** How long the handler of its last attempt ran, such as 0.4; null if that was not measured. */
  readonly ranMs: number | null;
  readonly endedAt: Date | null;
}

export interface CancelFlowOptions {
  reason?: string;
  /** Cancels the waiting nodes and lets the running ones end. */
  pendingOnly?: boolean;
}

export interface RetryFlowOptions {
  /** The nodes that run again; "all" for every node. Default: all that failed, expired or were cancelled. */
  nodes?: readonly string[] | string | "all";
  /** Whether the nodes after them run again although they have run before; false by default. */
  withRest?: boolean;
}

export interface FlowsPage {
  readonly flows: readonly FlowView[];
  readonly cursor: string | null;
}

export interface ListFlowsOptions {
  name?: string;
  state?: FlowState | readonly FlowState[];
  tag?: string;
  /** The size of a page; 100 by default. */
  limit?: number;
  cursor?: string | null;
}

const flowStates: readonly FlowState[] = ["running", "completed", "failed", "cancelled", "expired"];

/** The state of the flow's job for a state of the flow. */
function readFlowState(state: FlowState): JobState {
  if (!flowStates.includes(state))
    throw invalidOption(`flows.list: state must be one of ${flowStates.join(", ")}.`);
  return state === "running" ? "blocked" : state;
}

export class Flows {
  readonly #needs: FlowsNeeds;
  readonly #results: Results;

  constructor(needs: FlowsNeeds, results: Results) {
    this.#needs = needs;
    this.#results = results;
  }

  /** @internal @param send submits in the caller's own transaction; null for the store. */
  async submit<Results extends object>(
    given: Flow<Results>,
    options: SubmitFlowOptions,
    send: ((unit: SubmitUnit) => Promise<SubmitAnswer>) | null,
    limit?: CallOptions,
  ): Promise<FlowRun<Results>> {
    const planned = readSubmitOptions(given, options);
    const { id, how } = await (send !== null
      ? submitFlow(this.#needs, given, planned, send)
      : asOneCall(this.#needs, { what: "submit", isLong: true }, (needs) =>
          submitFlow(needs, given, planned, (unit) => needs.submitter.submit(unit, limit)),
        ));
    return new FlowRun(this, id, how);
  }

  /**
   * A handle for a flow known by its id.
   *
   * @typeParam Results that of the flow, for example `ResultsOf<typeof report>`.
   */
  run<Results extends object = AnyResults>(id: string): FlowRun<Results> {
    return new FlowRun(this, checkName(id, "flow id"), null);
  }

  /** A handle for the flow that was, or will be, submitted with this key. */
  keyed<Results extends object = AnyResults>(key: string): FlowRun<Results> {
    return new FlowRun(this, idOfKey(this.#needs.ids.placement, checkName(key, "flow key")), null);
  }

  async get(id: string): Promise<FlowView | null> {
    const record = await this.#needs.reads.add(checkName(id, "flow id"));
    return record === null || record.queue !== flowQueue || record.flow !== null ? null : viewFlow(record);
  }

  /** One page of flows, newest first. */
  async list(options: ListFlowsOptions = {}): Promise<FlowsPage> {
    const what = "flows.list";
    const known = ["name", "state", "tag", "limit", "cursor"];
    const {
      name,
      state,
      tag,
      limit = 100,
      cursor: from = null,
    } = checkOptions(options, what, known) as ListFlowsOptions;
    checkWhole(limit, `${what}: limit`, 1, 1000);
    for (const [key, value] of Object.entries({ name, tag }))
      if (value !== undefined && typeof value !== "string")
        throw invalidOption(`${what}: ${key} must be a text.`);
    const states = (state === undefined ? [] : [state].flat()).map(readFlowState);
    const cursor = readCursor(from, this.#needs.store.partitions ?? 1, what);
    const filter = {
      queue: flowQueue,
      ...(name === undefined ? {} : { name }),
      ...(tag === undefined ? {} : { tag }),
      ...(states.length === 0 ? {} : { states }),
    };
    const page = await this.#needs.store.findJobs({ filter, max: limit, scanMax: 100_000, cursor });
    // Parts of flows are jobs in the same queue.
    return { flows: page.jobs.filter(({ flow }) => flow === null).map(viewFlow), cursor: page.cursor };
  }

  /** All nodes of a flow, those of its parts included, in the order in which they were added. */
  async nodes(id: string): Promise<readonly FlowNodeView[]> {
    await this.#mustRead(id);
    const records: JobRecord[] = [];
    for await (const page of allMembers(this.#needs, id)) records.push(...page);
    const added = addedParents(records);
    return records
      .sort((one, other) => one.seq - other.seq)
      .map((record) => viewNode(record, added.get(record.id) ?? []));
  }

  /** Cancels a flow: every node that has not ended is cancelled, and no node can be added any more. */
  async cancel(id: string, options: CancelFlowOptions = {}): Promise<FlowView> {
    const given = checkOptions(options, "flows.cancel", ["reason", "pendingOnly"]) as CancelFlowOptions;
    const { reason = "asked", pendingOnly = false } = given;
    if (typeof reason !== "string") throw invalidOption("flows.cancel: the reason must be a text.");
    checkBoolean(pendingOnly, "flows.cancel: pendingOnly");
    checkName(id, "flow id");
    return asOneCall(this.#needs, { what: "flows.cancel", isLong: true }, async (needs) => {
      const flow = await readFlow(needs, id);
      await cancelWhole(needs, flow, { reason, pendingOnly });
      // It is cancelled, whether it can be read again or not.
      const after = await this.#needs.reads.add(id).catch(() => null);
      return viewFlow(after ?? { ...flow, cancelAsked: true });
    });
  }

  /**
   * Runs nodes again; the nodes that depend on them wait again. @returns how many nodes run again, and how many wait.
   */
  async retry(
    id: string,
    options: RetryFlowOptions = {},
  ): Promise<{ readonly runs: number; readonly waits: number }> {
    const given = checkOptions(options, "flows.retry", ["nodes", "withRest"]) as RetryFlowOptions;
    const { nodes, withRest = nodes === "all" } = given;
    checkBoolean(withRest, "flows.retry: withRest");
    checkName(id, "flow id");
    const named = nodes === undefined || nodes === "all" ? undefined : [nodes].flat();
    for (const name of named ?? []) checkName(name, "flows.retry: nodes");
    return asOneCall(this.#needs, { what: "flows.retry", isLong: true }, async (needs) => {
      const flow = await readFlow(needs, id);
      const all = nodes === "all" ? await endedJobs(needs, id) : named;
      return replayNodes(needs, flow, { withRest, ...(all === undefined ? {} : { nodes: all }) });
    });
  }

  /** @internal The results of the last nodes, by name. */
  async result(id: string, options: WaitForOptions): Promise<Readonly<Record<string, unknown>>> {
    checkOptions(options, "result", ["timeout", "signal"]);
    const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, "result: timeout");
    const record = await this.#results.wait(id, {
      ...{ timeoutMs, signal: options.signal ?? null, isForFlow: true },
    });
    if (record === null) throw new MillraceError("flow-not-found", `There is no flow ${JSON.stringify(id)}.`);
    if (record.state !== "completed") throw await this.#endError(record);
    return readFlowResult(this.#needs, record);
  }

  async #endError({ id, name, state, reason }: JobRecord): Promise<MillraceError> {
    const title = `The flow ${id} (${name}) ended as ${state} (${reason})`;
    if (state !== "failed")
      return new MillraceError(state === "cancelled" ? "job-cancelled" : "job-expired", `${title}.`);
    const [first] = await failedNodes(this.#needs, id);
    const last = first === undefined ? undefined : readAttemptLog(first.attempts).entries.at(-1)?.error;
    const detail =
      first === undefined
        ? ""
        : `: ${pathOfId(first.id)} ${first.reason}${last === undefined ? "" : `, ${last.name}: ${last.message}`}`;
    return new MillraceError("flow-failed", `${title}${detail}`, {
      cause: last === undefined ? undefined : thrownAs(last),
    });
  }

  async #mustRead(id: string): Promise<JobRecord> {
    return readFlow(this.#needs, checkName(id, "flow id"));
  }
}

async function endedJobs(needs: Needs<"store">, id: string): Promise<readonly string[]> {
  const paths: string[] = [];
  for await (const page of allMembers(needs, id))
    for (const job of page)
      if (isTerminal(job.state) && flowMetaOf(job).part === undefined) paths.push(pathOfId(job.id));
  return paths;
}

/** A handle of a submitted flow. */
export class FlowRun<Results extends object = AnyResults> {
  readonly id: string;
  /** Whether the submit made the flow or met the one that was there; null for a handle of a known flow. */
  readonly how: SubmitHow | null;
  readonly #flows: Flows;

  constructor(flows: Flows, id: string, how: SubmitHow | null) {
    this.#flows = flows;
    this.id = id;
    this.how = how;
  }

  /**
   * Waits for the end of the flow. @returns the results that the flow returns, or those of its last nodes (with no node
   * after their success), by name. A node that was skipped has none.
   */
  async result(options: WaitForOptions = {}): Promise<Results> {
    return (await this.#flows.result(this.id, options)) as Results;
  }

  async counts(): Promise<FlowCounts> {
    return (await this.view()).counts;
  }

  async view(): Promise<FlowView> {
    const view = await this.#flows.get(this.id);
    if (view === null)
      throw new MillraceError("flow-not-found", `There is no flow ${JSON.stringify(this.id)}.`);
    return view;
  }

  nodes(): Promise<readonly FlowNodeView[]> {
    return this.#flows.nodes(this.id);
  }

  cancel(options?: CancelFlowOptions): Promise<FlowView> {
    return this.#flows.cancel(this.id, options);
  }

  retry(options?: RetryFlowOptions): Promise<{ readonly runs: number; readonly waits: number }> {
    return this.#flows.retry(this.id, options);
  }
}

export function viewFlow(record: JobRecord): FlowView {
  const { id, name, state, reason, cancelAsked, tags, createdAt, endedAt } = record;
  const { part, key = null } = flowMetaOf(record);
  return {
    ...{ id, name, key, reason, isClosing: cancelAsked, tags: tags ?? [] },
    state: isTerminal(state) ? (state as FlowState) : "running",
    failureMode: part?.kind === "flow" ? part.failureMode : "isolate",
    counts: countMembers(readWaits(record.waits ?? "")),
    createdAt: new Date(createdAt),
    endedAt: endedAt === null ? null : new Date(endedAt),
  };
}

/**
 * Edges that handlers added later, by the id of the node they lead to. Each edge carries its parent's path as its
 * target.
 */
function addedParents(records: readonly JobRecord[]): ReadonlyMap<string, readonly string[]> {
  const known = new Map(records.map((record) => [record.id, new Set(flowMetaOf(record).parents)]));
  const added = new Map<string, string[]>();
  for (const { id, flow, edges } of records)
    for (const edge of (edges ?? []).slice(1)) {
      const target = idOfNode(flow ?? id, targetOf(edge));
      const parent = withTarget(edge, pathOfId(id));
      if (known.get(target)?.has(parent) === false) added.set(target, [...(added.get(target) ?? []), parent]);
    }
  return added;
}

/** @param added edges from nodes that handlers added before this one. */
function viewNode(record: JobRecord, added: readonly string[]): FlowNodeView {
  const { id, name, state, reason, attempt, endedAt } = record;
  const startedAt = record.startedAt ?? record.claimedAt;
  const { part, parents = [], wants, expands } = flowMetaOf(record);
  const { error, ranUs } = readAttemptLog(record.attempts).entries.at(-1) ?? {};
  return {
    ...{ name: pathOfId(id), id, state, reason, attempt, ranMs: ranUs === undefined ? null : ranUs / 1000 },
    job: part === undefined && expands === undefined ? name : null,
    part: part?.kind ?? null,
    after: [...parents, ...added].map((edge) => ({ name: targetOf(edge), on: conditionOf(edge) })),
    join: wants === undefined ? null : joinOf(wants.need + added.length, readWaits(record.waits ?? "").need),
    error: error === undefined || state === "completed" ? null : { name: error.name, message: error.message },
    startedAt: startedAt === null ? null : new Date(startedAt),
    endedAt: endedAt === null ? null : new Date(endedAt),
  };
}

/** A replay may free a node. Its need is then larger than any number of ends could meet, and its join counts as met. */
function joinOf(needs: number, left: number): NonNullable<FlowNodeView["join"]> {
  return { needs, came: left > needs ? needs : needs - Math.max(0, left) };
}
