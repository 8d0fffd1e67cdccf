/**
 * How long the event loop of this process stood still, measured by how late the renewal's own timer rings: a handler
 * that computes without a pause, or a process that was stopped. Nothing is renewed meanwhile, so leases are lost
 * although their worker lives; whoever finds one lost asks here, to say the true cause.
 */
import type { Logger } from "../../engine/log/logger.ts";
import type { Attempt } from "../run/attempt.ts";

/** Shorter ones cost no lease: renewal begins when a third of it is over. */
const leaseShare = 1 / 3;

export class LoopStalls {
  readonly #look: () => void;
  #endedUs = 0;
  #lengthUs = 0;

  /** @param look notes timers that should have rung by now: a loop that goes on comes to other things first. */
  constructor(look: () => void) {
    this.#look = look;
  }

  /** A timer of leases of this length is so much behind its time. Of several stalls only the last is remembered. */
  isLate(nowUs: number, lateUs: number, leaseMs: number): void {
    if (lateUs < leaseMs * 1000 * leaseShare) return;
    this.#endedUs = nowUs;
    this.#lengthUs = lateUs;
  }

  /** Tells of an attempt that lost its lease, if the loop stood still while it had it. */
  tell(
    log: Logger,
    { job, claimedUs, phase }: Attempt,
    { queue, name }: { readonly queue?: string; readonly name?: string },
  ): void {
    // Jobs that only waited here are innocent, and may be many.
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
