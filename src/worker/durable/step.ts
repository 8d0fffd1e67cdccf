/**
 * `step`: what the handler of a durable job gets beside its context. Each method is a call of the run: its result is
 * recorded before the handler gets it, and a run that comes back gets the recorded result.
 */
import type { ChildOptions } from "../../engine/durable/children.ts";
import type { Usage } from "../run/usage.ts";
import type { Limit, LimitUse } from "../../engine/limits/limit-definition.ts";
import type { Flow } from "../../engine/flows/flow.ts";
import type { AnyJob, AnySubmission, InputOf, ResultOf } from "../../engine/submit/job-definition.ts";
import type { Duration } from "../../model/duration.ts";
import type { RetryOptions } from "../../model/job/retry-policy.ts";

/** What the code of a step gets. */
export interface StepContext {
  /** The same for every try of this step, and for no other step. */
  readonly idempotencyKey: string;
  /** Counts from 1. */
  readonly attempt: number;
  /** Fires when the run is cancelled, suspended or lost, or when the step's timeout is over. */
  readonly signal: AbortSignal;
  /** What the step uses of budgets. A run whose reservation does not fit rests until the period ends. */
  readonly usage: Usage;
}

export interface StepOptions<Result> {
  /** 3 attempts by default. */
  retry?: RetryOptions;
  timeout?: Duration;
  /**
   * Permits of these limits are taken before the code runs, and given back after it. A key that is a function gets the
   * input of the run. While the step waits for its permits, the run keeps its slot.
   */
  limits?: readonly (Limit | LimitUse)[];
  /** Runs when the run ends badly after this step was recorded; the last recorded step first. */
  undo?: (result: Result) => unknown;
}

export interface Arrived<Value> {
  readonly kind: "arrived";
  readonly value: Value;
  readonly at: Date;
  readonly source: string | null;
}

export interface TimedOut {
  readonly kind: "timed-out";
}

export interface WaitOptions<Value> {
  timeout?: Duration | Date;
  /** Waits for signals that are sent to this business key, and for no others: `mill.signal({ key }, ...)`. */
  key?: string;
  /** Which values this wait takes; others stay for other waits. */
  where?: (value: Value) => boolean;
  onTimeout?: "throw";
}

export interface ReturningWaitOptions<Value> {
  timeout: Duration | Date;
  key?: string;
  where?: (value: Value) => boolean;
  onTimeout: "return";
}

export interface ApprovalOptions<Value> {
  /** How many distinct sources must approve; 1 by default. */
  of?: number;
  timeout: Duration;
  /** Whether an answer approves; by default one whose `ok` is true. */
  approves?: (value: Value) => boolean;
  /** Enqueued once when the time is over; then the same time counts again. */
  escalate?: AnySubmission;
}

export interface Decision<Value> {
  readonly approved: boolean;
  /** The answers that count, in order. */
  readonly answers: readonly { readonly source: string | null; readonly at: Date; readonly value: Value }[];
  readonly timedOut: boolean;
}

export interface Step<Signals = Record<never, never>> {
  run<Result>(
    name: string,
    work: (context: StepContext) => Result | Promise<Result>,
    options?: StepOptions<Result>,
  ): Promise<Result>;
  /** The record and the caller's rows commit together. @param begin such as `(use) => database.transaction(use)` */
  runIn<Result, Connection>(
    name: string,
    begin: (use: (connection: Connection) => Promise<Result>) => Promise<Result>,
    work: (connection: Connection, context: StepContext) => Promise<Result>,
  ): Promise<Result>;
  sleep(name: string, duration: Duration): Promise<void>;
  sleepUntil(name: string, at: Date): Promise<void>;
  waitFor<Name extends keyof Signals & string>(
    signal: Name,
    options: ReturningWaitOptions<Signals[Name]>,
  ): Promise<Arrived<Signals[Name]> | TimedOut>;
  waitFor<Name extends keyof Signals & string>(
    signal: Name,
    options?: WaitOptions<Signals[Name]>,
  ): Promise<Arrived<Signals[Name]>>;
  approval<Name extends keyof Signals & string>(
    signal: Name,
    options: ApprovalOptions<Signals[Name]>,
  ): Promise<Decision<Signals[Name]>>;
  /** The first branch that ends decides, and the others are closed. */
  race<Results extends Readonly<Record<string, unknown>>>(branches: {
    readonly [Name in keyof Results]: () => Promise<Results[Name]>;
  }): Promise<
    { [Name in keyof Results & string]: { winner: Name; value: Results[Name] } }[keyof Results & string]
  >;
  each<Item, Result>(
    name: string,
    items: readonly Item[],
    key: (item: Item) => string,
    work: (item: Item, step: Step<Signals>) => Promise<Result>,
    options?: { concurrency?: number },
  ): Promise<Result[]>;
  /** Starts a job that lives on without the run. @returns the id of the new job. */
  enqueue<Job extends AnyJob>(
    job: Job,
    input: InputOf<Job>,
    options?: ChildOptions<InputOf<Job>>,
  ): Promise<string>;
  /** Starts the job and waits for its end. It is cancelled if the run ends before. */
  invoke<Job extends AnyJob>(
    job: Job,
    input: InputOf<Job>,
    options?: ChildOptions<InputOf<Job>>,
  ): Promise<ResultOf<Job>>;
  /** The same with a flow. @returns the results of its last nodes, by their names. */
  invoke(flow: Flow): Promise<Readonly<Record<string, unknown>>>;
  /** False for a run that has taken the old way before. */
  patched(name: string): boolean;
  now(): Date;
  uuid(): string;
  /**
   * Begins a new round with an empty journal; signals that no wait has taken stay. It throws if steps with an undo are
   * recorded, unless the new round may forget these undos.
   */
  continueWith(input: unknown, options?: { dropUndos?: boolean }): never;
}
