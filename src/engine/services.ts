/**
 * The services of a process over one store, and the one place that puts them together. A class or function takes the
 * services that it names (`Needs<"store" | "log">`) and no others, so its signature says what it depends on. Each
 * service uses only those above it.
 */
import type { Logger } from "./log/logger.ts";
import { RepeatedLines } from "./log/repeated-line.ts";
import type { Platform } from "../platform/platform.ts";
import type { Store } from "../store/store.ts";
import type { AttemptObserver } from "./attempts/attempt-observer.ts";
import { observerOfSink } from "./attempts/attempt-sink.ts";
import { failureReporter } from "./attempts/failures.ts";
import type { ReportFailure } from "./attempts/failures.ts";
import { Budgets } from "./budgets/budgets.ts";
import { guardedTelemetry } from "./attempts/guarded-telemetry.ts";
import { callersStore } from "./calls/callers-store.ts";
import { createStoreBatchers } from "./calls/store-batchers.ts";
import type { StoreBatchers } from "./calls/store-batchers.ts";
import { Flush } from "./calls/flush.ts";
import { Heartbeat } from "./fleet/heartbeat.ts";
import { JobClocks } from "./fleet/job-clocks.ts";
import { Leadership } from "./fleet/leadership.ts";
import { OtherWorkers } from "./fleet/other-workers.ts";
import { LimitsInUse } from "./limits/limits-in-use.ts";
import { meteredStore } from "./metrics/metered-store.ts";
import { MetricRecorder } from "./metrics/metric-recorder.ts";
import { Policies } from "./policies/policies.ts";
import { QueuePolicies } from "./policies/queue-policies.ts";
import { StoreRetention } from "./policies/store-retention.ts";
import type { ProcessSettings } from "./process-settings.ts";
import { DefinedSchedules } from "./schedules/defined-schedules.ts";
import { HandledNames } from "./submit/handled-names.ts";
import { KnownJobs } from "./submit/known-jobs.ts";
import { JobIds } from "./submit/job-ids.ts";
import { JobPlanner } from "./submit/job-planner.ts";
import { Submitter } from "./submit/submitter.ts";
import { Publishing } from "./topics/publishing.ts";
import { WebhookDocs } from "./webhooks/webhook-docs.ts";

/** The settings of the process that other parts read. */
type SharedSettings = Omit<
  ProcessSettings,
  "codeDefaults" | "retention" | "onAttempt" | "onFailed" | "hasMetrics"
>;

export interface Services extends SharedSettings, StoreBatchers {
  readonly platform: Platform;
  readonly log: Logger;
  /** For log lines that one outage would otherwise write for every job. */
  readonly repeated: RepeatedLines;
  /** Counts what this process does; null if metrics are off. */
  readonly metrics: MetricRecorder | null;
  /** The store, wrapped so that its calls are counted. */
  readonly store: Store;
  /** The same, as callers use it: calls are repeated for a while (calls/callers-store.ts). */
  readonly callersStore: Store;
  /** Those of callers end with `giveUp`; the other ones, of duties and attempts, have a bound of their own. */
  readonly callersBatchers: Pick<StoreBatchers, "changes" | "reads">;
  readonly flush: Flush;
  readonly ids: JobIds;

  /** The policies that operators have set for queues. */
  readonly queuePolicies: QueuePolicies;
  /** Decides the policy of a job, with the defaults of this process. */
  readonly policies: Policies;
  readonly retention: StoreRetention;
  readonly limits: LimitsInUse;
  readonly budgets: Budgets;
  readonly handled: HandledNames;
  readonly knownJobs: KnownJobs;

  readonly planner: JobPlanner;
  readonly submitter: Submitter;
  readonly schedules: DefinedSchedules;
  readonly publishing: Publishing;
  readonly webhookDocs: WebhookDocs;

  /** Called for every attempt of this process that has ended (attempts/attempt-observer.ts). */
  readonly attemptObservers: readonly AttemptObserver[];
  /** Called for every job that this process has ended as failed or expired; null if nobody asks. */
  readonly reportFailure: ReportFailure | null;

  readonly clocks: JobClocks;
  readonly otherWorkers: OtherWorkers;
  /** Whether this process does the duties that run once per store. */
  readonly leadership: Leadership;
  readonly heartbeat: Heartbeat;
}

/** How long calls of duties and attempts are repeated, however soon callers give up. */
const ownGiveUpMs = 10_000;

export type Needs<Name extends keyof Services> = Pick<Services, Name>;

/** @param given the store. It is wrapped, so that its calls are counted. */
export function createServices(
  given: Store,
  platform: Platform,
  settings: ProcessSettings,
  log: Logger,
): Services {
  const { codeDefaults, retention: declared, onAttempt, onFailed, hasMetrics, ...shared } = settings;
  const { coder, giveUpMs, enqueueMiddleware } = shared;

  const repeated = new RepeatedLines({ log, platform });
  const telemetry = shared.telemetry === null ? null : guardedTelemetry(shared.telemetry, { repeated });
  const metrics = hasMetrics ? new MetricRecorder({ store: given, platform, repeated }) : null;
  const store = metrics === null ? given : meteredStore(given, platform, metrics);
  const callers = callersStore(store, { platform, giveUpMs });
  const flush = new Flush(platform);
  const ids = new JobIds(platform, store.partitions ?? 1);
  const batching = { store, platform, flush, ids };
  const { changes, reads, submits } = createStoreBatchers({ ...batching, giveUpMs });
  const ownMs = Math.max(giveUpMs, ownGiveUpMs);
  const batchers = { ...createStoreBatchers({ ...batching, giveUpMs: ownMs }), submits };

  const queuePolicies = new QueuePolicies({ store, log }, (queue) => policies.queueChanged(queue));
  const policies = new Policies(codeDefaults, (queue) => queuePolicies.of(queue));
  const retention = new StoreRetention(callers, declared, (times) => policies.retentionRead(times));
  const limits = new LimitsInUse(callers, log);
  const budgets = new Budgets({ store: callers, platform, flush, ids, giveUpMs, limits });
  const handled = new HandledNames();
  const knownJobs = new KnownJobs();

  const callersNeeds = { store: callers, platform, ids, giveUpMs };
  const planner = new JobPlanner({ ...shared, codeDefaults, ids, limits, handled, knownJobs });
  const submitter = new Submitter({ platform, ids, limits, submits: batchers.submits, telemetry });
  const schedules = new DefinedSchedules({ ...callersNeeds, log, coder, limits, planner });
  const publishing = new Publishing({ ...callersNeeds, coder, enqueueMiddleware });
  const webhookDocs = new WebhookDocs(callers);

  const attemptObservers: AttemptObserver[] = [];
  if (metrics !== null) attemptObservers.push(metrics.ended);
  if (onAttempt !== null) attemptObservers.push(observerOfSink({ platform, repeated }, onAttempt));
  if (telemetry !== null) attemptObservers.push(telemetry.ended);

  const reportFailure = onFailed === null ? null : failureReporter({ platform, repeated }, onFailed);

  const clocks = new JobClocks();
  const otherWorkers = new OtherWorkers();
  const process = `${platform.hostName}:${platform.processId}:${ids.mint()}`;
  const leadership = new Leadership({ store, platform }, process);
  const settingsReaders = { queuePolicies, retention, webhookDocs };
  const heartbeat = new Heartbeat(
    { platform, store, log, clocks, otherWorkers, leadership, ...settingsReaders },
    process,
  );

  return {
    ...shared,
    telemetry,
    ...{ platform, log, repeated, metrics, store, callersStore: callers, flush, ids },
    ...batchers,
    callersBatchers: { changes, reads },
    ...{ queuePolicies, policies, retention, limits, budgets, handled, knownJobs },
    ...{ planner, submitter, schedules, publishing, webhookDocs },
    ...{ attemptObservers, reportFailure, clocks, otherWorkers, leadership, heartbeat },
  };
}
