/** The settings of one process over its store. They are read from the options of open (client/millrace-options.ts). */
import type { PayloadCoder } from "../codec/payload.ts";
import type { JobPolicy } from "../model/job/job-policy.ts";
import type { CustomBackoff } from "../model/job/retry-policy.ts";
import type { OnAttempt } from "./attempts/attempt-sink.ts";
import type { OnFailed } from "./attempts/failures.ts";
import type { Telemetry } from "./attempts/telemetry.ts";
import type { KeptTimes } from "./policies/store-retention.ts";
import type { EnqueueMiddleware } from "./submit/enqueue-middleware.ts";
import type { Router } from "./submit/router.ts";

export interface ProcessSettings {
  readonly coder: PayloadCoder;
  readonly codeDefaults: JobPolicy;
  /** The retention that this process was opened with; the store's own decides (policies/store-retention.ts). */
  readonly retention: KeptTimes;
  /** How long a ready job may wait if no worker has a handler for its name; null for ever. */
  readonly noHandlerGraceMs: number | null;
  /** How much waiting time one level of priority is worth. */
  readonly strideMs: number;
  readonly router: Router;
  readonly backoffs: Readonly<Record<string, CustomBackoff>>;
  readonly enqueueMiddleware: readonly EnqueueMiddleware[];
  /** For how long a call is repeated while the store is away. */
  readonly giveUpMs: number;
  /** Non-public networks to which webhooks may be delivered. */
  readonly allowPrivate: boolean | readonly string[];
  /** The user's own sink for attempts; null for none. */
  readonly onAttempt: OnAttempt | null;
  /** The user's own hook for jobs that failed for good; null for none. */
  readonly onFailed: OnFailed | null;
  /** Null for none. */
  readonly telemetry: Telemetry | null;
  /** Whether this process counts what it does (metrics/). */
  readonly hasMetrics: boolean;
}
