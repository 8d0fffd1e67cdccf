/**
 * What running a job means, on one page: decode the input, check it, call the handler through its middleware, and turn whatever comes
 * out into a decision of the model. Nothing here touches the store; the worker settles what is decided.
 *
 * The plain case (no schema, no middleware, a handler that returns) makes one context and one promise.
 */
import type { JobDefinition } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";
import { modelSources } from "../engine/model-sources.ts";
import { checkSchema } from "../engine/standard-schema.ts";
import {
  afterCancel,
  afterExpiry,
  afterFailure,
  afterReturn,
  afterSnooze,
  handBack,
} from "../model/after-run.ts";
import type { Decision, EndReason } from "../model/after-run.ts";
import { describeError } from "../model/attempt-log.ts";
import type { Attempt } from "./attempt.ts";
import { Cancel, RetryAfter, Snooze, Unrecoverable } from "./control.ts";
import { JobContext } from "./job-context.ts";
import type { ContextHost } from "./job-context.ts";

/** Null: nothing to settle, because the lease is gone. */
export type AttemptEnd = Decision | null;

/** The worker that runs the attempt. */
export interface AttemptHost {
  readonly engine: Engine;
  readonly owner: string;
}

/**
 * The job's own payload was refused: final, with this reason. Not told by the code of whatever was thrown, because a handler's own enqueue may
 * be refused by the same code.
 */
class RefusedPayload {
  readonly reason: "invalid-input" | "invalid-result";
  readonly error: unknown;

  constructor(reason: "invalid-input" | "invalid-result", error: unknown) {
    this.reason = reason;
    this.error = error;
  }
}

/** The context a handler runs with; throws what is wrong with the input. A promise only where the schema gives one. */
export function prepareContext(
  host: ContextHost,
  attempt: Attempt,
  definition: JobDefinition,
): JobContext | Promise<JobContext> {
  const refuse = (error: unknown): never => {
    throw new RefusedPayload("invalid-input", error);
  };
  try {
    const input = host.engine.settings.coder.decode(attempt.job.input);
    if (definition.inputSchema === null) return new JobContext(host, attempt, definition, input);
    const checked = checkSchema(definition.inputSchema, input, { code: "invalid-input", what: "The input" });
    return checked instanceof Promise
      ? checked.then((value) => new JobContext(host, attempt, definition, value), refuse)
      : new JobContext(host, attempt, definition, checked);
  } catch (error) {
    return refuse(error);
  }
}

/** The handler gave something back. */
export function endByReturn(
  host: AttemptHost,
  attempt: Attempt,
  definition: JobDefinition,
  value: unknown,
): AttemptEnd | Promise<AttemptEnd> {
  if (value instanceof Snooze || value instanceof Cancel || value instanceof Error)
    return endByThrow(host, attempt, value);
  const { abortReason } = attempt;
  if (abortReason === "lease-lost") return null;
  if (abortReason === "timeout" || abortReason === "deadline")
    return endByThrow(host, attempt, attempt.signal.reason);
  if (definition.resultSchema === null) return encodeResult(host, attempt, value);
  const refuse = (error: unknown): AttemptEnd =>
    endByThrow(host, attempt, new RefusedPayload("invalid-result", error));
  try {
    const checked = checkSchema(definition.resultSchema, value, {
      code: "invalid-result",
      what: "The result",
    });
    return checked instanceof Promise
      ? checked.then((result) => encodeResult(host, attempt, result), refuse)
      : encodeResult(host, attempt, checked);
  } catch (error) {
    return refuse(error);
  }
}

function encodeResult(host: AttemptHost, attempt: Attempt, value: unknown): AttemptEnd {
  const { policy } = attempt;
  const { engine } = host;
  try {
    const result =
      value === undefined || !policy.keepsResult ? null : engine.settings.coder.encode(value, "result");
    return { next: afterReturn(policy, result), attempts: null };
  } catch (error) {
    return endByThrow(host, attempt, error);
  }
}

/** The handler threw, or was made to stop. */
export function endByThrow(host: AttemptHost, attempt: Attempt, thrown: unknown): AttemptEnd {
  const { engine } = host;
  const { policy, job, abortReason } = attempt;
  const { strideMs } = engine.settings;
  if (abortReason === "lease-lost") return null;
  if (abortReason === "shutdown") return { next: handBack, attempts: null };
  if (abortReason === "deadline") return { next: afterExpiry(policy, "deadline"), attempts: null };
  if (!attempt.cancelAsked) {
    if (thrown instanceof Snooze)
      return { next: afterSnooze(policy, thrown.delayMs, strideMs), attempts: null };
    if (thrown instanceof Cancel) return { next: afterCancel(policy, thrown.reason), attempts: null };
  }
  const ended = { attempt: job.attempt, policy, attempts: job.attempts, cancelAsked: attempt.cancelAsked };
  const nowUs = engine.platform.monotonicUs();
  const ranUs = attempt.startedUs === 0 ? 0 : nowUs - attempt.startedUs;
  // Store time as well as this worker knows it: the claim's time plus how long it has held the job.
  const now = job.claimedAt + Math.round((nowUs - attempt.claimedUs) / 1000);
  const final = finalReason(thrown);
  const retryInMs = thrown instanceof RetryAfter ? delayOf(thrown, now) : undefined;
  return afterFailure(
    ended,
    {
      outcome: attempt.isAbandoned ? "abandoned" : abortReason === "timeout" ? "timed-out" : "failed",
      error: describeError(thrown instanceof RefusedPayload ? thrown.error : thrown),
      ranUs,
      ...(final === undefined ? {} : { final }),
      ...(retryInMs === undefined ? {} : { retryInMs }),
    },
    modelSources(engine, now, host.owner),
  );
}

function finalReason(thrown: unknown): EndReason | undefined {
  if (thrown instanceof Unrecoverable) return "unrecoverable";
  return thrown instanceof RefusedPayload ? thrown.reason : undefined;
}

function delayOf({ due }: RetryAfter, now: number): number {
  return "inMs" in due ? due.inMs : Math.max(0, due.at - now);
}
