/**
 * The pool of a permit acquirer: it claims one permit job for each waiter, and none ahead. Any number may be
 * held. It also tells when a claim has come back, for who tries once and does not wait.
 */
import { permitQueue } from "../../model/limits/permit.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { Pool } from "../claim/pool.ts";

export class PermitPool extends Pool {
  /** A claim that also asks for plain jobs may ask for these only, and somebody tries but once. */
  override readonly isOfDefinition = true;
  readonly #waiters: () => number;
  #sent = 0;
  #answered = 0;
  #looks: { readonly behind: number; readonly run: () => void }[] = [];

  /** @param waiters how many wait for a permit now. */
  constructor(name: string, waiters: () => number) {
    super({ queue: permitQueue, slots: Infinity, names: new Set([name]), jobsPerSlot: 1 });
    this.#waiters = waiters;
  }

  override wanted(): number {
    if (!this.routes.hasDemand) return 0;
    const missing = this.#waiters() - this.waiting - this.arriving;
    return Math.max(0, Math.min(missing, storeLimits.claimJobsMax));
  }

  /** Asked once for each claim that is sent. Whatever it brings starts at once. */
  override starts(): number {
    this.#sent += 1;
    return storeLimits.claimJobsMax;
  }

  override claimed(): void {}

  /** Told once for each claim that was answered, in the order in which they were sent, once its jobs are here. */
  override handedOut(): void {
    this.#answered += 1;
    const over = this.#looks.filter(({ behind }) => this.#answered > behind);
    this.#looks = this.#looks.filter(({ behind }) => this.#answered <= behind);
    for (const { run } of over) run();
  }

  /** Calls `run` when a claim was answered that is sent from now on. */
  afterNextClaim(run: () => void): void {
    this.#looks.push({ behind: this.#sent, run });
  }
}
