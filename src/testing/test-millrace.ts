/**
 * Millrace for the tests of an application: the real engine and the real worker on a store in memory, with a clock that
 * stands still until the test moves it. Jobs run when the test drains, or inside the enqueue in inline mode; nothing
 * runs unless the test asks for it.
 */
import type { CallersConnection } from "../store/callers-connection.ts";
import type { Enqueuer, HandlesOf, PublishedJob } from "../client/jobs/enqueuer.ts";
import type { Millrace } from "../client/millrace.ts";
import type { JobHandle } from "../client/jobs/job-handle.ts";
import { viewRecord } from "../client/jobs/job-view.ts";
import type { JobView } from "../client/jobs/job-view.ts";
import type {
  AnyJob,
  AnySubmission,
  InputOf,
  JobDefinition,
  ResultOf,
} from "../engine/submit/job-definition.ts";
import type { Needs } from "../engine/services.ts";
import type { Flow } from "../engine/flows/flow.ts";
import type { FlowRun } from "../client/flows/flows.ts";
import type { SubmitFlowOptions } from "../engine/flows/submit-options.ts";
import type { EnqueueOptions } from "../engine/submit/job-options.ts";
import type { PublishOptions } from "../engine/topics/publishing.ts";
import type { TopicDefinition } from "../engine/topics/topic-definition.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import type { JobState } from "../model/job/job-state.ts";
import { isHiddenQueue } from "../model/routing/hidden-queue.ts";
import type { JobRecord } from "../store/records.ts";
import type { Handler } from "../worker/handler.ts";
import type { Drain, DrainReport } from "./drain.ts";
import type { Memory, RememberedJob } from "./remembering-store.ts";
import { untilUndrained } from "./undrained-wait.ts";
import { settleTurn } from "./virtual-time.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** A job as a test sees it: nothing redacted. */
export interface TestedJob<Input = unknown, Result = unknown> extends Omit<
  JobView,
  "input" | "result" | "held"
> {
  readonly input: Input;
  readonly result: Result | undefined;
  /** The failures of its attempts, as `name: message`, oldest first. */
  readonly errors: readonly string[];
}

export interface TestClock {
  /** Epoch milliseconds. */
  now(): number;
  /** Moves the clock; whatever becomes due on the way becomes ready, and runs with the next drain. */
  advance(duration: Duration): Promise<void>;
}

interface TestParts {
  readonly mill: Millrace;
  readonly services: Needs<"coder" | "policies">;
  readonly memory: Memory;
  readonly time: VirtualTime;
  readonly handlers: readonly Handler[];
  readonly drain: Pick<Drain, "run" | "whenQuiet">;
  readonly isInline: boolean;
}

const closeStepsMax = 100_000;

export class TestMillrace implements Enqueuer, AsyncDisposable {
  /**
   * The real Millrace, for code that needs it: `t.mill.jobs`, `t.mill.kv`, `t.mill.explain`. Its enqueue never runs a
   * handler inline.
   */
  readonly mill: Millrace;
  readonly clock: TestClock;
  readonly #parts: TestParts;
  #closing: Promise<void> | null = null;
  /** Drains that run, and how many have ended. */
  #draining = 0;
  #drained = 0;

  /** Use `testMillrace`. */
  constructor(parts: TestParts) {
    this.#parts = parts;
    this.mill = parts.mill;
    const { time, drain } = parts;
    this.clock = {
      now: () => time.now,
      async advance(duration) {
        const ms = durationMs(duration, "advance");
        await drain.whenQuiet();
        await time.advance(ms * 1000);
      },
    };
  }

  async enqueue<In, Out, Result, Returned>(
    job: JobDefinition<In, Out, Result, Returned>,
    input: NoInfer<In>,
    options?: EnqueueOptions<NoInfer<In>>,
  ): Promise<JobHandle<Result>> {
    const handle = await this.mill.enqueue(job, input, options);
    if (this.#parts.isInline) await this.drain();
    return this.#watched(handle);
  }

  async enqueueMany<const Many extends readonly AnySubmission[]>(
    submissions: Many,
  ): Promise<HandlesOf<Many>> {
    const handles = await this.mill.enqueueMany(submissions);
    if (this.#parts.isInline) await this.drain();
    for (const handle of handles as readonly JobHandle[]) this.#watched(handle);
    return handles;
  }

  async publish<In>(
    topic: TopicDefinition<In>,
    input: NoInfer<In>,
    options?: PublishOptions,
  ): Promise<readonly PublishedJob[]> {
    const jobs = await this.mill.publish(topic, input, options);
    if (this.#parts.isInline) await this.drain();
    return jobs;
  }

  async submit<Results extends object>(
    flow: Flow<Results>,
    options?: SubmitFlowOptions,
  ): Promise<FlowRun<Results>> {
    const run = await this.mill.submit(flow, options);
    if (this.#parts.isInline) await this.drain();
    return this.#watched(run);
  }

  /**
   * Enqueues as if inside the application's transaction, whatever its library. The store in memory has no such commit:
   * the jobs are there at once, stay after a rollback, and run with the next drain, also in inline mode.
   */
  in(connection: CallersConnection): Enqueuer {
    return this.mill.in(connection);
  }

  /**
   * Runs jobs until none that has a handler is ready, running or due now. Delayed jobs and retries stay until the clock
   * is moved. Handlers that wait for the real world are waited for in real time, but not longer than `timeout` (5 s):
   * then the drain rejects and names what did not end.
   */
  drain(options: { timeout?: Duration } = {}): Promise<DrainReport> {
    if (this.#parts.handlers.length === 0)
      return Promise.reject(new MillraceError("no-handlers", "drain: testMillrace was given no handlers."));
    const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, "drain: timeout");
    this.#draining += 1;
    return this.#parts.drain.run(timeoutMs).finally(() => {
      this.#draining -= 1;
      this.#drained += 1;
    });
  }

  /** Every job of this kind that was ever enqueued here, whatever became of it, in the order of enqueueing. */
  enqueued<Job extends AnyJob>(job: Job): TestedJob<InputOf<Job>, ResultOf<Job>>[] {
    return this.#list(job, () => true);
  }

  completed<Job extends AnyJob>(job: Job): TestedJob<InputOf<Job>, ResultOf<Job>>[] {
    return this.#list(job, inState("completed"));
  }

  failed<Job extends AnyJob>(job: Job): TestedJob<InputOf<Job>, ResultOf<Job>>[] {
    return this.#list(job, inState("failed"));
  }

  /** Jobs that are still in the store: all, those of one kind, those in one state. */
  jobs<Job extends AnyJob = AnyJob>(job?: Job, state?: JobState): TestedJob<InputOf<Job>, ResultOf<Job>>[] {
    return this.#list(
      job,
      ({ record, isDeleted }) => !isDeleted && (state === undefined || record.state === state),
    );
  }

  /** What a reader shows of the output that the job has written by now: without what an attempt that died has sent. */
  async frames(id: string): Promise<readonly unknown[]> {
    const { frames: last } = await this.mill.output(id);
    let shown: { readonly value: unknown; readonly part: string | null }[] = [];
    if (last === 0) return [];
    for await (const frame of this.mill.frames(id)) {
      if (frame.kind === "data") shown.push(frame);
      if (frame.kind === "restarted")
        shown = shown.filter(({ part }) => frame.part !== null && part !== frame.part);
      if (frame.kind === "ended" || frame.cursor.endsWith(`-${last}`)) break;
    }
    return shown.map(({ value }) => value);
  }

  /** Stops everything; no timer is left. Closing twice is one close. */
  close(): Promise<void> {
    this.#closing ??= closeInVirtualTime(this.mill, this.#parts.time);
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Its result() says so if nobody drains. */
  #watched<Handle extends Pick<JobHandle, "id" | "result"> | FlowRun>(handle: Handle): Handle {
    const wait = handle.result.bind(handle);
    const { memory, time } = this.#parts;
    const progress = (): string | null =>
      this.#draining > 0 || memory.live().some(({ state }) => state === "running")
        ? null
        : `${this.#drained} ${time.elapsedUs}`;
    handle.result = (options) => untilUndrained(wait(options), `result() of ${handle.id}`, progress) as never;
    return handle;
  }

  #list<Job extends AnyJob>(
    job: Job | undefined,
    isWanted: (job: RememberedJob) => boolean,
  ): TestedJob<InputOf<Job>, ResultOf<Job>>[] {
    return this.#parts.memory
      .all()
      .filter((each) => (job === undefined || each.record.name === job.name) && isWanted(each))
      .filter(({ record }) => !isHiddenQueue(record.queue))
      .map(({ record }) => this.#view(record) as TestedJob<InputOf<Job>, ResultOf<Job>>);
  }

  #view(record: JobRecord): TestedJob {
    const { services } = this.#parts;
    const { coder } = services;
    const view = viewRecord(services, record);
    return {
      ...view,
      input: coder.decode(record.input),
      result: record.result === null ? undefined : coder.decode(record.result),
      errors: view.failures.map(({ error, outcome }) =>
        error === undefined ? outcome : `${error.name}: ${error.message}`,
      ),
    };
  }
}

/** The graces of a close are waited for in virtual time, so a handler that never ends costs the test nothing. */
export async function closeInVirtualTime(mill: Millrace, time: VirtualTime): Promise<void> {
  let isClosed = false;
  const closing = mill.close().finally(() => (isClosed = true));
  await settleTurn();
  for (let step = 0; step < closeStepsMax && !isClosed; step++) if (!(await time.step())) await settleTurn();
  await closing;
}

const inState =
  (state: JobState) =>
  ({ record, isDeleted }: RememberedJob): boolean =>
    !isDeleted && record.state === state;
