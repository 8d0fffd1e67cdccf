/**
 * What may look at the enqueues and attempts of a process and let a trace ride with each job: OpenTelemetry, or a
 * bridge of the user's own (`telemetry` of open). Without one nothing of this is called. One that fails must let the
 * work pass untouched: each call here runs what it is given exactly once, and throws only what that throws.
 */
import type { SubmitAnswer, SubmitUnit } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import type { AttemptObserver, ObservedAttempt } from "./attempt-observer.ts";

/** An attempt that runs: nothing of its end is known yet. */
export type RunningAttempt = Pick<ObservedAttempt, "job" | "owner" | "title">;

export interface Telemetry {
  /** Around a submit, in the context of who submits; it may add trace context to the jobs. */
  submit(unit: SubmitUnit, send: (unit: SubmitUnit) => Promise<SubmitAnswer>): Promise<SubmitAnswer>;
  /** A follow-up that an attempt asks for; it is submitted with the end of the attempt. */
  followUp(job: NewJob, attempt: RunningAttempt): NewJob;
  /** Around the call of a handler for one attempt, or of a batch handler for several. The call may throw or reject. */
  run<Value>(
    attempts: readonly RunningAttempt[],
    isBatch: boolean,
    call: () => Value | Promise<Value>,
  ): Value | Promise<Value>;
  /** Told once of every attempt that has ended. */
  ended: AttemptObserver;
}
