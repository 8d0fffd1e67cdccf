/**
 * What a handler can throw or return to steer its job: it says what should happen next, not that something broke. All
 * of these are Errors, so that no code between the handler and the worker takes one for a value. They are recognized by
 * a brand, not by their class, so that two copies of the package in one process understand each other.
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
  | { readonly kind: "cancel"; readonly reason: string }
  | { readonly kind: "suspended" };

/** What a thrown or returned value asks for; null for any other value, and for a value that throws when it is read. */
export function controlOf(value: unknown): Control | null {
  if (typeof value !== "object" || value === null) return null;
  try {
    return (value as { readonly [brand]?: Control })[brand] ?? null;
  } catch {
    return null;
  }
}

/** Gives an error the control outcome of another one. */
export function withControlOf<Thrown extends Error>(error: Thrown, other: Error): Thrown {
  const control = controlOf(other);
  return control === null ? error : Object.assign(error, { [brand]: control });
}

/** Gives an error that was thrown in another thread or process its control outcome. */
export function withControl(error: Error, control: Control): Error {
  return Object.assign(error, { [brand]: control });
}

function readWhen(when: unknown, what: string): Due {
  return typeof when === "object"
    ? { at: readInstant(when, what), isNamed: true }
    : { inMs: durationMs(when, what) };
}

/** No further attempt can help: the job ends in failed. */
export class Unrecoverable extends Error {
  override readonly name = "Unrecoverable";
  readonly [brand]: Control = { kind: "unrecoverable" };
}

/** Counts as a failed attempt; the next attempt starts at the time given here, not by the backoff. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  readonly [brand]: Control;

  constructor(when: Duration | Date, message = "The handler asked for a retry.", options?: ErrorOptions) {
    super(message, options);
    this[brand] = { kind: "retry-after", due: readWhen(when, "RetryAfter") };
  }
}

export interface ThrottledOptions {
  /** How long upstream said to wait, or until when. If left out, the cooldown grows from one throttle to the next. */
  retryAfter?: Duration | Date;
  /**
   * The key that cools down while the others go on; null for the whole limit. Default: the key of this limit that the
   * job itself takes from, if it has one.
   */
  key?: string | null;
  cause?: unknown;
}

/**
 * An upstream service said "too many" (a 429). The limit, or one key of it, cools down for all processes, and the
 * attempt is given back. A limit may also be given by its name.
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

/** Not now: the job runs again later and the attempt is given back. `new Snooze(0)` releases the job at once. */
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

/** What middleware gets as the outcome of a durable run that rests or goes on elsewhere: it is not over. */
export class Suspended extends Error {
  override readonly name = "Suspended";
  readonly [brand]: Control = { kind: "suspended" };

  constructor() {
    super("The run rests, and goes on later.");
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
