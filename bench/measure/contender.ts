/**
 * A system under measurement, opened on one store. Each work is written once against this seam, so every system is
 * asked for the same in the same way. Calls that answer at once give no promise back: awaiting nothing would cost the
 * peer.
 */
import type { Executor, Mode } from "../figures.ts";
import { makeInput } from "./input.ts";
import type { BenchInput } from "./input.ts";
import type { Costs } from "./measurement.ts";
import type { JobKind } from "./job-kind.ts";

export interface Contender {
  /** What an acknowledgement is worth, in Millrace's words. */
  readonly durability: string;
  enqueue(input: unknown): Promise<unknown> | void;
  enqueueMany(inputs: readonly unknown[]): Promise<unknown> | void;
  /** Absent where the system is not measured with delays. */
  schedule?(jobs: readonly ScheduledInput[], where: "worked" | "unworked"): Promise<unknown> | void;
  /** Absent where the system is not measured with schedules. */
  readonly repeat?: Repeat;
  /** Absent where the system is not measured with topics. */
  readonly topics?: Topics;
  /** Absent where the system is not measured with flows. */
  openFlows?(): Promise<BenchFlows> | BenchFlows;
  /** With workers of that many slots. Absent where the system is not measured with durable runs. */
  openRuns?(concurrency: number): Promise<BenchRuns>;
  /** Absent where the system is not measured with output frames. */
  openFrames?(): Promise<BenchFrames>;
  work(options: WorkOptions): Promise<Workers> | Workers;
  /**
   * Every event of the store, or every failure, on a connection of its own. Absent where the system is not measured
   * with events.
   */
  readonly listen?: (from: "now" | "start", what?: "all" | "failures") => Promise<Listening>;
  /** Absent where the system is not measured with cancels. */
  openCancels?(): Promise<Cancels>;
  /** Absent where the system is not measured with stalls. */
  openStalls?(): Promise<Stalls>;
  /** Absent where the system is not measured with permits. */
  openPermits?(): Promise<Permits>;
  /** Absent where the system is not measured with calls. */
  openCalls?(): Promise<Calls>;
  /**
   * Finished jobs by the store's own count. Where it keeps none of them: `filled`, all that there were, without those
   * still there.
   */
  countFinished(filled: number): Promise<number> | number;
  /**
   * Leaves N keys at closed gates, one job waiting and one finished each. Absent where a system has no such
   * gates.
   */
  closeKeys?(count: number): Promise<void>;
  /** Leaves all waiting jobs finished, as working them off would, in whatever way is quick. */
  finishAll(count: number): Promise<void>;
  /**
   * Store calls since the start, the store's own periodic reads included; 0 unless opened for counting. On a server,
   * what the driver sends.
   */
  readonly storeCalls: number;
  /** Objects put since the start, and their bytes; null unless it is a bucket. */
  costs?(): Promise<Costs | null>;
  /** Another writer of the same bucket, which takes it over. */
  openAgain?(): Promise<Contender>;
  close(): Promise<unknown> | void;
}

export interface OpenOptions {
  /** A file, or the URL of a database or prefix. */
  readonly place: string;
  readonly mode: Mode;
  readonly jobKind: JobKind;
  /** Null leaves it to the store. */
  readonly executor: Executor | null;
  /** Jobs that a store which only pretends must have ready. */
  readonly jobs: number;
  /** Jobs that wait at closed gates lie in the same queue: a worker serves them too. */
  readonly isBesideClosed: boolean;
  /** Hear of new work as soon as the system can. */
  readonly isEager: boolean;
  /** Counting everything costs time, so only the idle work asks for it. */
  readonly isCounting: boolean;
}

/** Flows of no-op jobs; each is over when the answer comes. */
export interface BenchFlows {
  /** So many jobs one behind the other. */
  chain(nodes: number): Promise<void>;
  /** One job, N after it, one after these. */
  fan(width: number): Promise<void>;
  /** So many of which the first wins. @returns from its end until the last of the others was cancelled. */
  race?(width: number): Promise<number>;
  /** Only submitted. */
  submit(nodes: number): Promise<void>;
  close(): Promise<void>;
}

/** A worker that writes frames, and readers on another connection. */
export interface BenchFrames {
  /** The time until a reader has all of so many, of which the writer waits for nothing but the store. */
  write(frames: number): Promise<number>;
  /** From each write of a slow stream until a reader has it. */
  delays(samples: number): Promise<readonly number[]>;
  /** How often the store was read for so many readers of one slow stream. */
  readsOf(readers: number, writes: number): Promise<number>;
  close(): Promise<void>;
}

/** Durable runs; each is over when the answer comes. Times are in milliseconds. */
export interface BenchRuns {
  /** A run of so many empty steps. */
  steps(count: number): Promise<void>;
  /** The same alone. @returns the time of each step. */
  timedSteps(count: number): Promise<readonly number[]>;
  /** @returns the time from a signal until the handler of a suspended run goes on. */
  readonly signalDelay?: () => Promise<number>;
  /** @returns the time of a run that invokes one job, from its enqueue until its result. */
  readonly invokeTime?: () => Promise<number>;
  /** So many runs wait for so many signals, one after the other. @returns resumes per second. */
  readonly resumes?: (count: number, rounds: number) => Promise<number>;
  /** Leaves so many runs suspended, more than there are already. */
  readonly suspend?: (count: number) => Promise<void>;
  /** @returns the time of the replay of so many recorded steps. */
  readonly replay?: (steps: number) => Promise<number>;
  close(): Promise<void>;
}

/** One topic of a system. */
export interface Topics {
  /** Gives it N subscriptions. */
  subscribe(count: number): Promise<void>;
  publish(input: unknown): Promise<unknown>;
}

/** Schedules of a system. */
export interface Repeat {
  /** Defines N, each of which fires every hour from this tick on. */
  define(count: number, tickMs: number): Promise<void>;
  /** Begins to fire them in this process. */
  start(): void;
  /** All jobs that are in the store. */
  countJobs(): Promise<number>;
}

/** A job that must not start before this time, by the machine's clock. */
export interface ScheduledInput {
  readonly input: BenchInput;
  readonly dueAtMs: number;
}

export interface WorkOptions {
  /** Null leaves it to the system. */
  readonly concurrency: number | null;
  /** The handler of a job has begun; with its input, in whatever form the system hands it over. */
  readonly started: (input: unknown) => void;
  /**
   * So many more jobs are finished: acknowledged by the store, not merely run. Jobs that fail once are counted at
   * the end of each of their two attempts.
   */
  readonly finished: (count: number) => void;
  /** N more jobs, of any queue, were found due and made ready. Called only if a job has to be made ready. */
  readonly promoted?: (count: number) => void;
}

export interface Listening {
  /** One more listener on this connection; from the answer on it misses nothing. */
  events(): Promise<AsyncIterable<{ readonly kind: string; readonly at: Date }>>;
  close(): Promise<void>;
}

export interface Cancels {
  /** Has a job run, and answers how long its cancel took from the call until its handler was aborted. */
  cancelOne(): Promise<number>;
  close(): Promise<void>;
}

export interface Stalls {
  /**
   * Has this process stand still for longer than its leases are. @returns how long it took from then on until all slots
   * ran jobs again.
   */
  stallOne(): Promise<number>;
  close(): Promise<unknown>;
}

export interface Permits {
  /**
   * Has a job run here that holds the only permit, enqueues the next one behind it and lets the first end. @returns
   * when its handler ended.
   */
  pass(next: BenchInput): Promise<number>;
  close(): Promise<void>;
}

export interface Calls {
  /** Enqueues a job and waits for its result. */
  call(input: unknown): Promise<unknown>;
  close(): Promise<void>;
}

export interface Workers {
  stop(): Promise<unknown>;
}

export const bulkJobs = 1000;

export async function enqueueInBulk(contender: Contender, count: number): Promise<void> {
  for (let from = 0; from < count; from += bulkJobs) {
    const length = Math.min(bulkJobs, count - from);
    await contender.enqueueMany(Array.from({ length }, (_, index) => makeInput(from + index)));
  }
}
