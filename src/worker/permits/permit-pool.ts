/**
 * The pool of a permit acquirer: it claims one permit job for each waiter, and none ahead. Any number of permits may be
 * held. It also reports answered claims, for waiters that try only once.
 */
import { permitQueue } from "../../model/limits/permit.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { Pool } from "../claim/pool.ts";

export class PermitPool extends Pool {
  /** A waiter tries with one claim. That claim must offer the route of permits, and not be spent on plain jobs. */
  override readonly isOfDefinition = true;
  readonly #waiters: () => number;
  #sent = 0;
  #answered = 0;
  #looks: { readonly behind: number; readonly run: () => void }[] = [];

  /** @param waiters the number of waiters now. */
  constructor(name: string, waiters: () => number) {
    super({ queue: permitQueue, slots: Infinity, names: new Set([name]), jobsPerSlot: 1 });
    this.#waiters = waiters;
  }

  override wanted(): number {
    if (!this.routes.hasDemand) return 0;
    const missing = this.#waiters() - this.waiting - this.arriving;
    return Math.max(0, Math.min(missing, storeLimits.claimJobsMax));
  }

  /** Called once for each claim that is sent. All jobs that it brings start at once. */
  override starts(): number {
    this.#sent += 1;
    return storeLimits.claimJobsMax;
  }

  override claimed(): void {}

  /** Called once for each answered claim, in the order in which they were sent, after its jobs were handed out. */
  override handedOut(): void {
    this.#answered += 1;
    const over = this.#looks.filter(({ behind }) => this.#answered > behind);
    this.#looks = this.#looks.filter(({ behind }) => this.#answered <= behind);
    for (const { run } of over) run();
  }

  /** Calls `run` after the answer of a claim that is sent from now on. */
  afterNextClaim(run: () => void): void {
    this.#looks.push({ behind: this.#sent, run });
  }
}
