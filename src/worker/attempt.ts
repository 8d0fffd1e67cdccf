/**
 * One run of one job in this worker, from the claim until its settle is answered.
 *
 *   waiting ──start──► running ──handler ended──► settling ──answered──► ended
 *      │                  └─ignores its abort──► settling (abandoned: the slot stays busy until the handler ends)
 *      └──hand-back──────────────────────────► settling
 *
 * Kept small: nothing is made before it is touched (no AbortController, no effects, no timer for a job without a timeout).
 */
import type { DecidedPolicy } from "../model/job-policy.ts";
import type { SettleAnswer } from "../store/operations.ts";
import type { LeasedJob } from "../store/records.ts";
import type { Ticket } from "../engine/batcher.ts";
import { AttemptAborted } from "./control.ts";
import type { AbortReason } from "./control.ts";
import type { EffectsDraft } from "./effects-draft.ts";
import type { Timed } from "./shared-timer.ts";

export type AttemptPhase = "waiting" | "running" | "settling" | "ended";

/** Whoever runs attempts: told when a timer rings and when a settle is answered. */
export interface AttemptOwner {
  attemptRang(attempt: Attempt): void;
  attemptSettled(attempt: Attempt, answer: SettleAnswer): void;
  attemptUnsettled(attempt: Attempt, error: unknown): void;
}

export class Attempt implements Timed, Ticket<SettleAnswer> {
  readonly job: LeasedJob;
  readonly policy: DecidedPolicy;
  readonly #owner: AttemptOwner;
  phase: AttemptPhase = "waiting";
  /** Monotonic, when the claim was sent. */
  readonly claimedUs: number;
  /** Monotonic, of the claim or the last renewal; the lease is safe until this plus its length. */
  leasedUs: number;
  /** How long the lease lasts from `leasedUs`; longer than the worker's default after an extend by hand. */
  leaseMs: number;
  startedUs = 0;
  isStartReported = false;
  cancelAsked = false;
  /** The attempt log in which the reason of the cancel stands, once it was read. */
  cancelLog: string | null = null;
  isAbandoned = false;
  abortReason: AbortReason | null = null;
  effects: EffectsDraft | null = null;
  failureEffects: EffectsDraft | null = null;
  dueTick = -1;
  #controller: AbortController | null = null;
  #hold: { count: number; settle: (() => void) | null } | null = null;

  constructor(job: LeasedJob, policy: DecidedPolicy, owner: AttemptOwner, leasedUs: number, leaseMs: number) {
    this.job = job;
    this.policy = policy;
    this.#owner = owner;
    this.claimedUs = this.leasedUs = leasedUs;
    this.leaseMs = leaseMs;
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.abortReason !== null) this.#controller.abort(new AttemptAborted(this.abortReason));
    }
    return this.#controller.signal;
  }

  /** Fires once: a later reason does not replace an earlier one. */
  abort(reason: AbortReason): boolean {
    if (this.abortReason !== null || this.phase !== "running") return false;
    this.abortReason = reason;
    this.#controller?.abort(new AttemptAborted(reason));
    return true;
  }

  /**
   * What is on its way and must not be overtaken by the settle: progress and log lines, because they carry the lease that it ends, and the
   * reason of a cancel, because the job ends with it.
   */
  holdSettle(): void {
    this.#hold ??= { count: 0, settle: null };
    this.#hold.count += 1;
  }

  freeSettle(): void {
    const hold = this.#hold;
    if (hold === null || --hold.count > 0) return;
    this.#hold = null;
    hold.settle?.();
  }

  /** The plain case, asked first so that it makes no function. */
  get isFree(): boolean {
    return this.#hold === null;
  }

  /** Only while it is held. */
  whenFree(settle: () => void): void {
    if (this.#hold !== null) this.#hold.settle = settle;
  }

  rang(): void {
    this.#owner.attemptRang(this);
  }

  answered(answer: SettleAnswer): void {
    this.#owner.attemptSettled(this, answer);
  }

  failed(error: unknown): void {
    this.#owner.attemptUnsettled(this, error);
  }
}
