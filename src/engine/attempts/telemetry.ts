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

/** A step of a durable run whose code is called. A step that is replayed calls no code. */
export interface RunningStep {
  /** Its name and its count in the run, and before them the branch or item that it was made in. */
  readonly step: string;
  /** The name alone. */
  readonly name: string;
  readonly kind: "run" | "run-in";
  /** Which try of the step, from 1 on. */
  readonly attempt: number;
}

/** What a durable run did beside its steps, when it did it: what is replayed is not noted again. */
export interface RunNote {
  readonly what:
    | "wait-began"
    | "signal-arrived"
    | "approval-decided"
    | "time-over"
    | "escalated"
    | "enqueued";
  /** The call of `step`: its name and its count. */
  readonly step: string;
  /** The name of the signal that is awaited from now on; null for none. */
  readonly signal: string | null;
}

export interface Telemetry {
  /** Called around a submit, in the caller's context; may add trace context to the jobs. */
  submit(unit: SubmitUnit, send: (unit: SubmitUnit) => Promise<SubmitAnswer>): Promise<SubmitAnswer>;
  /**
   * Called for each job that is submitted with the end of an attempt: a follow-up, a node that its handler adds to its
   * flow, an item of a map.
   */
  followUp(job: NewJob, attempt: RunningAttempt): NewJob;
  /**
   * Called around the handler of one attempt, or around a batch handler for several. The function may throw or reject.
   */
  run<Value>(
    attempts: readonly RunningAttempt[],
    isBatch: boolean,
    call: () => Value | Promise<Value>,
  ): Value | Promise<Value>;
  /** Called around the code of a step, which rejects if the step fails. Left out: steps are not observed. */
  step?<Value>(attempt: RunningAttempt, step: RunningStep, call: () => Promise<Value>): Promise<Value>;
  /** Called when a run begins to wait, or a wait of it is over. Left out: waits are not observed. */
  noted?(attempt: RunningAttempt, note: RunNote): void;
  /** Called once for every attempt that has ended. */
  ended: AttemptObserver;
}
