/**
 * What a handler can throw or return to steer its job: it says what shall happen next, not that something broke. All
 * are Errors, so that nothing between the handler and the worker mistakes one for a value, and all are known by a brand
 * and not by their class, so that two copies of the package in one process understand each other.
 */
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import type { Due } from "../model/job/change.ts";
import { checkName } from "../model/name.ts";
import { checkOptions } from "../model/option.ts";
import { readInstant } from "../model/instant.ts";
import { isLimit } from "../engine/limits/limit-definition.ts";
import type { Limit } from "../engine/limits/limit-definition.ts";

const brand: unique symbol = Symbol.for("millrace.control");

export type Control =
  | { readonly kind: "unrecoverable" }
  | { readonly kind: "retry-after"; readonly due: Due }
  | { readonly kind: "snooze"; readonly delayMs: number }
  | {
      readonly kind: "throttled";
      readonly limit: Limit | string;
      /** Undefined: the job's own key, if it has one of this limit. Null: the whole limit. */
      readonly key: string | null | undefined;
      readonly due: Due | null;
    }
  | { readonly kind: "cancel"; readonly reason: string };

/**
 * What a thrown or returned value asks for; null for any other value, also for one that throws when it is looked at.
 */
export function controlOf(value: unknown): Control | null {
  if (typeof value !== "object" || value === null) return null;
  try {
    return (value as { readonly [brand]?: Control })[brand] ?? null;
  } catch {
    return null;
  }
}

/** The same error as a control outcome: for one that was thrown in another thread or process. */
export function withControl(error: Error, control: Control): Error {
  return Object.assign(error, { [brand]: control });
}

function readWhen(when: unknown, what: string): Due {
  return typeof when === "object" ? { at: readInstant(when, what) } : { inMs: durationMs(when, what) };
}

/** No further attempt can help: the job ends in failed. */
export class Unrecoverable extends Error {
  override readonly name = "Unrecoverable";
  readonly [brand]: Control = { kind: "unrecoverable" };
}

/** Counts as a failed attempt; the next one comes at the time named here instead of by the backoff. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  readonly [brand]: Control;

  constructor(when: Duration | Date, message = "The handler asked for a retry.", options?: ErrorOptions) {
    super(message, options);
    this[brand] = { kind: "retry-after", due: readWhen(when, "RetryAfter") };
  }
}

export interface ThrottledOptions {
  /**
   * How long upstream said to wait, or until when; left out, the limit cools down longer from one throttle to the next.
   */
  retryAfter?: Duration | Date;
  /**
   * The key that cools down, while the others go on: that of the job itself by default, where it takes from a key of
   * this limit. Null for the whole limit.
   */
  key?: string | null;
  cause?: unknown;
}

/**
 * Somebody upstream said "too many" (a 429): the limit, or one key of it, cools down for all processes, and the attempt
 * is given back. The limit may be named by its name alone.
 */
export class Throttled extends Error {
  override readonly name = "Throttled";
  readonly [brand]: Control;

  constructor(limit: Limit | string, options: ThrottledOptions = {}) {
    const name = isLimit(limit) ? limit.name : checkName(limit, "Throttled: limit");
    const { retryAfter, cause, key } = checkOptions(options, "Throttled", ["retryAfter", "key", "cause"]);
    super(`The limit ${JSON.stringify(name)} was throttled.`, cause === undefined ? undefined : { cause });
    const due = retryAfter === undefined ? null : readWhen(retryAfter, "Throttled: retryAfter");
    const scope = key === undefined || key === null ? key : checkName(key, "Throttled: key");
    this[brand] = { kind: "throttled", limit, key: scope, due };
  }
}

/** Not now: the job comes again later and the attempt is given back. `new Snooze(0)` releases the job at once. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  readonly [brand]: Control;

  constructor(delay: Duration) {
    super("The handler asked to be called again later.");
    this[brand] = { kind: "snooze", delayMs: durationMs(delay, "Snooze") };
  }
}

/** The job is no longer wanted: it ends in cancelled. */
export class Cancel extends Error {
  override readonly name = "Cancel";
  readonly [brand]: Control;

  constructor(reason = "by-handler") {
    super(reason);
    this[brand] = { kind: "cancel", reason: reason.slice(0, 200) };
  }
}

export type AbortReason = "cancel" | "timeout" | "deadline" | "lease-lost" | "shutdown";

const abortMessages: Readonly<Record<AbortReason, string>> = {
  cancel: "The job was cancelled.",
  timeout: "The attempt ran longer than its timeout.",
  deadline: "The job met its deadline.",
  "lease-lost": "The attempt lost its lease; another worker may run the job.",
  shutdown: "The worker is shutting down.",
};

/** The reason of a handler's AbortSignal. */
export class AttemptAborted extends Error {
  override readonly name = "AttemptAborted";
  readonly reason: AbortReason;

  constructor(reason: AbortReason) {
    super(abortMessages[reason]);
    this.reason = reason;
  }
}
