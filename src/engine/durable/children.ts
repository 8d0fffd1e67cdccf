/**
 * Jobs and flows that a durable run starts.
 *
 *  step.invoke    a flow of its own, whose id follows from the call: a job becomes a flow of one node. It is made in
 *                 the step that appends `opened` to the journal. Its end leaves deferred work (rule R4), which appends
 *                 `child` to the journal and then ends the flow. So a crash between the two repeats the append, whose
 *                 key is accepted once.
 *  step.enqueue   a job whose id follows from the call. It lives on when the run ends
 *
 * The run has the mark hasChildren, so its end leaves deferred work too, which cancels the flows that still live. They
 * are found by a tag, also after the run was deleted.
 */
import { digestText } from "../../codec/digest.ts";
import { keyInRound } from "../../model/durable/journal-entry.ts";
import type { EntryBody } from "../../model/durable/journal-entry.ts";
import { writeEntry } from "../../model/durable/entry-text.ts";
import { flowQueue, idOfPath, memberTag } from "../../model/flow/flow-meta.ts";
import type { Invoker } from "../../model/flow/flow-meta.ts";
import { deriveId } from "../../model/job/job-id.ts";
import { reasonText } from "../../model/job/after-run.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import type { EndReason } from "../../model/job/end-reason.ts";
import { isTerminal, liveStates } from "../../model/job/job-state.ts";
import type { TerminalState } from "../../model/job/job-state.ts";
import { checkOptions } from "../../model/option.ts";
import type { Effects, JobRecord, NewJob } from "../../store/records.ts";
import { Flow } from "../flows/flow.ts";
import { cancelBelow, close, flowMetaOf } from "../flows/members.ts";
import { readFlowResult } from "../flows/part-results.ts";
import { memberKeys } from "../flows/flow-options.ts";
import { planFlow } from "../flows/plan-flow.ts";
import type { Needs } from "../services.ts";
import { appendChange } from "./append-change.ts";
import type { AnyJob, Submission } from "../submit/job-definition.ts";
import { readEnqueueOptions } from "../submit/job-options.ts";
import type { EnqueueOptions, OwnOption } from "../submit/job-options.ts";

type ChildrenNeeds = Needs<"ids" | "planner">;

/** The run that starts a child. */
export interface Parent extends Invoker {
  /** When the run was submitted: ids of its children begin with it. */
  readonly createdAt: number;
}

/** Options of a job that a run starts; its id follows from the call. */
export type ChildOptions<In> = Omit<EnqueueOptions<In>, OwnOption>;

/** What `step.invoke` and `step.enqueue` take. */
export interface Child {
  readonly job: AnyJob | Flow;
  readonly input: unknown;
  readonly options?: Submission["options"] | undefined;
}

/** The node of an invoked job. */
const onlyNode = "run";
const reason: EndReason<"cancelled"> = "run-ended";

/** The id that a child has in every stay of its run. */
export function childIdOf({ ids }: Needs<"ids">, { createdAt, ...invoker }: Parent): string {
  const { run } = invoker;
  const of = `child\n${textOf(invoker)}`;
  return deriveId({ of, at: createdAt, partition: ids.placement?.ofId(run) ?? 0 });
}

function textOf({ run, round, call, life = 0 }: Invoker): string {
  return `${run}\n${round}\n${call}${life === 0 ? "" : `\n${life}`}`;
}

/** The jobs of an invoked flow, or of an invoked job in a flow of its own. */
export async function planInvoke(
  needs: ChildrenNeeds,
  parent: Parent,
  { job, input, options }: Child,
): Promise<Pick<Effects, "jobs">> {
  const { run, round, call, life = 0 } = parent;
  const isFlow = job instanceof Flow;
  const given = isFlow ? job : flowOf(job, input, options);
  const { policy } = readEnqueueOptions({}, "step.invoke");
  const planned = await planFlow(needs, given, {
    ...{ failureMode: given.failureMode ?? "isolate", policy, tags: [memberTag(run)] },
    id: childIdOf(needs, parent),
    invokedBy: { run, round, call, ...(life === 0 ? {} : { life }), ...(isFlow ? {} : { isJob: true }) },
  });
  return { jobs: planned.jobs.map((each) => known(each, parent)) };
}

function flowOf(job: AnyJob, input: unknown, options: Child["options"]): Flow {
  const flow = new Flow(job.name);
  flow.add(onlyNode, job, input as never, options as never);
  return flow;
}

/** A job that the run starts and does not wait for. */
export async function planStart(
  needs: ChildrenNeeds,
  parent: Parent,
  { job, input, options }: Child & { readonly job: AnyJob },
): Promise<Pick<Effects, "jobs">> {
  if (options !== undefined) checkOptions(options, "step.enqueue", memberKeys);
  const id = childIdOf(needs, parent);
  const planned = await needs.planner.plan({ job, input, options } as Submission, () => id);
  return { jobs: [known({ ...planned, id }, parent)] };
}

/** Its id is given, so a repeated append finds it by its digest. */
function known(job: NewJob, invoker: Invoker): NewJob {
  return { ...job, digest: digestText(textOf(invoker)) };
}

/** Appends the end of an invoked flow to the journal of its run, unless the run has ended or begun anew. */
export async function deliverEnd(
  needs: Needs<"changes" | "reads" | "coder">,
  flow: JobRecord,
  to: TerminalState,
  invoker: Invoker,
): Promise<void> {
  const job = invoker.isJob === true ? await needs.reads.add(idOfPath(flow.id, onlyNode)) : null;
  const state = job !== null && isTerminal(job.state) ? job.state : to;
  if (state === "cancelled" && hasEndedWithRun(flow)) return invokeAnew(needs, invoker);
  const value = state === "completed" ? await resultOf(needs, flow, job) : errorOf(job ?? flow, state);
  await append(needs, invoker, { state, value });
}

function hasEndedWithRun({ reason: ended, attempts }: JobRecord): boolean {
  return (ended ?? readAttemptLog(attempts).cancelReason) === reason;
}

/** Of a run that has come back after its end: what it had invoked has ended with it. */
const invokeAnew = (needs: Needs<"changes">, invoker: Invoker): Promise<void> =>
  append(needs, invoker, { state: "cancelled", value: null, isAnew: true });

async function append(
  needs: Needs<"changes">,
  { run, round, call, life = 0 }: Invoker,
  end: Pick<Extract<EntryBody, { readonly kind: "child" }>, "state" | "value" | "isAnew">,
): Promise<void> {
  const body = { kind: "child", call, ...(life === 0 ? {} : { life }), ...end } as const;
  const entry = writeEntry({ key: keyInRound(body, round), body });
  await needs.changes.add(appendChange(run, { entry }, round));
}

/**
 * Looks for children whose end the run has not heard of, because the run had ended itself when they did. A run that was
 * retried would wait for them for ever.
 * @returns whether something may have been appended.
 */
export async function deliverMissedEnds(
  needs: Needs<"ids" | "changes" | "reads" | "coder">,
  open: readonly Parent[],
): Promise<boolean> {
  const missed = await Promise.all(
    open.map(async (parent) => {
      const flow = await needs.reads.add(childIdOf(needs, parent));
      if (flow === null) await invokeAnew(needs, parent);
      else if (isTerminal(flow.state))
        await deliverEnd(needs, flow, flow.state, flowMetaOf(flow).invokedBy ?? parent);
      return flow === null || isTerminal(flow.state);
    }),
  );
  return missed.includes(true);
}

async function resultOf(
  needs: Needs<"reads" | "coder">,
  flow: JobRecord,
  job: JobRecord | null,
): Promise<string | null> {
  if (job !== null) return job.result;
  return needs.coder.encode(await readFlowResult(needs, flow), "the result of a flow");
}

/** As errors of steps are recorded. */
function errorOf({ name, attempts, reason }: JobRecord, state: TerminalState): string {
  const last = readAttemptLog(attempts).entries.at(-1);
  const message = `${JSON.stringify(name)} ended as ${state}: ${reasonText({ state, reason })}.`;
  const error = (state === "failed" ? last?.error : undefined) ?? { name: "ChildEnded", message };
  return JSON.stringify({ error });
}

/** Cancels the flows of a run that has ended or was deleted. */
export async function endChildren(
  needs: Needs<"store" | "log" | "changes" | "reads" | "policies" | "strideMs">,
  run: string,
): Promise<void> {
  let cursor: string | null = null;
  do {
    const filter = { queue: flowQueue, tag: memberTag(run), states: liveStates };
    const page = await needs.store.findJobs({ filter, max: 100, scanMax: 10_000, cursor });
    for (const { id, flow } of page.jobs)
      if (flow === null && (await close(needs, id, reason))) await cancelBelow(needs, id, { reason });
    cursor = page.cursor;
  } while (cursor !== null);
}
