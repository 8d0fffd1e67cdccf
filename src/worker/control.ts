/**
 * What a handler can throw or return to steer its job. Small classes of their own, no errors of Millrace: they say what
 * shall happen next, not that something broke.
 */
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { notYetSupported } from "../model/error.ts";
import { readInstant } from "../engine/job-options.ts";

/** No further attempt can help: the job ends in failed. */
export class Unrecoverable extends Error {
  override readonly name = "Unrecoverable";
}

/** Counts as a failed attempt; the next one comes at the time named here instead of by the backoff. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  readonly due: { readonly inMs: number } | { readonly at: number };

  constructor(when: Duration | Date, message = "The handler asked for a retry.", options?: ErrorOptions) {
    super(message, options);
    this.due =
      typeof when === "object"
        ? { at: readInstant(when, "RetryAfter") }
        : { inMs: durationMs(when, "RetryAfter") };
  }
}

/** Not now: the job comes again later and the attempt is given back. `new Snooze(0)` releases the job at once. */
export class Snooze {
  readonly delayMs: number;

  constructor(delay: Duration) {
    this.delayMs = durationMs(delay, "Snooze");
  }
}

/** The job is no longer wanted: it ends in cancelled. */
export class Cancel {
  readonly reason: string;

  constructor(reason = "by-handler") {
    this.reason = reason.slice(0, 200);
  }
}

/** Later, with limits: refused when it is made, so that nobody believes it acts. */
export class Throttled {
  constructor(..._scopeAndOptions: readonly unknown[]) {
    throw notYetSupported("Throttled");
  }
}

/** Later, with signals: refused when it is made, so that nobody believes it acts. */
export class Suspend {
  constructor(..._conditions: readonly unknown[]) {
    throw notYetSupported("Suspend");
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
