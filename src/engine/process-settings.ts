/** What one process is told of the work of its store when it opens it (client/millrace-options.ts reads it). */
import type { PayloadCoder } from "../codec/payload.ts";
import type { JobPolicy } from "../model/job/job-policy.ts";
import type { CustomBackoff } from "../model/job/retry-policy.ts";
import type { OnAttempt } from "./attempts/attempt-sink.ts";
import type { Telemetry } from "./attempts/telemetry.ts";
import type { KeptTimes } from "./policies/store-retention.ts";
import type { EnqueueMiddleware } from "./submit/enqueue-middleware.ts";
import type { Router } from "./submit/router.ts";

export interface ProcessSettings {
  readonly coder: PayloadCoder;
  readonly codeDefaults: JobPolicy;
  /** What this process was told to keep; the rest is the store's (policies/store-retention.ts). */
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
  /** Networks that are not public and may get webhooks. */
  readonly allowPrivate: boolean | readonly string[];
  /** The user's own sink for attempts; null for none. */
  readonly onAttempt: OnAttempt | null;
  /** Null for none. */
  readonly telemetry: Telemetry | null;
  /** Whether this process counts what it does (metrics/). */
  readonly hasMetrics: boolean;
}
