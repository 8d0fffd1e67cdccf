/**
 * Runs an attempt, in three steps:
 *
 *   prepare   the input is decoded and checked, and the handler's context is made
 *   call      the handler is called through all middleware
 *   end       its return value or error becomes a decision of the model, which is settled
 *
 * Each job of a batch takes these steps by itself; only the innermost call is shared (`joint-call.ts`). An attempt that
 * is abandoned was settled when its grace ended; the end of its handler only frees the slot.
 *
 * The usual attempt (no schemas, no middleware, a handler that returns) makes one context and one promise.
 */
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import { noteSpent } from "../../model/job/attempt-log.ts";
import type { Spent } from "../../model/job/attempt-log.ts";
import type { FlowMeta } from "../../model/flow/flow-meta.ts";
import type { Attempt } from "./attempt.ts";
import { DurableStay } from "../durable/durable-stay.ts";
import { endByReturn, endByThrow } from "../settle/attempt-end.ts";
import type { AttemptEnd } from "../settle/attempt-end.ts";
import type { BatchHandler, SingleHandler } from "../handler.ts";
import { JobContext } from "./job-context.ts";
import type { WorkerLimits } from "./context-limits.ts";
import { JointCall } from "./joint-call.ts";
import { composeMiddleware } from "../middleware.ts";
import type { HandlerCall, HandlerMiddleware, Layers } from "../middleware.ts";
import { expandList, flowOf } from "./flow-input.ts";
import { decodeInput } from "./payloads.ts";

export type AttemptRunnerNeeds = Needs<
  | "platform"
  | "log"
  | "repeated"
  | "store"
  | "ids"
  | "limits"
  | "budgets"
  | "planner"
  | "coder"
  | "strideMs"
  | "backoffs"
  | "telemetry"
  | "metrics"
  | "changes"
  | "records"
  | "outputs"
  | "journals"
  | "settles"
  | "reads"
>;

const bare: Layers = async (context, call) => call(context);

/** Called once per attempt, when its handler has ended and its settle is on its way. */
export type Ended = (attempt: Attempt) => void;

export class AttemptRunner {
  readonly #needs: AttemptRunnerNeeds & { readonly workerLimits: WorkerLimits };
  readonly #layers: Layers;

  constructor(
    needs: AttemptRunnerNeeds,
    middleware: readonly HandlerMiddleware[],
    workerLimits: WorkerLimits,
  ) {
    this.#needs = { ...needs, workerLimits };
    this.#layers = composeMiddleware(middleware);
  }

  run(attempt: Attempt, handler: SingleHandler, ended: Ended): void {
    const { definition, handle } = handler;
    if (definition.durable !== null && !isExpander(attempt)) return this.#runDurable(attempt, handler, ended);
    this.#run(attempt, definition, handle as HandlerCall, this.#layersOf(attempt), ended);
  }

  /** @param ended called for each attempt. */
  runBatch(attempts: readonly Attempt[], handler: BatchHandler, ended: Ended): void {
    const { telemetry } = this.#needs;
    const joint = new JointCall(handler, attempts.length, telemetry);
    for (const attempt of attempts) {
      let hasJoined = false;
      const join = (context: JobContext): Promise<unknown> => (
        (hasJoined = true),
        joint.join(context, attempt)
      );
      this.#run(attempt, handler.definition, join, this.#layers, () => {
        // Its input was refused, or a middleware returned without calling it: the other jobs must not wait for it.
        if (!hasJoined) joint.leave();
        ended(attempt);
      });
    }
  }

  /** Telemetry is outside all middleware. Telemetry of a batch is around its joint call. */
  #layersOf(attempt: Attempt): Layers {
    const { telemetry } = this.#needs;
    if (telemetry === null || attempt.policy.isPermit) return this.#layers;
    return (context, call) => telemetry.run([attempt], false, () => this.#layers(context, call));
  }

  #runDurable(attempt: Attempt, handler: SingleHandler, ended: Ended): void {
    attempt.start(this.#needs.platform.monotonicUs());
    attempt.origin.aborting.watch(attempt);
    const stay = new DurableStay(this.#needs, attempt, handler);
    void stay.run(this.#layersOf(attempt)).then((end) => this.#end(attempt, end, ended));
  }

  #run(attempt: Attempt, definition: JobDefinition, call: HandlerCall, layers: Layers, ended: Ended): void {
    const expands = attempt.isMember ? flowOf(attempt)?.expands : undefined;
    if (expands !== undefined) {
      call = expandingCall(this.#needs, attempt, definition, expands);
      layers = bare;
    }
    attempt.start(this.#needs.platform.monotonicUs());
    attempt.origin.aborting.watch(attempt);
    // These are the only functions created per attempt. They keep alive only what they use here.
    const returned = (value: unknown): void => this.#returned(attempt, definition, value, ended);
    const threw = (error: unknown): void => this.#threw(attempt, error, ended);
    try {
      const context = this.#prepare(attempt, definition);
      const outcome =
        context instanceof Promise ? callWhenPrepared(context, call, layers) : layers(context, call);
      // Always a promise, so that many handlers that return at once do not grow the stack.
      Promise.resolve(outcome).then(returned, threw);
    } catch (error) {
      Promise.reject(error).then(returned, threw);
    }
  }

  #prepare(attempt: Attempt, definition: JobDefinition): JobContext | Promise<JobContext> {
    // A permit job's input is not decoded, because the process that submitted it may have another codec.
    const input = attempt.policy.isPermit ? attempt.job.input : decodeInput(this.#needs, attempt, definition);
    return input instanceof Promise
      ? input.then((checked) => new JobContext(this.#needs, attempt, definition, checked))
      : new JobContext(this.#needs, attempt, definition, input);
  }

  #returned(attempt: Attempt, definition: JobDefinition, value: unknown, ended: Ended): void {
    this.#end(attempt, endByReturn(this.#needs, attempt, definition, value), ended);
  }

  #threw(attempt: Attempt, error: unknown, ended: Ended): void {
    this.#end(attempt, endByThrow(this.#needs, attempt, error), ended);
  }

  #end(attempt: Attempt, end: AttemptEnd | Promise<AttemptEnd>, ended: Ended): void {
    if (end instanceof Promise) {
      void end.then((decided) => this.#end(attempt, decided, ended));
      return;
    }
    if (attempt.hasTimer) attempt.origin.aborting.unwatch(attempt);
    const { limits } = attempt.policy;
    if (limits.length > 0) this.#needs.limits.ending(limits, this.#needs.platform);
    if (attempt.isAbandoned) attempt.origin.aborting.abandonedEnded();
    else if (attempt.phase === "running" || isRested(end))
      attempt.origin.settling.end(
        attempt,
        attempt.spent === null ? end : withSpent(attempt, attempt.spent, end),
      );
    ended(attempt);
  }
}

/** The attempt log keeps what the job has used of budgets. */
function withSpent({ job }: Attempt, spent: Spent, end: AttemptEnd): AttemptEnd {
  if (end === null || !("next" in end)) return end;
  return { ...end, attempts: noteSpent(end.attempts ?? job.attempts, spent) };
}

/** The settle of the attempt was applied while it still ran. */
function isRested(end: AttemptEnd): boolean {
  return end !== null && "rested" in end;
}

/** The job stands for a list of jobs of its name. It calls no handler itself. */
function isExpander(attempt: Attempt): boolean {
  return attempt.isMember && flowOf(attempt)?.expands !== undefined;
}

function expandingCall(
  needs: Needs<"planner" | "reads" | "telemetry">,
  attempt: Attempt,
  definition: JobDefinition,
  expands: NonNullable<FlowMeta["expands"]>,
): HandlerCall {
  return ({ input }) => expandList(needs, attempt, definition, expands, input);
}

function callWhenPrepared(context: Promise<JobContext>, call: HandlerCall, layers: Layers): Promise<unknown> {
  return context.then((prepared) => layers(prepared, call));
}
