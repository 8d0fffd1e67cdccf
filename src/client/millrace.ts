/** Millrace as an application sees it: enqueue, work, read and operate, over one store. */
import { allDuties } from "../engine/duties/all-duties.ts";
import type { CallersConnection } from "../store/callers-connection.ts";
import type { DutyTuning } from "../engine/duties/duty-tuning.ts";
import type { DurablePart, SentOf } from "../engine/durable/durable-definition.ts";
import { anySubmission, checkDefinition } from "../engine/submit/job-definition.ts";
import type { AnyJob, AnySubmission, JobDefinition, ResultOf } from "../engine/submit/job-definition.ts";
import { checkCallOptions } from "../engine/calls/call-limit.ts";
import type { CallOptions } from "../engine/calls/call-limit.ts";
import type { Services } from "../engine/services.ts";
import type { EnqueueOptions } from "../engine/submit/job-options.ts";
import { Events } from "../engine/events/events.ts";
import type { AnyFlow, Flow } from "../engine/flows/flow.ts";
import type { SubmitFlowOptions } from "../engine/flows/submit-options.ts";
import { Kv } from "../engine/docs/kv.ts";
import { HeldLeases } from "../engine/attempts/held-leases.ts";
import { Results } from "../engine/calls/results.ts";
import { settlesWithin } from "../engine/calls/settles-within.ts";
import { schedule } from "../engine/schedules/schedule-definition.ts";
import type { ScheduleFlowOptions, ScheduleOptions } from "../engine/schedules/schedule-definition.ts";
import type { StoreRetention } from "../engine/policies/store-retention.ts";
import type { PublishOptions } from "../engine/topics/publishing.ts";
import { subscribeAll } from "../engine/topics/subscribe.ts";
import type { TopicDefinition } from "../engine/topics/topic-definition.ts";
import { refusalError } from "../engine/submit/refusal-error.ts";
import { LoneUnit, unitOf } from "../engine/submit/submitter.ts";
import { Supervisor } from "../engine/duties/supervisor.ts";
import { MillraceError } from "../model/error.ts";
import type { EventName, MillraceEvent } from "../model/events/event.ts";
import { checkName } from "../model/name.ts";
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../store/operations.ts";
import type { StoreDescription } from "../store/store.ts";
import { openSandboxPools } from "../worker/sandbox/open-sandbox-pools.ts";
import type { Handler } from "../worker/handler.ts";
import { Permits } from "../worker/permits/permits.ts";
import { Renewals } from "../worker/lease/renewal.ts";
import { warnOfUnknownQueues } from "../worker/fleet/unknown-queues.ts";
import { JobWorker } from "../worker/worker.ts";
import type { StopReport, Worker, SharedByWorkers } from "../worker/worker.ts";
import { readWorkerOptions } from "../worker/worker-settings.ts";
import type { WorkerOptions } from "../worker/worker-settings.ts";
import { Approvals } from "./durable/approvals.ts";
import { Runs } from "./durable/runs.ts";
import { Signals } from "./durable/signals.ts";
import { isTarget } from "./durable/signals.ts";
import type {
  BroadcastTarget,
  KeyedSignalAnswer,
  KeyedSignalOptions,
  SignalAnswer,
  SignalOptions,
  SignalTarget,
} from "./durable/signals.ts";
import { Calls } from "./jobs/calls.ts";
import type { CallJobOptions } from "./jobs/calls.ts";
import { checkSubmissions, enqueuerIn, publishBy } from "./jobs/enqueuer.ts";
import type { Enqueuer, EnqueuerInTransaction, HandlesOf, PublishedJob, ToHandles } from "./jobs/enqueuer.ts";
import { FrameReaders } from "../engine/output/frame-readers.ts";
import { openFrames, readOutputView } from "./open-frames.ts";
import type { FramesOptions, FrameStream, OutputView } from "./open-frames.ts";
import { listen, openEvents } from "./open-events.ts";
import type { EventConditions, EventsOptions, EventStream } from "./open-events.ts";
import { explainJob } from "./explain/explain-job.ts";
import type { Explanation } from "./explain/explain-job.ts";
import { Flows } from "./flows/flows.ts";
import type { FlowRun } from "./flows/flows.ts";
import { JobHandle } from "./jobs/job-handle.ts";
import type { HandleSurroundings } from "./jobs/job-handle.ts";
import { Jobs } from "./jobs/jobs.ts";
import { BudgetsClient } from "./budgets.ts";
import { LimitsClient } from "./limits.ts";
import { Metrics } from "./metrics/metrics.ts";
import { Duties, Unreadable } from "./workers/duties.ts";
import { Queues } from "./queues/queues.ts";
import { viewSchedule } from "./schedules/schedule-view.ts";
import type { ScheduleView } from "./schedules/schedule-view.ts";
import { Schedules } from "./schedules/schedules.ts";
import { Topics } from "./topics.ts";
import { WebhookWorker } from "./webhooks/webhook-worker.ts";
import { Webhooks } from "./webhooks/webhooks.ts";
import { Workers } from "./workers/workers.ts";

export interface CloseReport {
  readonly notStopped: {
    /** Handlers that ignored their abort. Their jobs were handed back, but their code still runs. */
    readonly handlers: number;
    /** The names of background duties whose call to the store had not returned. */
    readonly duties: readonly string[];
    /** True if the store did not close; its connections then end with the process. */
    readonly store: boolean;
  };
}

const dutiesGraceMs = 5000;
const queuesGraceMs = 5000;
/** How long a close waits for calls in flight, and for the store to close. */
const callsGraceMs = 10_000;

export class Millrace implements Enqueuer {
  readonly jobs: Jobs;
  readonly kv: Kv;
  readonly queues: Queues;
  readonly limits: LimitsClient;
  readonly budgets: BudgetsClient;
  readonly metrics: Metrics;
  readonly schedules: Schedules;
  readonly topics: Topics;
  readonly flows: Flows;
  readonly webhooks: Webhooks;
  readonly workers: Workers;
  /** Tokens with which somebody outside answers a durable run. */
  readonly approvals: Approvals;
  /** What durable runs have done and wait for. */
  readonly runs: Runs;
  /** What runs in the background: see docs/guides/operating.md. */
  readonly duties: Duties;
  /** Records that the store could not read. */
  readonly unreadable: Unreadable;
  /** How long the store keeps finished jobs and the feed, for all processes. */
  readonly retention: Pick<StoreRetention, "get" | "set">;
  readonly #services: Services;
  /** What the calls of the application use. */
  readonly #callers: Services;
  readonly #results: Results;
  readonly #calls: Calls;
  readonly #events: Events;
  readonly #frames: FrameReaders;
  readonly #shared: SharedByWorkers;
  readonly #workers = new Set<JobWorker>();
  readonly #permits: Permits;
  readonly #signals: Signals;
  /** For handles of jobs that were enqueued outside a transaction. */
  readonly #handles: HandleSurroundings;
  #closing: Promise<CloseReport> | null = null;

  /** Use `Millrace.open` or `openMillrace` instead. */
  constructor(services: Services, duties: DutyTuning) {
    this.#services = services;
    this.#results = new Results(services);
    this.#events = new Events(services);
    this.#frames = new FrameReaders(services);
    const heldLeases = new HeldLeases();
    this.#shared = {
      heldLeases,
      renewals: new Renewals(services),
      stopped: (worker) => this.#workers.delete(worker),
      limits: {
        acquire: (limit, options) => this.limits.acquire(limit, options),
        throttle: (limit, options) => this.limits.throttle(limit, options),
      },
    };
    const webhookWorker = new WebhookWorker(services, (handlers, options) => this.work(handlers, options));
    const deliverWebhooks = (isOurs: boolean): void => webhookWorker.run(isOurs);
    const around = { leases: heldLeases, deliverWebhooks };
    const callers = { ...services, store: services.callersStore, ...services.callersBatchers };
    this.#callers = callers;
    const supervisor = new Supervisor(services, allDuties(services, around, duties));
    const mayStart = (): void => {
      this.#checkOpen();
      this.#checkNoView("duties.start");
    };
    this.duties = new Duties(callers, { tuning: duties, supervisor, mayStart });
    this.unreadable = new Unreadable(callers);
    this.jobs = new Jobs(callers);
    this.#calls = new Calls(callers, this.jobs, this.#results);
    this.kv = new Kv(callers);
    this.queues = new Queues(callers);
    this.workers = new Workers(callers);
    this.#signals = new Signals(callers);
    this.#permits = new Permits(services, this.#shared);
    this.limits = new LimitsClient(callers, this.#permits, () => this.duties.start());
    this.budgets = new BudgetsClient(callers);
    this.schedules = new Schedules(callers);
    this.topics = new Topics(callers);
    this.flows = new Flows(callers, this.#results);
    this.metrics = new Metrics(callers);
    this.webhooks = new Webhooks(callers, this.jobs);
    this.approvals = new Approvals(callers);
    this.runs = new Runs(callers);
    this.retention = services.retention;
    this.#handles = { needs: services, jobs: this.jobs, results: this.#results, isInTransaction: false };
  }

  /** @param call how long the call itself may take; the `timeout` of the options is that of an attempt. */
  async enqueue<In, Out, Result, Returned>(
    job: JobDefinition<In, Out, Result, Returned>,
    input: NoInfer<In>,
    options?: EnqueueOptions<NoInfer<In>>,
    call?: CallOptions,
  ): Promise<JobHandle<Result>> {
    this.#checkOpen();
    if (call !== undefined) checkCallOptions(call, "enqueue");
    const planning = this.#services.planner.plan({ job, input, options });
    const planned = planning instanceof Promise ? await planning : planning;
    const isPlain = options?.repeatOf === undefined && options?.kv === undefined;
    const unit = isPlain ? new LoneUnit(planned) : unitOf(this.#services, [planned], [{ options }]);
    const answer = await this.#services.submitter.submit(unit, call);
    if (answer.kind === "refused") throw refusalError(answer, unit.jobs);
    const [id, how] = [answer.ids[0] as string, answer.hows[0] as SubmitHow];
    return new JobHandle(this.#handles, id, planned.name, how);
  }

  /** Enqueues a job and waits for its result: a request to any process that has its handler. */
  async call<In, Out, Result, Returned>(
    job: JobDefinition<In, Out, Result, Returned>,
    input: NoInfer<In>,
    options: CallJobOptions<NoInfer<In>> = {},
  ): Promise<Result> {
    this.#checkOpen();
    return (await this.#calls.call(anySubmission(job, input, undefined), options)) as Result;
  }

  async enqueueMany<const Many extends readonly AnySubmission[]>(
    submissions: Many,
    call?: CallOptions,
  ): Promise<HandlesOf<Many>> {
    this.#checkOpen();
    checkCallOptions(call, "enqueueMany");
    checkSubmissions(submissions);
    const unit = unitOf(this.#services, await this.#services.planner.planAll(submissions), submissions);
    const isEmpty = unit.jobs.length === 0;
    const handles = isEmpty
      ? []
      : this.#toHandles(unit, await this.#services.submitter.submit(unit, call), false);
    return handles as HandlesOf<Many>;
  }

  async publish<In>(
    topic: TopicDefinition<In>,
    input: NoInfer<In>,
    options: PublishOptions = {},
    call?: CallOptions,
  ): Promise<readonly PublishedJob[]> {
    this.#checkOpen();
    checkCallOptions(call, "publish");
    const [services, toHandles] = [this.#services, this.#toHandles];
    const submit = (unit: SubmitUnit): Promise<SubmitAnswer> => services.submitter.submit(unit, call);
    const submitting = { needs: services, toHandles, isInTransaction: false, submit };
    return publishBy(submitting, topic as TopicDefinition, input, options);
  }

  /** Submits a flow: all of its nodes or none, in one atomic step. */
  async submit<Results extends object>(
    flow: Flow<Results>,
    options: SubmitFlowOptions = {},
    call?: CallOptions,
  ): Promise<FlowRun<Results>> {
    this.#checkOpen();
    checkCallOptions(call, "submit");
    return this.flows.submit(flow, options, null, call);
  }

  /**
   * Enqueues on the caller's own connection: the jobs commit or roll back with the caller's rows. The connection is the
   * transaction of a known library or, on Postgres, any `{ query(text, values) }` that runs in one and returns its
   * rows.
   */
  in(connection: CallersConnection): EnqueuerInTransaction {
    this.#checkOpen();
    const { flows } = this;
    return enqueuerIn(
      this.#services,
      { toHandles: this.#toHandles, flows, signals: this.#signals },
      connection,
    );
  }

  /**
   * Defines a schedule that makes jobs, or flows. The store keeps it, and any process with duties fires it. Defining it
   * again unchanged does nothing, so an operator's edits stay.
   */
  schedule<In, Out, Result, Returned>(
    name: string,
    job: JobDefinition<In, Out, Result, Returned>,
    input: NoInfer<In>,
    options: ScheduleOptions<NoInfer<In>>,
  ): Promise<ScheduleView>;
  schedule(name: string, flow: AnyFlow, options: ScheduleFlowOptions): Promise<ScheduleView>;
  async schedule(...given: readonly unknown[]): Promise<ScheduleView> {
    this.#checkOpen();
    const definition = schedule(...(given as Parameters<typeof schedule>));
    return viewSchedule(this.#services, await this.#services.schedules.define(definition));
  }

  /** A handle for a job known by its id; with its definition, the result has its type. */
  handle<Result = unknown>(id: string): JobHandle<Result>;
  handle<Job extends AnyJob>(job: Job, id: string): JobHandle<ResultOf<Job>>;
  handle(jobOrId: AnyJob | string, id?: string): JobHandle {
    const isTyped = typeof jobOrId !== "string";
    if (isTyped) checkDefinition(jobOrId, "handle");
    const name = isTyped ? jobOrId.name : null;
    return new JobHandle(this.#handles, checkName(isTyped ? id : jobOrId, "id"), name, null);
  }

  /**
   * Every change of every job of the store, in order, from any process: `for await (const event of mill.events())`.
   * With the cursor of an event, another call continues after it, also in another process.
   */
  events<Kind extends EventName = EventName>(options: EventsOptions<Kind> = {}): EventStream<Kind> {
    this.#checkOpen();
    return openEvents(this.#events, options) as EventStream<Kind>;
  }

  /**
   * Calls the listener with each later event of the kind, from all processes. @returns a function that ends this.
   *
   * @example
   * const off = mill.on("failed", ({ jobId }) => console.error(jobId), { queue: "email" });
   */
  on<Kind extends EventName>(
    kind: Kind,
    listener: (event: MillraceEvent<Kind>) => unknown,
    options: EventConditions = {},
  ): () => void {
    this.#checkOpen();
    return listen(this.#services, this.#events, kind, listener, options);
  }

  /**
   * The output that the handler of a job writes with `stream`, live from any process, over all of its attempts. With
   * the cursor of a frame, another call goes on after it. A job that is unknown, or no longer kept, throws
   * `job-not-found`.
   *
   *     for await (const frame of mill.frames<string>(id)) {
   *       if (frame.kind === "data") page.append(frame.value);
   *       if (frame.kind === "restarted") page.clear();
   *     }
   */
  frames<Value = unknown>(id: string, options: FramesOptions = {}): FrameStream<Value> {
    this.#checkOpen();
    return openFrames(this.#frames, id, options) as FrameStream<Value>;
  }

  /** The output of a job at a glance: its summary, and how many frames it has. */
  output(id: string): Promise<OutputView> {
    return readOutputView(this.#callers, id);
  }

  /**
   * Sends a signal to a durable run: by its id, or with its definition, which gives the value its type. It throws for a
   * wrong call: an unknown job, a plain job, a signal that the job does not take, a value of another shape.
   */
  signal(id: string, name: string, value?: unknown, options?: SignalOptions): Promise<SignalAnswer>;
  signal<Job extends AnyJob & DurablePart, Name extends keyof SentOf<Job> & string>(
    job: Job,
    id: string,
    name: Name,
    value: SentOf<Job>[Name],
    options?: SignalOptions,
  ): Promise<SignalAnswer>;
  /** The same for a run that may not be there yet: it is started, with the signal in its journal, in one step. */
  signal(
    submission: AnySubmission,
    name: string,
    value?: unknown,
    options?: SignalOptions,
  ): Promise<SignalAnswer>;
  /**
   * Sends it to a business key, such as the number of a payment: every run that waits there gets it
   * (`step.waitFor(name, { key })`), or else the first one that does within a day.
   *
   * @example
   *   await mill.signal({ key: "payment 4711" }, "paid", { ref: "visa" }, { key: event.id });
   */
  signal(
    target: SignalTarget,
    name: string,
    value?: unknown,
    options?: KeyedSignalOptions,
  ): Promise<KeyedSignalAnswer>;
  async signal(...given: readonly unknown[]): Promise<SignalAnswer> {
    this.#checkOpen();
    const [first] = given;
    if (isTarget(first)) {
      const [target, signal, sent, how] = given as [SignalTarget, string, unknown, KeyedSignalOptions];
      return this.#signals.sendToKey(target, signal, sent, how);
    }
    if (typeof first === "object" && first !== null && "job" in first) {
      const [submission, signal, sent, how] = given as [
        AnySubmission,
        string,
        unknown,
        SignalOptions | undefined,
      ];
      return this.#signals.sendWithStart(submission, signal, sent, how);
    }
    const [job, id, name, value, options] = typeof given[0] === "string" ? [null, ...given] : given;
    return this.#signals.send(
      job as AnyJob | null,
      id as string,
      name as string,
      value,
      options as SignalOptions | undefined,
    );
  }

  /**
   * Sends a signal to every run that lives now and has the tag, or is a node of the flow. A process that dies meanwhile
   * leaves the rest to another one. @returns how many runs have the signal.
   */
  async broadcast(
    target: BroadcastTarget,
    name: string,
    value?: unknown,
    options?: SignalOptions,
  ): Promise<{ readonly runs: number }> {
    this.#checkOpen();
    return this.#signals.broadcast(target, name, value, options);
  }

  /** Starts a worker in this process, and the background duties with the first one. */
  async work(handlers: readonly Handler[], options: WorkerOptions = {}): Promise<Worker> {
    this.#checkOpen();
    this.#checkNoView("work");
    const settings = readWorkerOptions(this.#services, options);
    const worker = new JobWorker(this.#services, this.#shared, handlers, settings);
    for (const { definition } of handlers) this.#services.knownJobs.learn(definition);
    // The store must know the limits of these jobs before one of them runs.
    const defined = this.#services.limits.define(
      handlers.flatMap(({ definition }) => definition.options.limits ?? []),
    );
    const budgeted = this.#services.limits.defineBudgets(
      handlers.flatMap(({ definition }) => definition.options.budgets ?? []),
    );
    // An operator's settings of the queues have precedence over the worker's, unless the store is too slow to read
    // them.
    const { platform, queuePolicies, schedules } = this.#services;
    for (const definition of settings.queueDefaults) await this.queues.define(definition);
    await Promise.all([
      defined,
      budgeted,
      settlesWithin(platform, queuePolicies.learn(worker.queues), queuesGraceMs),
    ]);
    this.#checkOpen();
    if (settings.schedules.length > 0 || settings.subscriptions.length > 0) {
      await schedules.defineAll(settings.schedules);
      await subscribeAll(this.#callers, settings.subscriptions);
      this.#checkOpen();
    }
    const closeSandboxes = await openSandboxPools(this.#services, handlers);
    if (this.#closing !== null) await closeSandboxes();
    this.#checkOpen();
    this.#workers.add(worker);
    this.duties.start();
    worker.start(closeSandboxes);
    void warnOfUnknownQueues(this.#services, handlers, settings.queues);
    return worker;
  }

  async explain(id: string): Promise<Explanation | null> {
    checkName(id, "explain: id");
    return explainJob(this.#callers, id);
  }

  describe(): Promise<StoreDescription> {
    return this.#callers.store.describe();
  }

  /**
   * Stops the workers, ends the waits and closes the store. @returns what did not stop. A second close returns the
   * first.
   */
  close(): Promise<CloseReport> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<CloseReport> {
    const { log, submits, settles, changes, callersBatchers, store, platform, giveUpMs } = this.#services;
    const reports: StopReport[] = await Promise.all([...this.#workers].map((worker) => worker.stop()));
    await this.#permits.close();
    const handlers = reports.reduce((sum, report) => sum + report.notStopped, 0);
    if (handlers > 0) log.warn("handlers still run after the close", { handlers });
    const duties = await this.duties.stop(dutiesGraceMs);
    if (duties.length > 0) log.warn("duties still run after the close", { duties });
    // The last handlers and duties are counted too, so the metrics are written after them.
    if (this.#services.metrics !== null)
      await settlesWithin(platform, this.#services.metrics.flush(), callsGraceMs);
    this.#results.close();
    this.#events.close();
    this.#frames.close();
    const { budgets } = this.#services;
    const idle = Promise.all([
      budgets.whenIdle(),
      this.#calls.whenIdle(),
      submits.whenIdle(),
      settles.whenIdle(),
      changes.whenIdle(),
      callersBatchers.changes.whenIdle(),
    ]);
    await settlesWithin(platform, idle, Math.max(callsGraceMs, giveUpMs));
    const closing = store.close();
    const isClosed = await settlesWithin(platform, closing, callsGraceMs);
    if (isClosed) await closing;
    else log.warn("the store did not close in time; its connections end with the process");
    return { notStopped: { handlers, duties, store: !isClosed } };
  }

  #checkNoView(what: string): void {
    if (this.#services.store.isView !== true) return;
    const sentence = `${what}: this is a view of the store, on which no worker and no duty can run. Open the store without view: true.`;
    throw new MillraceError("store-read-only", sentence);
  }

  #checkOpen(): void {
    if (this.#closing !== null)
      throw new MillraceError("closed", "This Millrace was closed; open a new one.");
  }

  readonly #toHandles: ToHandles = ({ jobs }, answer, isInTransaction) => {
    if (answer.kind === "refused") throw refusalError(answer, jobs);
    const { ids, hows } = answer;
    const around = isInTransaction ? { ...this.#handles, isInTransaction } : this.#handles;
    return ids.map((id, at) => new JobHandle(around, id, jobs[at]?.name ?? null, hows[at] ?? null));
  };
}
