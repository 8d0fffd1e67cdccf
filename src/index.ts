/** What application code imports. */
import type { Millrace as MillraceClient } from "./client/millrace.ts";
import { openMillrace } from "./open.ts";

/** `await Millrace.open("sqlite:./jobs.db")` */
export const Millrace = { open: openMillrace } as const;
export type Millrace = MillraceClient;

export { job } from "./engine/submit/job-definition.ts";
export type {
  AnySubmission,
  DurableJobDefinition,
  InputOf,
  JobDefinition,
  JobOptions,
  OutOf,
  ResultOf,
  ReturnedOf,
  Submission,
} from "./engine/submit/job-definition.ts";
export type {
  DurableOptions,
  SentOf,
  SignalSchemas,
  SignalsOf,
} from "./engine/durable/durable-definition.ts";
export { StepFailed, WaitTimedOut } from "./worker/durable/durable-errors.ts";
export type { ContextOf, DurableContext, HandlerOptions } from "./worker/durable/durable-handler.ts";
export type {
  ApprovalOptions,
  Arrived,
  Decision,
  ReturningWaitOptions,
  Step,
  StepContext,
  StepOptions,
  TimedOut,
  WaitOptions,
} from "./worker/durable/step.ts";
export { budget } from "./engine/budgets/budget-definition.ts";
export type { Budget, BudgetUse, BudgetUseOptions } from "./engine/budgets/budget-definition.ts";
export type { BudgetBounds, BudgetOptions, OnBreach } from "./model/budgets/budget.ts";
export type { ResetOptions } from "./model/budgets/period.ts";
export type { Hold, Usage, UsageOptions } from "./worker/run/usage.ts";
export type {
  BudgetChange,
  BudgetDetails,
  BudgetKeyOptions,
  BudgetState,
  PeriodSpend,
  RefundOptions,
} from "./client/budgets.ts";
export type { GroupOptions, OfInput } from "./engine/submit/group.ts";
export { flow } from "./engine/flows/flow.ts";
export type { Flow, PlainGraph, ResultsOf } from "./engine/flows/flow.ts";
export type { PlainEdge, PlainNode } from "./engine/flows/plain-flow.ts";
export type {
  AfterOptions,
  FlowDefinitionOptions,
  FlowNode,
  FlowPart,
  GroupOfOptions,
  MapOptions,
  NodeOptions,
  NodeOrName,
  OnFailedJob,
  RaceOptions,
  SubFlowOptions,
} from "./engine/flows/flow-options.ts";
export type { FailedFlow, FailedNode } from "./engine/flows/failed-flow.ts";
export type { Ref, WithRefs } from "./engine/flows/result-refs.ts";
export type { FlowPlace } from "./model/flow/flow-meta.ts";
export type { FlowCounts } from "./model/flow/decide-flow.ts";
export type {
  CancelFlowOptions,
  FlowNodeView,
  FlowRun,
  Flows,
  FlowsPage,
  FlowState,
  FlowView,
  ListFlowsOptions,
  RetryFlowOptions,
} from "./client/flows/flows.ts";
export type { SubmitFlowOptions } from "./engine/flows/submit-options.ts";
export { schedule } from "./engine/schedules/schedule-definition.ts";
export type {
  ScheduleDefinition,
  ScheduleFlowOptions,
  ScheduleOptions,
} from "./engine/schedules/schedule-definition.ts";
export type {
  AnswerResult,
  Approvals,
  TokenLook,
  TokenOptions,
  TokenRefusal,
} from "./client/durable/approvals.ts";
export type {
  BrokenRun,
  CheckedRuns,
  RunStepView,
  RunView,
  Runs,
  WaitingOptions,
  WaitingPage,
  WaitingRun,
} from "./client/durable/runs.ts";
export type { ScheduleView } from "./client/schedules/schedule-view.ts";
export type {
  BackfillOptions,
  BackfillProgress,
  ScheduleEdits,
  Schedules,
} from "./client/schedules/schedules.ts";
export { subscription, topic } from "./engine/topics/topic-definition.ts";
export type {
  JobTaking,
  SubscriptionDefinition,
  SubscriptionOptions,
  TopicDefinition,
  TopicOptions,
} from "./engine/topics/topic-definition.ts";
export type { PublishOptions } from "./engine/topics/publishing.ts";
export type { SubscriptionView, Topics, TopicView } from "./client/topics.ts";
export { verifyWebhook } from "./client/webhooks/verify-webhook.ts";
export type { DeadDelivery, Webhooks, WebhookView } from "./client/webhooks/webhooks.ts";
export type { VerifyOptions } from "./engine/webhooks/signature.ts";
export type { WebhookOptions } from "./model/events/webhook.ts";
export { limit } from "./engine/limits/limit-definition.ts";
export type { Limit, LimitOptions, LimitUse, LimitUseOptions } from "./engine/limits/limit-definition.ts";
export { batchHandler, handler } from "./worker/handler.ts";
export { commandHandler } from "./worker/sandbox/command-handler.ts";
export { fileHandler, programHandler } from "./worker/sandbox/sandbox-handler.ts";
export type {
  CommandInput,
  CommandOptions,
  CommandPlan,
  EndedCommand,
} from "./worker/sandbox/command-options.ts";
export type {
  FileHandlerOptions,
  SandboxOptions,
  ProgramHandlerOptions,
  RecycleOptions,
} from "./worker/sandbox/sandbox-options.ts";
export type {
  BatchFunction,
  BatchOptions,
  Handler,
  HandlerFunction,
  HandlerOf,
  HandlerReturn,
} from "./worker/handler.ts";
export {
  AttemptAborted,
  Cancel,
  RetryAfter,
  Snooze,
  Suspended,
  Throttled,
  Unrecoverable,
} from "./worker/control.ts";
export type { AbortReason, ThrottledOptions } from "./worker/control.ts";
export type { ContextFlow } from "./worker/run/context-flow.ts";
export type {
  ContextAcquireOptions,
  ContextLimits,
  ContextThrottleOptions,
} from "./worker/run/context-limits.ts";
export type { EffectsScope } from "./worker/run/effects-scope.ts";
export type { Fence, JobContext, JobLog } from "./worker/run/job-context.ts";
export type { JobStream } from "./worker/output/job-stream.ts";
export type { Frame, FramesOptions, FrameStream, OutputView } from "./client/open-frames.ts";
export type { Permit } from "./worker/permits/permit.ts";
export type { HandlerMiddleware, HookOutcome, Hooks } from "./worker/middleware.ts";
export type { FailureReport, OnFailed } from "./engine/attempts/failures.ts";
export type { AttemptReport, OnAttempt } from "./engine/attempts/attempt-sink.ts";
export type { StopReport, Worker } from "./worker/worker.ts";
export type { QueueSlots, WorkerOptions } from "./worker/worker-settings.ts";
export { routeAllTo, routeByPrefix } from "./engine/submit/router.ts";
export type { Router } from "./engine/submit/router.ts";
export type { RunningAttempt, RunningStep, RunNote, Telemetry } from "./engine/attempts/telemetry.ts";
export type { EnqueueMiddleware } from "./engine/submit/enqueue-middleware.ts";
export type { EnqueueOptions, RetentionOptions } from "./engine/submit/job-options.ts";
export type { AgeAndCount, KeptOptions } from "./engine/policies/kept-options.ts";
export type { Kv, KvEntry, KvPutOptions, KvWrite } from "./engine/docs/kv.ts";
export type {
  DecidedTimes,
  StoreRetention,
  StoreRetentionOptions,
} from "./engine/policies/store-retention.ts";
export type { LogFields, Logger } from "./engine/log/logger.ts";
export type { DutyPass } from "./engine/duties/duty.ts";
export type { DutyOptions } from "./engine/duties/duty-tuning.ts";
export type { StandardSchema } from "./engine/submit/standard-schema.ts";
export type { CloseReport } from "./client/millrace.ts";
export type { Enqueuer, EnqueuerInTransaction, HandlesOf, PublishedJob } from "./client/jobs/enqueuer.ts";
export type {
  BroadcastTarget,
  KeyedSignalAnswer,
  KeyedSignalOptions,
  SignalAnswer,
  SignalOptions,
  SignalRefusal,
  SignalTarget,
} from "./client/durable/signals.ts";
export { defineConfig } from "./client/millrace-config.ts";
export type { MillraceConfig } from "./client/millrace-config.ts";
export type { MillraceOptions } from "./client/millrace-options.ts";
export type { CallJobOptions } from "./client/jobs/calls.ts";
export type { JobHandle, Peek, WaitForOptions } from "./client/jobs/job-handle.ts";
export type {
  DeleteAnswer,
  DeleteOptions,
  EditJobOptions,
  JobPage,
  Jobs,
  LogLine,
  PageOptions,
  RetryAnswer,
  RetryJobOptions,
  RunNowAnswer,
  RunNowOptions,
  ViewOf,
  WhenOptions,
} from "./client/jobs/jobs.ts";
export type { Answers, CancelAnswer, CancelOptions } from "./client/jobs/cancel-jobs.ts";
export type {
  MetricCounts,
  MetricPoint,
  Metrics,
  MetricsAnswer,
  MetricSeries,
  ReadMetricsOptions,
  StepMetrics,
  StoreCalls,
  Times,
} from "./client/metrics/metrics.ts";
export type { StoreMeasure, StoreRequests } from "./store/store.ts";
export type { QueueGauges } from "./client/metrics/metric-gauges.ts";
export type { CallOptions } from "./engine/calls/call-limit.ts";
export type { JobQuery } from "./client/jobs/job-filter.ts";
export type { AttemptView, JobView } from "./client/jobs/job-view.ts";
export type { QueueCounts } from "./client/jobs/count-jobs.ts";
export type {
  AcquireOptions,
  BoundEdit,
  LimitEdit,
  LimitKeyOptions,
  LimitKeyState,
  LimitsClient,
  LimitState,
  ThrottleOptions,
} from "./client/limits.ts";
export type { QueueEdit } from "./engine/policies/queue-edit.ts";
export { queue } from "./engine/policies/queue-definition.ts";
export type { QueueDefaults, QueueDefinition } from "./engine/policies/queue-definition.ts";
export type { Queues } from "./client/queues/queues.ts";
export type { QueueSettings } from "./client/queues/queue-settings.ts";
export type { DutyView, PartitionDutyView } from "./client/workers/duty-views.ts";
export type { WorkerJob, Workers, WorkerView } from "./client/workers/workers.ts";
export type { EventConditions, EventsOptions, EventStream } from "./client/open-events.ts";
export type { Explanation } from "./client/explain/explain-job.ts";
export type { Held } from "./client/explain/held-view.ts";
export type { Duties, Unreadable } from "./client/workers/duties.ts";
export type { QuarantinedDutyItem, UnreadableItem } from "./client/workers/quarantined.ts";
export { errorCatalogue, isMillraceError, MillraceError } from "./model/error.ts";
export type { ErrorCode, ErrorOutcome } from "./model/error.ts";
export type { AttemptOutcome, AttemptOutput, ErrorRecord } from "./model/job/attempt-log.ts";
export type { CallersConnection } from "./store/callers-connection.ts";
export { duration, type Duration } from "./model/duration.ts";
export { eventCatalogue } from "./model/events/event.ts";
export type { EventName, MillraceEvent } from "./model/events/event.ts";
export type { JobState, TerminalState } from "./model/job/job-state.ts";
export type { Learn, LearnOptions } from "./model/limits/learning.ts";
export type { BoundSettings, LimitSettings, Rate, RateOptions } from "./model/limits/limit.ts";
export type { Priority } from "./model/routing/rank.ts";
export type { BackoffOptions, CustomBackoff, RetryIf, RetryOptions } from "./model/job/retry-policy.ts";
export type { UniqueOptions, UniqueScope } from "./model/job/unique-key.ts";
export type { Codec } from "./codec/codec.ts";
export type { CompressionOptions } from "./codec/compression.ts";
export type { EncryptionOptions } from "./codec/encryption.ts";
export { ObjectsError } from "./store/objects.ts";
export type {
  AzureCredentials,
  BucketCredentials,
  GcsCredentials,
  NamePage,
  Objects,
  ObjectsErrorKind,
  ObjectsOutcome,
  S3Credentials,
} from "./store/objects.ts";
export type { Durability, StoreDescription } from "./store/store.ts";
