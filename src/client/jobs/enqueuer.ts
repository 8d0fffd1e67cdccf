/**
 * Making jobs: the part that `mill` and `mill.in(connection)` share, and the enqueuer of `mill.in`. Wrong arguments are
 * refused before the store is called.
 */
import { anySubmission } from "../../engine/submit/job-definition.ts";
import type { AnySubmission, JobDefinition, Submission } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import type { Flow } from "../../engine/flows/flow.ts";
import type { SubmitFlowOptions } from "../../engine/flows/submit-options.ts";
import type { EnqueueOptions } from "../../engine/submit/job-options.ts";
import { unitOf } from "../../engine/submit/submitter.ts";
import type { PublishOptions } from "../../engine/topics/publishing.ts";
import type { TopicDefinition } from "../../engine/topics/topic-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { SubmitAnswer, SubmitUnit } from "../../store/operations.ts";
import { isTarget } from "../durable/signals.ts";
import type { KeyedSignalOptions, SignalOptions, Signals, SignalTarget } from "../durable/signals.ts";
import type { FlowRun, Flows } from "../flows/flows.ts";
import type { JobHandle } from "./job-handle.ts";

/** One handle per submission, each with its own result type. */
export type HandlesOf<Many extends readonly AnySubmission[]> = {
  readonly [Index in keyof Many]: Many[Index] extends Submission<infer _In, infer Result>
    ? JobHandle<Result>
    : never;
};

/** One job that a publish made. */
export interface PublishedJob {
  readonly subscription: string;
  readonly handle: JobHandle;
}

/** Enqueueing, which also works inside the caller's own transaction. */
export interface Enqueuer {
  /** The types come from the definition alone, so literals, enums and tuples of the input need no annotation. */
  enqueue<In, Out, Result, Returned>(
    job: JobDefinition<In, Out, Result, Returned>,
    input: NoInfer<In>,
    options?: EnqueueOptions<NoInfer<In>>,
  ): Promise<JobHandle<Result>>;
  /** Makes all of the jobs or none, in one atomic step. Different jobs and options may be mixed. */
  enqueueMany<const Many extends readonly AnySubmission[]>(submissions: Many): Promise<HandlesOf<Many>>;
  /**
   * Makes one job for each subscription of the topic, all of them or none; an empty list if there is no subscription.
   */
  publish<In>(
    topic: TopicDefinition<In>,
    input: NoInfer<In>,
    options?: PublishOptions,
  ): Promise<readonly PublishedJob[]>;
  /** Submits a flow: all of its nodes or none. */
  submit<Results extends object>(flow: Flow<Results>, options?: SubmitFlowOptions): Promise<FlowRun<Results>>;
}

/** What `mill.in(connection)` does: all of it commits or rolls back with the caller's rows. */
export interface EnqueuerInTransaction extends Enqueuer {
  /**
   * Sends a signal to a durable run, or to one that is started with it. It is delivered after the commit. @returns the
   * id of the run.
   */
  signal(
    run: string | AnySubmission,
    name: string,
    value?: unknown,
    options?: Pick<SignalOptions, "key" | "source">,
  ): Promise<string>;
  /** Sends it to a business key. @returns the key. */
  signal(
    target: SignalTarget,
    name: string,
    value?: unknown,
    options?: Pick<KeyedSignalOptions, "key" | "source" | "keep">,
  ): Promise<string>;
}

/** Makes the handles of an accepted unit; throws if the unit was refused. */
export type ToHandles = (
  unit: SubmitUnit,
  answer: SubmitAnswer,
  isInTransaction: boolean,
) => readonly JobHandle[];

/** Where jobs are submitted to: the store, or the caller's transaction. */
export interface Submitting {
  readonly needs: Needs<"publishing">;
  readonly toHandles: ToHandles;
  readonly isInTransaction: boolean;
  readonly submit: (unit: SubmitUnit) => Promise<SubmitAnswer>;
}

export async function publishBy(
  { needs, toHandles, isInTransaction, submit }: Submitting,
  topic: TopicDefinition,
  input: unknown,
  options: PublishOptions,
): Promise<readonly PublishedJob[]> {
  const { subscriptions, ...unit } = await needs.publishing.publish(topic, input, options, submit);
  const handles = toHandles(unit, unit.answer, isInTransaction);
  return handles.map((handle, at) => ({ subscription: subscriptions[at] as string, handle }));
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;

/** Checks the arguments of `enqueueMany` for callers without types. */
export function checkSubmissions(submissions: readonly AnySubmission[]): void {
  if (!Array.isArray(submissions) || !submissions.every(isObject))
    throw new MillraceError("invalid-option", "enqueueMany: give a list of job.with(input, options).");
  if (submissions.length > storeLimits.unitJobsMax) {
    throw new MillraceError(
      "invalid-option",
      `enqueueMany takes at most ${storeLimits.unitJobsMax} jobs; split the list.`,
    );
  }
}

/** Enqueues on the caller's own connection. */
export function enqueuerIn(
  needs: Needs<"store" | "coder" | "publishing" | "planner" | "submitter">,
  {
    toHandles,
    flows,
    signals,
  }: { readonly toHandles: ToHandles; readonly flows: Flows; readonly signals: Signals },
  connection: unknown,
): EnqueuerInTransaction {
  const store = needs.store.inTransaction(connection);
  const submitting: Submitting = {
    needs,
    toHandles,
    isInTransaction: true,
    submit: (unit) => needs.submitter.submitIn(store, unit),
  };
  const make = async (unit: SubmitUnit): Promise<readonly JobHandle[]> =>
    toHandles(unit, await submitting.submit(unit), true);
  return {
    enqueue: async (job, input, options) => {
      const submission = anySubmission(job, input, options);
      const planned = await needs.planner.plan(submission);
      return (await make(unitOf(needs, [planned], [submission])))[0] as JobHandle<never>;
    },
    enqueueMany: async (submissions) => {
      checkSubmissions(submissions);
      return (await make(unitOf(needs, await needs.planner.planAll(submissions), submissions))) as never;
    },
    publish: (topic, input, options = {}) => publishBy(submitting, topic as TopicDefinition, input, options),
    submit: (flow, options = {}) => flows.submit(flow, options, submitting.submit),
    signal: (to: string | AnySubmission | SignalTarget, name: string, value: unknown, options = {}) =>
      isTarget(to)
        ? signals.sendToKeyIn(submitting.submit, to, { name, value, options })
        : signals.sendIn(submitting.submit, to, { name, value, options }),
  };
}
