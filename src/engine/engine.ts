/**
 * What client, worker and duties of one process share: the store, the batchers in front of it, the codec and the code's
 * defaults. The engine decides nothing itself.
 */
import type { PayloadCoder } from "../codec/payload.ts";
import { withMintedIds } from "../model/error.ts";
import { outcomesNotKept } from "../model/job/job-policy.ts";
import type { JobPolicy } from "../model/job/job-policy.ts";
import type { CustomBackoff } from "../model/job/retry-policy.ts";
import type { Platform } from "../platform/platform.ts";
import { storeLimits } from "../store/limits.ts";
import type {
  Change,
  ChangeAnswer,
  Settle,
  SettleAnswer,
  SubmitAnswer,
  SubmitUnit,
} from "../store/operations.ts";
import type { JobRecord, NewJob } from "../store/records.ts";
import type { Store } from "../store/store.ts";
import type { AttemptObserver } from "./attempts/attempt-observer.ts";
import { observerOfSink } from "./attempts/attempt-sink.ts";
import type { OnAttempt } from "./attempts/attempt-sink.ts";
import { Batcher } from "./calls/batcher.ts";
import type { BatcherOptions } from "./calls/batcher.ts";
import type { EnqueueMiddleware } from "./submit/enqueue-middleware.ts";
import { Heartbeat } from "./fleet/heartbeat.ts";
import { JobClocks } from "./fleet/job-clocks.ts";
import { Leadership } from "./fleet/leadership.ts";
import { OtherWorkers } from "./fleet/other-workers.ts";
import { LimitsInUse } from "./limits/limits-in-use.ts";
import type { Logger } from "./log/logger.ts";
import { meteredStore } from "./metrics/metered-store.ts";
import { MetricRecorder } from "./metrics/metric-recorder.ts";
import { PartitionBatcher } from "./calls/partition-batcher.ts";
import type { Batching } from "./calls/partition-batcher.ts";
import { RepeatedLines } from "./log/repeated-line.ts";
import { Policies } from "./policies/policies.ts";
import { QueuePolicies } from "./policies/queue-policies.ts";
import { Reports } from "./attempts/reports.ts";
import type { Router } from "./submit/router.ts";
import { DefinedSchedules } from "./schedules/defined-schedules.ts";
import { HandledNames } from "./submit/handled-names.ts";
import { JobPlanner } from "./submit/job-planner.ts";
import { Submitter } from "./submit/submitter.ts";
import { JobIds } from "./submit/job-ids.ts";
import { StoreRetention } from "./policies/store-retention.ts";
import type { KeptTimes } from "./policies/store-retention.ts";
import type { Telemetry } from "./attempts/telemetry.ts";
import { WebhookDocs } from "./webhooks/webhook-docs.ts";
import { Publishing } from "./topics/publishing.ts";
import { Flush } from "./calls/flush.ts";

export interface EngineSettings {
  readonly coder: PayloadCoder;
  readonly codeDefaults: JobPolicy;
  /** What this process was told to keep; the rest is the store's (store-retention.ts). */
  readonly retention: KeptTimes;
  /** How long a ready job may wait for a handler of its name; null for ever. */
  readonly noHandlerGraceMs: number | null;
  /** How much waiting one priority level is worth. */
  readonly strideMs: number;
  readonly router: Router;
  readonly backoffs: Readonly<Record<string, CustomBackoff>>;
  readonly enqueueMiddleware: readonly EnqueueMiddleware[];
  /** For how long a call is repeated while the store is away. */
  readonly giveUpMs: number;
  /** Networks that are not public and may be told by webhooks. */
  readonly allowPrivate: boolean | readonly string[];
  /** The user's own sink for attempts; null for none. */
  readonly onAttempt: OnAttempt | null;
  /** Null for none. */
  readonly telemetry: Telemetry | null;
  /** Whether this process counts what it does (metrics/). */
  readonly hasMetrics: boolean;
}

/**
 * How long settles are repeated while the store is away. Long, because results are dear and repeating is safe: the
 * lease is renewed meanwhile, and a settle that comes too late is refused by its fence.
 */
const settleGiveUpMs = 600_000;
/** On a server that does calls in order, this many settles do not wait for the call in flight. */
const secondSettlesFrom = 100;

export class Engine {
  readonly store: Store;
  readonly platform: Platform;
  readonly coder: PayloadCoder;
  readonly strideMs: number;
  readonly backoffs: EngineSettings["backoffs"];
  readonly router: Router;
  readonly enqueueMiddleware: readonly EnqueueMiddleware[];
  readonly noHandlerGraceMs: number | null;
  readonly giveUpMs: number;
  readonly allowPrivate: boolean | readonly string[];
  readonly telemetry: Telemetry | null;
  readonly log: Logger;
  /** For lines that one outage would write for every job. */
  readonly repeated: RepeatedLines;
  readonly flush: Flush;
  readonly ids: JobIds;
  readonly retention: StoreRetention;
  readonly limits: LimitsInUse;
  readonly schedules: DefinedSchedules;
  readonly publishing: Publishing;

  readonly submits: Batching<SubmitUnit, SubmitAnswer>;
  readonly settles: Batching<Settle, SettleAnswer>;
  readonly records: Reports;
  readonly changes: Batching<Change, ChangeAnswer>;
  readonly reads: Batching<string, JobRecord | null>;

  readonly handled = new HandledNames();
  readonly planner: JobPlanner;
  readonly submitter: Submitter;
  readonly clocks = new JobClocks();

  /** What this process counts; null where it counts nothing. */
  readonly metrics: MetricRecorder | null;

  /** Told of every attempt of this process that has ended (attempt-observer.ts). */
  readonly attemptObservers: AttemptObserver[] = [];

  readonly webhookDocs: WebhookDocs;

  readonly otherWorkers = new OtherWorkers();

  readonly queuePolicies: QueuePolicies;

  /** Whether this process does the duties that run once per store. */
  readonly leadership: Leadership;

  readonly heartbeat: Heartbeat;

  readonly policies: Policies;

  constructor(given: Store, platform: Platform, settings: EngineSettings, log: Logger) {
    this.platform = platform;
    this.coder = settings.coder;
    this.strideMs = settings.strideMs;
    this.backoffs = settings.backoffs;
    this.router = settings.router;
    this.enqueueMiddleware = settings.enqueueMiddleware;
    this.noHandlerGraceMs = settings.noHandlerGraceMs;
    this.giveUpMs = settings.giveUpMs;
    this.allowPrivate = settings.allowPrivate;
    this.telemetry = settings.telemetry;
    this.log = log;
    this.repeated = new RepeatedLines(this);
    this.metrics = settings.hasMetrics
      ? new MetricRecorder({ store: given, platform, repeated: this.repeated })
      : null;
    const store = this.metrics === null ? given : meteredStore(given, platform, this.metrics);
    this.store = store;
    if (this.metrics !== null) this.attemptObservers.push(this.metrics.ended);
    this.flush = new Flush(platform);
    this.webhookDocs = new WebhookDocs(store);
    this.limits = new LimitsInUse(store);
    this.schedules = new DefinedSchedules(this);
    if (settings.onAttempt !== null) this.attemptObservers.push(observerOfSink(this, settings.onAttempt));
    if (settings.telemetry !== null) this.attemptObservers.push(settings.telemetry.ended);
    this.publishing = new Publishing(this);
    const { partitions = 1 } = store;
    this.ids = new JobIds(platform, partitions);
    const { placement } = this.ids;
    const process = `${platform.hostName}:${platform.processId}:${this.ids.mint()}`;
    this.leadership = new Leadership({ store, platform }, process);
    this.heartbeat = new Heartbeat(this, process);
    this.queuePolicies = new QueuePolicies(this, (queue) => this.policies.queueChanged(queue));
    this.policies = new Policies(settings.codeDefaults, (queue) => this.queuePolicies.of(queue));
    let notKept = "{}";
    this.retention = new StoreRetention(store, settings.retention, ({ feedMs: _feed, ...times }) => {
      const retention = outcomesNotKept(times);
      if (JSON.stringify(retention) === notKept) return;
      notKept = JSON.stringify(retention);
      this.policies.setRetention(retention);
    });
    const shared = {
      platform,
      flush: this.flush,
      weightMax: storeLimits.callItemsMax,
      giveUpMs: settings.giveUpMs,
    };
    const batching = <Item, Answer>(
      options: BatcherOptions<Item, Answer>,
      idOf: (item: Item) => string,
    ): Batching<Item, Answer> =>
      placement === null
        ? new Batcher(options)
        : new PartitionBatcher(options, partitions, (item) => placement.ofId(idOf(item)));
    const submitting: BatcherOptions<SubmitUnit, SubmitAnswer> = {
      ...shared,
      call: (units) => store.submit(units),
      weigh: (unit) => unit.jobs.length,
      // The ids are minted here, so a repeat of a submit that may have happened makes no second job.
      again: (unit) => ({ ...unit, isRepeat: true }),
      failure: (error, { jobs }) =>
        withMintedIds(
          error,
          jobs.map(({ id }) => id),
        ),
    };
    const settling: BatcherOptions<Settle, SettleAnswer> = {
      ...shared,
      giveUpMs: settleGiveUpMs,
      call: (settles) => store.settleIfLeased(settles),
      ...(store.claimsAhead === true && store.claimsOvertake !== true
        ? { secondFrom: secondSettlesFrom }
        : {}),
      weigh: weighSettle,
    };
    const byId = ({ id }: { readonly id: string }): string => id;
    this.submits = batching(submitting, ({ jobs }) => jobs[0]?.id ?? "");
    const { ids, limits, handled, submits } = this;
    this.planner = new JobPlanner({ ...settings, ids, limits, handled });
    this.submitter = new Submitter({ platform, ids, limits, submits, telemetry: settings.telemetry });
    this.settles = batching(settling, byId);
    this.records = new Reports({ ...shared, call: (writes) => store.recordIfLeased(writes) }, (options) =>
      batching(options, byId),
    );
    this.changes = batching<Change, ChangeAnswer>(
      { ...shared, call: (changes) => store.changeIf(changes) },
      byId,
    );
    this.reads = batching({ ...shared, call: (ids) => store.readJobs(ids) }, (id) => id);
  }
}

function weighSettle(settle: Settle): number {
  const jobs: readonly NewJob[] | undefined = settle.effects?.jobs;
  return jobs === undefined ? 1 : 1 + jobs.length;
}
