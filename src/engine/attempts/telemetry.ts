/**
 * The interface through which telemetry observes the enqueues and attempts of a process and adds trace context to jobs:
 * OpenTelemetry, or a bridge of the user's own (`telemetry` of open). If it fails, the work must go on: each method
 * here calls its function exactly once, and throws only what that function throws.
 */
import type { SubmitAnswer, SubmitUnit } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import type { AttemptObserver, ObservedAttempt } from "./attempt-observer.ts";

/** An attempt that runs. Its end is not known yet. */
export type RunningAttempt = Pick<ObservedAttempt, "job" | "owner" | "title">;

export interface Telemetry {
  /** Called around a submit, in the caller's context; may add trace context to the jobs. */
  submit(unit: SubmitUnit, send: (unit: SubmitUnit) => Promise<SubmitAnswer>): Promise<SubmitAnswer>;
  /** Called for a follow-up that an attempt asks for, which is submitted with the end of the attempt. */
  followUp(job: NewJob, attempt: RunningAttempt): NewJob;
  /**
   * Called around the handler of one attempt, or around a batch handler for several. The function may throw or reject.
   */
  run<Value>(
    attempts: readonly RunningAttempt[],
    isBatch: boolean,
    call: () => Value | Promise<Value>,
  ): Value | Promise<Value>;
  /** Called once for every attempt that has ended. */
  ended: AttemptObserver;
}
