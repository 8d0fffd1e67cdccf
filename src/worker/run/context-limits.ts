/** Limits from inside a handler: permits for a part of its work, and what upstream said of one of them. */
import type { Limit } from "../../engine/limits/limit-definition.ts";
import type { Duration } from "../../model/duration.ts";
import type { Permit } from "../permits/permit.ts";

export interface ContextLimits {
  /**
   * As `mill.limits.acquire`: takes permits for a part of the handler's work. They are free again when they are
   * released, or when the process dies; the handler's end does not release them. The wait ends with the attempt's
   * signal.
   *
   * @example
   * await using permit = await context.limits.acquire("printer", { wait: "10s" });
   */
  acquire(limit: Limit | string, options?: ContextAcquireOptions): Promise<Permit>;
  /** As `mill.limits.throttle`: nothing passes the limit, or one key of it, for a while. The handler goes on. */
  throttle(limit: string, options?: ContextThrottleOptions): Promise<void>;
}

/** As for `mill.limits.acquire`. */
export interface ContextAcquireOptions {
  key?: string;
  weight?: number;
  wait?: Duration;
  signal?: AbortSignal;
  lease?: Duration;
}

/** As for `mill.limits.throttle`. */
export interface ContextThrottleOptions {
  key?: string;
  retryAfter?: Duration;
}

/** What the workers of a process call for it. */
export interface WorkerLimits {
  readonly acquire: (limit: Limit | string, options: ContextAcquireOptions) => Promise<Permit>;
  readonly throttle: (limit: string, options: ContextThrottleOptions) => Promise<unknown>;
}

/** @param signal that of the attempt, asked for only if a permit is waited for. */
export function contextLimits(limits: WorkerLimits, signal: () => AbortSignal): ContextLimits {
  return {
    acquire: (limit, options = {}) => {
      const ofAttempt = signal();
      const given = options?.signal;
      // Another value is refused by the call.
      const own = given instanceof AbortSignal ? AbortSignal.any([ofAttempt, given]) : given;
      return limits.acquire(limit, { ...options, signal: own ?? ofAttempt });
    },
    throttle: async (limit, options = {}) => void (await limits.throttle(limit, options)),
  };
}
