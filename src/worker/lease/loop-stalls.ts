/**
 * Measures how long the event loop of this process stood still, by how late the renewal's own timer fires: a handler
 * computed without a pause, or the process was stopped. Meanwhile nothing is renewed, so leases are lost although their
 * worker lives. The warning about a lost lease then names this cause.
 */
import type { Logger } from "../../engine/log/logger.ts";
import type { Attempt } from "../run/attempt.ts";

/** Shorter stalls cost no lease: renewal begins when a third of a lease is over. */
const leaseShare = 1 / 3;

export class LoopStalls {
  readonly #look: () => void;
  #endedUs = 0;
  #lengthUs = 0;

  /** @param look reports overdue timers: after a stall the event loop may run other code before the timer. */
  constructor(look: () => void) {
    this.#look = look;
  }

  /** A timer of leases of this length fired late by `lateUs`. Only the last stall is remembered. */
  isLate(nowUs: number, lateUs: number, leaseMs: number): void {
    if (lateUs < leaseMs * 1000 * leaseShare) return;
    this.#endedUs = nowUs;
    this.#lengthUs = lateUs;
  }

  /** Warns that an attempt has lost its lease, if the event loop stood still while the attempt held it. */
  warn(
    log: Logger,
    { job, claimedUs, phase }: Attempt,
    { queue, name }: { readonly queue?: string; readonly name?: string },
  ): void {
    // Jobs that only waited here did not cause the stall, and may be many.
    if (phase === "waiting") return;
    this.#look();
    if (this.#lengthUs === 0 || this.#endedUs < claimedUs) return;
    const stoodStillMs = Math.round(this.#lengthUs / 1000);
    log.warn(
      "lease lost because the event loop of this process stood still; the job may run again elsewhere",
      {
        id: job.id,
        ...{ name, queue, attempt: job.attempt, stoodStillMs },
      },
    );
  }
}
