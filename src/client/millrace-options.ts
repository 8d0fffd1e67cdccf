/** The options of `Millrace.open`: what callers write, and the checked settings. */
import { createPayloadCoder } from "../codec/payload.ts";
import type { Codec } from "../codec/codec.ts";
import type { CompressionOptions } from "../codec/compression.ts";
import type { EncryptionOptions } from "../codec/encryption.ts";
import type { OnAttempt } from "../engine/attempts/attempt-sink.ts";
import type { OnFailed } from "../engine/attempts/failures.ts";
import { readDutyOptions } from "../engine/duties/duty-tuning.ts";
import type { DutyOptions, DutyTuning } from "../engine/duties/duty-tuning.ts";
import type { ProcessSettings } from "../engine/process-settings.ts";
import type { EnqueueMiddleware } from "../engine/submit/enqueue-middleware.ts";
import { readPolicy, readPositive } from "../engine/submit/job-options.ts";
import type { EnqueueOptions } from "../engine/submit/job-options.ts";
import { readKept } from "../engine/policies/kept-options.ts";
import type { KeptOptions } from "../engine/policies/kept-options.ts";
import { checkKnownBackoff, customBackoffOf } from "../engine/submit/known-backoff.ts";
import { guardLogger, silentLogger } from "../engine/log/logger.ts";
import type { Logger } from "../engine/log/logger.ts";
import type { Telemetry } from "../engine/attempts/telemetry.ts";
import { defaultRouter } from "../engine/submit/router.ts";
import type { Router } from "../engine/submit/router.ts";
import type { Duration } from "../model/duration.ts";
import { durationMs } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { checkBoolean, checkOptions, isListOfFunctions } from "../model/option.ts";
import { defaultStrideMs, strictStrideMs } from "../model/routing/rank.ts";
import type { CustomBackoff } from "../model/job/retry-policy.ts";
import { readNetwork } from "../platform/address-guard.ts";
import { consoleLogger } from "../platform/console-logger.ts";
import type { Platform } from "../platform/platform.ts";
import type { BucketCredentials, Objects } from "../store/objects.ts";

/** Options of the store itself. All processes on one store should give the same. */
export interface StoreOptions {
  /**
   * Keeps this store apart from other namespaces of the same server or file: a schema on Postgres, a prefix of all keys
   * on Redis, a file of its own on SQLite. Default: MILLRACE_NAMESPACE, else no namespace.
   */
  namespace?: string;
  /** What an acknowledged write survives: a power loss (strict, default) or only the end of the process (relaxed). */
  durability?: "strict" | "relaxed";
  /** SQLite: whether it works on the calling thread or on a thread of its own. */
  sqlite?: { executor?: "inline" | "thread" };
  /**
   * Postgres: your own pool of the `pg` driver, the schema, the number of connections, a direct URL for LISTEN if the
   * first one leads to a pooler, and how long a call may take.
   */
  postgres?: {
    pool?: unknown;
    schema?: string;
    poolMax?: number;
    listenUrl?: string | null;
    callTimeout?: Duration;
  };
  /**
   * Redis: your own client of the driver, the prefix of all keys, consent to a server that may evict jobs, how long a
   * call may take, the number of partitions, and how many replicas must have a write before it is acknowledged.
   */
  redis?: {
    client?: unknown;
    prefix?: string;
    allowEviction?: boolean;
    callTimeout?: Duration;
    partitions?: number;
    replicas?: number;
  };
  /**
   * A bucket: what to do if another process writes to it (refuse, the default; wait until it is gone; take over at
   * once), a signal that ends that wait, or a read-only view; the folder of the local copy; how long a call may take;
   * what a request and a GiB per month cost. Also the place of the storage: its endpoint, its region, whether the path
   * names the bucket; a function that returns the credentials, otherwise taken from the environment; or four verbs of
   * your own over objects, for the URL `bucket:`.
   */
  bucket?: {
    whenHeld?: "take" | "wait" | "refuse";
    signal?: AbortSignal;
    view?: boolean;
    cacheFolder?: string;
    callTimeout?: Duration;
    prices?: { put?: number; get?: number; list?: number; remove?: number; gib?: number };
    endpoint?: string;
    region?: string;
    pathStyle?: boolean;
    credentials?: () => Promise<BucketCredentials>;
    objects?: Objects;
  };
}

export interface MillraceOptions extends StoreOptions {
  /** Defaults of this code for jobs whose definition and enqueue say nothing. */
  defaults?: Pick<EnqueueOptions, "priority" | "retry" | "timeout" | "ttl" | "keepResult">;
  /**
   * How long finished jobs are kept (completed 7 days, failed 30, others 7) and how many of each queue. The store keeps
   * the longest time and the greatest count that any process gave; `mill.retention.set` lowers them.
   */
  retention?: KeptOptions;
  /**
   * How long the feed of changes is kept; 7 days by default. The store keeps the longest time that any process gave.
   */
  feedRetention?: Duration;
  /**
   * How long a ready job may wait if workers serve its queue but none has a handler for its name:
   * MILLRACE_NO_HANDLER_GRACE by default, else 7 days; false for ever.
   */
  noHandlerGrace?: Duration | false;
  /** How much waiting time one level of priority is worth; 30 s by default, false for strict priority. */
  ageing?: Duration | false;
  /** Names the queue of a job if neither its enqueue nor its definition does; "default" by default. */
  router?: Router;
  /** Backoff functions that jobs may name. */
  backoffs?: Readonly<Record<string, CustomBackoff>>;
  /** Functions that are called around every enqueue. */
  middleware?: readonly EnqueueMiddleware[];
  codec?: Codec;
  encryption?: Pick<EncryptionOptions, "current" | "keys">;
  compression?: CompressionOptions;
  /** The largest encoded input or result; 1 MiB by default. */
  payloadBytesMax?: number;
  /**
   * Background duties of this process: all by default, none with false, or tuned one by one. What is not said here is
   * as the variable MILLRACE_DUTIES says: `webhooks=off, retention.sleep=5m, retention.batch=200`.
   */
  duties?: DutyOptions;
  /**
   * How long a call is repeated while the store is away or silent, from when it was made; 10 s by default. Ends of
   * attempts and duties have bounds of their own.
   */
  giveUp?: Duration;
  /**
   * Called after each attempt of this process, once the store has its end: for StatsD and the like. If it throws or is
   * slow, the job is not affected.
   */
  onAttempt?: OnAttempt;
  /**
   * Called after this process has ended a job as failed or expired: its worker after the last attempt, or one of its
   * duties after a crash loop, a deadline or the like. If it throws or is slow, nothing else is affected.
   *
   * @example
   * Millrace.open(url, { onFailed: ({ id, name, reason }) => pager.alert(`${name} ${id}: ${reason}`) });
   */
  onFailed?: OnFailed;
  /** Observes enqueues and attempts, such as `openTelemetry()` of `millrace/opentelemetry`. */
  telemetry?: Telemetry;
  /** Whether this process counts jobs, attempts and their times for `mill.metrics`; true by default. */
  metrics?: boolean;
  /**
   * Webhooks that this process delivers: `allowPrivate` also allows addresses outside the public internet, all of them
   * or those of some networks (`["10.1.0.0/16"]`).
   */
  webhooks?: { allowPrivate?: boolean | readonly string[] };
  /** False for no log. Default: warnings and errors on standard error. */
  log?: Logger | false;
}

const known = [
  "namespace",
  "durability",
  "sqlite",
  "postgres",
  "redis",
  "bucket",
  "defaults",
  "retention",
  "feedRetention",
  "noHandlerGrace",
  "ageing",
  "router",
  "backoffs",
  "middleware",
  "codec",
  "encryption",
  "compression",
  "payloadBytesMax",
  "duties",
  "giveUp",
  "onAttempt",
  "onFailed",
  "telemetry",
  "metrics",
  "webhooks",
  "log",
];

interface ReadMillraceOptions {
  readonly settings: ProcessSettings;
  readonly duties: DutyTuning;
  readonly log: Logger;
  readonly store: StoreOptions;
}

const dayMs = 86_400_000;
const postgresOptions = ["pool", "schema", "poolMax", "listenUrl", "callTimeout"] as const;
const redisOptions = ["client", "prefix", "allowEviction", "callTimeout", "partitions", "replicas"] as const;
const bucketOptions = [
  ...["whenHeld", "signal", "view", "cacheFolder", "callTimeout", "prices"],
  ...["endpoint", "region", "pathStyle", "credentials", "objects"],
];

export function readMillraceOptions(platform: Platform, options: MillraceOptions): ReadMillraceOptions {
  checkOptions(options, "open", known);
  const { codec, encryption, compression, payloadBytesMax, durability, sqlite } = options;
  oneOf(durability, "durability", ["strict", "relaxed"]);
  if (sqlite !== undefined) checkOptions(sqlite, "open: sqlite", ["executor"]);
  oneOf(sqlite?.executor, "sqlite.executor", ["inline", "thread"]);
  if (options.postgres !== undefined) checkOptions(options.postgres, "open: postgres", postgresOptions);
  if (options.redis !== undefined) checkOptions(options.redis, "open: redis", redisOptions);
  if (options.bucket !== undefined) checkBucket(options.bucket);
  oneOf(options.bucket?.whenHeld, "bucket.whenHeld", ["take", "wait", "refuse"]);
  checkFunctions(options);
  if (encryption !== undefined) checkOptions(encryption, "open: encryption", ["current", "keys"]);
  const defaults = options.defaults ?? {};
  checkOptions(defaults, "open: defaults", ["priority", "retry", "timeout", "ttl", "keepResult"]);
  const codeDefaults = readPolicy(defaults, "open: defaults");
  const backoffs = options.backoffs ?? {};
  checkKnownBackoff(backoffs, customBackoffOf(codeDefaults), "open: defaults");
  return {
    settings: {
      coder: createPayloadCoder({
        ...(codec === undefined ? {} : { codec }),
        ...(payloadBytesMax === undefined ? {} : { maxBytes: payloadBytesMax }),
        ...(encryption === undefined
          ? {}
          : {
              encryption: {
                current: encryption.current,
                keys: encryption.keys,
                randomBytes: (count: number) => platform.randomBytes(count),
              },
            }),
        ...(compression === undefined ? {} : { compression }),
      }),
      codeDefaults,
      retention: {
        ...readKept(options.retention ?? {}, "open: retention"),
        ...(options.feedRetention === undefined
          ? {}
          : { feedMs: durationMs(options.feedRetention, "open: feedRetention") }),
      },
      noHandlerGraceMs: readGrace(options.noHandlerGrace, platform),
      strideMs:
        options.ageing === false
          ? strictStrideMs
          : options.ageing === undefined
            ? defaultStrideMs
            : readPositive(options.ageing, "open: ageing"),
      router: options.router ?? defaultRouter,
      backoffs,
      enqueueMiddleware: options.middleware ?? [],
      giveUpMs: durationMs(options.giveUp ?? 10_000, "open: giveUp"),
      onAttempt: options.onAttempt ?? null,
      onFailed: options.onFailed ?? null,
      telemetry: options.telemetry ?? null,
      hasMetrics: checkBoolean(options.metrics ?? true, "open: metrics"),
      allowPrivate: readAllowed(options.webhooks),
    },
    duties: readDutyOptions(options.duties, platform.readEnv("MILLRACE_DUTIES")),
    log: options.log === false ? silentLogger : guardLogger(options.log ?? consoleLogger),
    store: {
      namespace: options.namespace,
      durability,
      sqlite,
      postgres: options.postgres,
      redis: options.redis,
      bucket: options.bucket,
    },
  };
}

function checkBucket(bucket: NonNullable<StoreOptions["bucket"]>): void {
  checkOptions(bucket, "open: bucket", bucketOptions);
  if (bucket.prices !== undefined)
    checkOptions(bucket.prices, "open: bucket.prices", ["put", "get", "list", "remove", "gib"]);
  const { view, signal, cacheFolder, endpoint, region, pathStyle, credentials, objects } = bucket;
  const wrong = (sentence: string): MillraceError =>
    new MillraceError("invalid-option", `open: bucket.${sentence}`);
  for (const [name, value] of Object.entries({ view, pathStyle }))
    if (value !== undefined) checkBoolean(value, `open: bucket.${name}`);
  for (const [name, value] of Object.entries({ cacheFolder, endpoint, region }))
    if (value !== undefined && (typeof value !== "string" || value === ""))
      throw wrong(`${name} must be a text.`);
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw wrong("signal must be an AbortSignal.");
  if (credentials !== undefined && typeof credentials !== "function")
    throw wrong("credentials must be a function.");
  const verbs = ["put", "get", "list", "remove", "close"] as const;
  if (objects !== undefined && !verbs.every((verb) => typeof objects?.[verb] === "function"))
    throw wrong(`objects must have the functions ${verbs.join(", ")}.`);
}

function readAllowed(given: MillraceOptions["webhooks"]): boolean | readonly string[] {
  const { allowPrivate = false } = checkOptions(given ?? {}, "open: webhooks", ["allowPrivate"]);
  if (typeof allowPrivate === "boolean") return allowPrivate;
  const isNetwork = (text: unknown): boolean => typeof text === "string" && readNetwork(text) !== null;
  if (Array.isArray(allowPrivate) && allowPrivate.every(isNetwork)) return allowPrivate as string[];
  throw new MillraceError(
    "invalid-option",
    'open: webhooks.allowPrivate must be true, false or a list of networks such as "10.1.0.0/16".',
  );
}

function checkFunctions(options: MillraceOptions): void {
  const { router, middleware, backoffs, log, onAttempt, onFailed, telemetry } = options;
  const wrong = (sentence: string): MillraceError => new MillraceError("invalid-option", `open: ${sentence}`);
  if (router !== undefined && typeof router !== "function") throw wrong("router must be a function.");
  if (onAttempt !== undefined && typeof onAttempt !== "function")
    throw wrong("onAttempt must be a function.");
  if (onFailed !== undefined && typeof onFailed !== "function") throw wrong("onFailed must be a function.");
  const calls = ["submit", "followUp", "run", "ended"] as const;
  if (telemetry !== undefined && !calls.every((call) => typeof telemetry?.[call] === "function"))
    throw wrong("telemetry must be what openTelemetry() of millrace/opentelemetry returns.");
  if (middleware !== undefined && !isListOfFunctions(middleware))
    throw wrong("middleware must be a list of functions.");
  if (backoffs !== undefined && (typeof backoffs !== "object" || !isListOfFunctions(Object.values(backoffs))))
    throw wrong("backoffs must be an object of functions.");
  const levels = ["debug", "info", "warn", "error"] as const;
  if (log !== undefined && log !== false && !levels.every((level) => typeof log?.[level] === "function"))
    throw wrong("log must be false or have the functions debug, info, warn and error.");
}

function readGrace(option: Duration | false | undefined, platform: Platform): number | null {
  const variable = platform.readEnv("MILLRACE_NO_HANDLER_GRACE");
  const isFromVariable = option === undefined && variable !== undefined;
  const value = isFromVariable ? (variable === "off" ? false : (variable as Duration)) : option;
  if (value === false) return null;
  return durationMs(
    value ?? 7 * dayMs,
    isFromVariable ? "MILLRACE_NO_HANDLER_GRACE" : "open: noHandlerGrace",
  );
}

function oneOf(value: unknown, name: string, allowed: readonly string[]): void {
  if (value !== undefined && !allowed.includes(value as string)) {
    throw new MillraceError("invalid-option", `open: ${name} must be ${allowed.join(" or ")}.`);
  }
}
