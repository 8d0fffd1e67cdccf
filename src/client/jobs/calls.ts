/**
 * Request and reply: a job is enqueued and its result awaited in one call. The wait begins before the submit. A call
 * costs the store one submit, and one read after the end, which it shares with other calls of its process.
 *
 * If a caller gives up, no process awaits the job any more. By default it is then cancelled unless it is running: a
 * request that has not begun should not begin without a caller, while half-done work should end. Only a job that this
 * call made is cancelled, because an existing job has a caller of its own. See decision 0030.
 */
import type { Submission } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import { enqueueKeys, readPositive } from "../../engine/submit/job-options.ts";
import type { EnqueueOptions } from "../../engine/submit/job-options.ts";
import type { Results, Submitted } from "../../engine/calls/results.ts";
import { defaultTimes } from "../../engine/policies/store-retention.ts";
import { refusalError } from "../../engine/submit/refusal-error.ts";
import { unitOf } from "../../engine/submit/submitter.ts";
import { durationText } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import type { EndReason } from "../../model/job/end-reason.ts";
import { MillraceError, isMillraceError } from "../../model/error.ts";
import { shortestKept } from "../../model/job/job-policy.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import type { NewJob, JobRecord } from "../../store/records.ts";
import { cancelWaiting } from "./cancel-jobs.ts";
import { checkIsJob } from "./check-is-job.ts";
import { JobChanges } from "./job-changes.ts";
import { noSuchJob, resultExpired, resultOf } from "./job-handle.ts";
import type { Jobs } from "./jobs.ts";

type CallsNeeds = Needs<
  | "store"
  | "platform"
  | "coder"
  | "repeated"
  | "ids"
  | "retention"
  | "changes"
  | "reads"
  | "planner"
  | "submitter"
  | "queuePolicies"
  | "policies"
  | "strideMs"
>;

/** @typeParam In the input of the job. */
// oxlint-disable-next-line no-explicit-any -- options of a job with any input
export interface CallJobOptions<In = any> extends Omit<EnqueueOptions<In>, "timeout"> {
  /** How long the caller waits, from the call to the result; 30 s by default. */
  timeout?: Duration;
  /** If it fires, the call rejects with `aborted`. */
  signal?: AbortSignal;
  /**
   * What happens to the job if the caller gives up: it is cancelled unless it is running ("waiting", the default),
   * cancelled in any case (true), or goes on (false). A job that existed before the call always goes on.
   */
  cancel?: boolean | "waiting";
  /** How long one attempt may take, from the start of its handler. It is the `timeout` of an enqueue. */
  attemptTimeout?: Duration;
}

interface ReadCallOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | null;
  readonly cancel: boolean | "waiting";
  /** Undefined if no option is left: a job without options is planned only once. */
  readonly enqueue: EnqueueOptions | undefined;
}

/** `timeout` is among the keys of an enqueue, but means the wait here. */
const callOptionKeys = [...enqueueKeys, "signal", "cancel", "attemptTimeout"];
const defaultTimeoutMs = 30_000;
const gaveUp: EndReason<"cancelled"> = "caller-gave-up";

export class Calls {
  readonly #needs: CallsNeeds;
  readonly #jobs: Jobs;
  readonly #results: Results;
  readonly #changes: JobChanges;
  /** Cancels of jobs whose callers have given up. */
  readonly #cancels = new Set<Promise<void>>();

  constructor(needs: CallsNeeds, jobs: Jobs, results: Results) {
    this.#needs = needs;
    this.#jobs = jobs;
    this.#results = results;
    this.#changes = new JobChanges(needs);
  }

  async call({ job, input }: Submission, options: CallJobOptions): Promise<unknown> {
    const given = readCallOptions(options, `call ${JSON.stringify(job?.name)}`);
    const { timeoutMs, signal } = given;
    const needs = this.#needs;
    const submission = { job, input, options: given.enqueue };
    const planned = await needs.planner.plan(submission);
    checkAnswerable(needs, planned, timeoutMs);
    if (signal?.aborted === true)
      throw new MillraceError("aborted", "The call was aborted before it began.", { cause: signal.reason });
    const unit = needs.ids.placed(unitOf(needs, [planned], [submission]));
    const { id } = unit.jobs[0] as NewJob;
    const submitted = needs.submitter.submit(unit).then((answer): Submitted => {
      if (answer.kind === "refused") throw refusalError(answer, unit.jobs);
      return { id: answer.ids[0] as string, isNew: answer.hows[0] === "created" };
    });
    try {
      const check = (found: JobRecord): void => checkIsJob(found, job.name);
      const record = await this.#results.wait(id, { timeoutMs, signal, submitted, check });
      if (record === null) throw noSuchJob(id);
      const { keepsResult } = needs.policies.read(record.policy, record.queue);
      const result = resultOf(needs, record, job.name);
      // One that was there before the call may keep no result.
      if (result === undefined && keepsResult === false) throw resultExpired(record);
      return result;
    } catch (error) {
      if (!isMillraceError(error, "wait-timeout") && !isMillraceError(error, "aborted")) throw error;
      if (given.cancel !== false) this.#cancelOnceMade(submitted, given.cancel);
      throw givenUp(error, id, job.name, given);
    }
  }

  /** Settles when the jobs of callers who have given up are cancelled. */
  async whenIdle(): Promise<void> {
    while (this.#cancels.size > 0) await Promise.all(this.#cancels);
  }

  #cancelOnceMade(submitted: Promise<Submitted>, which: true | "waiting"): void {
    const cancelling = submitted
      .then(async ({ id, isNew }) => {
        if (!isNew) return;
        if (which === "waiting") await cancelWaiting(this.#needs, this.#changes, id, gaveUp);
        else await this.#jobs.cancel(id, gaveUp);
      })
      .catch((error: unknown) =>
        this.#needs.repeated.say("warn", "the job of a call whose caller gave up could not be cancelled", {
          error,
        }),
      )
      .finally(() => this.#cancels.delete(cancelling));
    this.#cancels.add(cancelling);
  }
}

function readCallOptions(options: CallJobOptions, what: string): ReadCallOptions {
  checkOptions(options, what, callOptionKeys);
  const { timeout, signal, cancel = "waiting", attemptTimeout, ...rest } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw invalidOption(`${what}: signal must be an AbortSignal.`);
  if (typeof cancel !== "boolean" && cancel !== "waiting")
    throw invalidOption(`${what}: cancel must be true, false or "waiting".`);
  const timeoutMs = timeout === undefined ? defaultTimeoutMs : readPositive(timeout, `${what}: timeout`);
  const enqueue = attemptTimeout === undefined ? rest : { ...rest, timeout: attemptTimeout };
  return {
    timeoutMs,
    signal: signal ?? null,
    cancel,
    enqueue: Object.keys(enqueue).length === 0 ? undefined : enqueue,
  };
}

/**
 * Refuses a call that could not be answered: the job is due only after the wait, or its end is pruned before it is
 * read.
 */
function checkAnswerable(
  needs: Needs<"retention" | "policies">,
  { name, policy, queue, due }: NewJob,
  timeoutMs: number,
): void {
  const what = `call ${JSON.stringify(name)}`;
  const waitText = durationText(timeoutMs);
  if ("inMs" in due && due.inMs >= timeoutMs)
    throw invalidOption(`${what}: with this delay the job is not due within the wait of ${waitText}.`);
  const kept = shortestKept(needs.policies.read(policy, queue), needs.retention.known ?? defaultTimes);
  if (kept.ms >= timeoutMs) return;
  const how =
    kept.ms === 0
      ? "is not kept, so no caller can wait for it"
      : `is kept for ${durationText(kept.ms)} only, which is shorter than the wait of ${waitText}`;
  throw invalidOption(
    `${what}: ${kept.what} of this job ${how}. Keep it longer (keepResult, retention), or enqueue the job instead.`,
  );
}

const fates = {
  true: "it is cancelled",
  false: "it goes on",
  waiting: "it is cancelled unless it is running",
};

function givenUp(error: MillraceError, id: string, name: string, given: ReadCallOptions): MillraceError {
  const why =
    error.code === "aborted" ? "was aborted" : `was not answered within ${durationText(given.timeoutMs)}`;
  const fate = fates[`${given.cancel}`];
  return new MillraceError(error.code, `The call of ${JSON.stringify(name)} (job ${id}) ${why}; ${fate}.`, {
    cause: error.cause,
    outcome: "unknown",
    ids: [id],
  });
}
