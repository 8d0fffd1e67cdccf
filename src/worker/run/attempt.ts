/**
 * One run of one job in this worker, from the claim until its settle is answered.
 *
 *   waiting ──start──► running ──handler ended──► settling ──answered──► ended
 *      │                  ├──ignores its abort──► settling (abandoned: the slot stays busy until the handler ends)
 *      │                  └──lease lost, handler ended──────────────────► ended (nothing to settle)
 *      ├──hand-back, cancel───────────────────► settling
 *      └──lease lost────────────────────────────────────────────────────► ended
 *
 * Kept small: nothing is made before it is used (no AbortController, no effects, no timer for a job without a timeout).
 */
import type { ObservedAttempt } from "../../engine/attempts/attempt-observer.ts";
import type { SettleNext } from "../../model/job/change.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import type { AttemptOutput, Spent } from "../../model/job/attempt-log.ts";
import { rootOf } from "../../model/flow/flow-meta.ts";
import type { DecidedPolicy } from "../../model/job/job-policy.ts";
import type { SettleAnswer } from "../../store/operations.ts";
import type { LeasedJob } from "../../store/records.ts";
import type { Ticket } from "../../engine/calls/batcher.ts";
import type { Aborting } from "./aborting.ts";
import { AttemptAborted } from "../control.ts";
import type { AbortReason } from "../control.ts";
import type { EffectsDraft } from "./effects-draft.ts";
import type { FrameWriter } from "../output/frame-writer.ts";
import type { Settling } from "../settle/settling.ts";
import type { Timed } from "./shared-timer.ts";

export type AttemptPhase = "waiting" | "running" | "settling" | "ended";

/** What the attempts of one claim share: one object for all of them, because there are up to 500. */
export interface AttemptOrigin {
  /** The worker that holds the leases. */
  readonly owner: string;
  /** Monotonic, when the claim was sent. */
  readonly leasedUs: number;
  readonly leaseMs: number;
  /** Settles ended attempts. */
  readonly settling: Settling;
  /** Aborts handlers. */
  readonly aborting: Aborting;
}

/** What others ask of the stay of a durable run in this process. */
export interface Stay {
  /** The last number of its journal that is known here. */
  readonly known: number;
  /** It undoes its steps, so no cancel has anything left to do. */
  readonly isEnding: boolean;
  /** Its journal may hold more. */
  heard(last?: number): void;
  /** The worker stops. */
  drain(): void;
}

export class Attempt implements Timed, Ticket<SettleAnswer>, ObservedAttempt {
  /** As it was claimed, and as the run of a durable job has changed it since. */
  job: LeasedJob;
  /** Whether the job belongs to a flow, by its id. Kept, because it is asked three times. */
  readonly isMember: boolean;
  /** Includes what operators have set for its queue, as far as it is known here. */
  policy: DecidedPolicy;
  readonly origin: AttemptOrigin;
  phase: AttemptPhase = "waiting";
  /** Whether the worker holds the lease, as far as it knows. Set by `Leases`. */
  isHeld = false;
  /** A call that extends the lease is in flight, so no second one is sent. */
  isBeingExtended = false;
  /** Monotonic, when its handler was called; -1 before that. */
  startedUs = -1;
  /** Monotonic, when its end was decided; -1 before that. */
  endedUs = -1;
  /**
   * Set when it ends: how long the job waited for its handler after it was due, how long the handler ran, and the whole
   * time since the submit.
   */
  waitedUs = 0;
  ranUs = 0;
  totalUs = 0;
  /** The change that its settle asks for; null before that, and for a lost attempt. */
  settled: SettleNext | null = null;
  isStartReported = false;
  cancelAsked = false;
  /** The attempt log that has the reason of the cancel, once it was read. */
  cancelLog: string | null = null;
  isAbandoned = false;
  abortReason: AbortReason | null = null;
  effects: EffectsDraft | null = null;
  failureEffects: EffectsDraft | null = null;
  /** What the job has used of budgets, once this attempt has used some; null for nothing. */
  spent: Spent | null = null;
  /** What a handler in a sandbox has printed. */
  output: AttemptOutput | null = null;
  dueTick = -1;
  /** The stay of a durable run; null for a plain job, and before its handler begins. */
  stay: Stay | null = null;
  /** Writes its frames; null until the handler has used `stream`. */
  frames: FrameWriter | null = null;
  #leaseEndsUs: number;
  #controller: AbortController | null = null;
  #pending: { count: number; settle: (() => void) | null } | null = null;

  constructor(job: LeasedJob, policy: DecidedPolicy, origin: AttemptOrigin) {
    this.job = job;
    this.isMember = rootOf(job.id) !== null;
    this.policy = policy;
    this.origin = origin;
    this.#leaseEndsUs = origin.leasedUs + origin.leaseMs * 1000;
  }

  /** A durable run has got further: its attempts count anew. */
  setBack(): void {
    // The store empties the log; the end of this stay writes again what was spent.
    this.spent ??= readAttemptLog(this.job.attempts).spent ?? null;
    this.job = { ...this.job, attempt: 1, attempts: null };
  }

  spend(budget: string, amount: number): void {
    const spent = this.spent ?? readAttemptLog(this.job.attempts).spent ?? {};
    const before = Object.hasOwn(spent, budget) ? (spent[budget] ?? 0) : 0;
    this.spent = { ...spent, [budget]: before + amount };
  }

  /** A durable run has set these marks. */
  mark(marks: number): void {
    const { durable } = this.job;
    if ((durable | marks) !== durable) this.job = { ...this.job, durable: durable | marks };
  }

  get owner(): string {
    return this.origin.owner;
  }

  /** Monotonic, when the claim was sent. */
  get claimedUs(): number {
    return this.origin.leasedUs;
  }

  start(nowUs: number): void {
    this.phase = "running";
    this.startedUs = nowUs;
  }

  /**
   * Its end was decided; a second decision changes no times. They are computed now, for the attempt record and the
   * observers, because the job's own fields are no longer in the CPU cache when the settle is answered.
   */
  ended(nowUs: number): void {
    if (this.endedUs >= 0) return;
    const { dueAt, createdAt, claimedAt } = this.job;
    // Until the claim by the store's clock, then by this process's monotonic clock, which is finer and is never set
    // back. An attempt that never began has waited until now.
    const startedUs = this.startedUs < 0 ? nowUs : this.startedUs;
    const heldUs = nowUs - this.origin.leasedUs;
    this.endedUs = nowUs;
    this.ranUs = nowUs - startedUs;
    this.waitedUs = Math.max(0, claimedAt - Math.max(dueAt, createdAt)) * 1000 + heldUs - this.ranUs;
    this.totalUs = Math.max(0, claimedAt - createdAt) * 1000 + heldUs;
  }

  get endedAt(): number {
    return this.storeTimeAt(this.endedUs);
  }

  /** An estimate of the store's time: the time of the claim plus how long the worker has held the job. */
  storeTimeAt(us: number): number {
    return this.job.claimedAt + Math.round((us - this.claimedUs) / 1000);
  }

  get title(): { readonly queue: string; readonly name: string } {
    return this.origin.settling.titleOf(this);
  }

  /** Monotonic: the lease is safe until then. */
  get leaseEndsUs(): number {
    return this.#leaseEndsUs;
  }

  /** A lease is never made shorter: after a long extension by hand the usual renewals change nothing. */
  leaseExtended(endsUs: number): void {
    if (endsUs > this.#leaseEndsUs) this.#leaseEndsUs = endsUs;
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.abortReason !== null) this.#controller.abort(new AttemptAborted(this.abortReason));
    }
    return this.#controller.signal;
  }

  /** Its timeout, its deadline or the end of its grace has a timer. */
  get hasTimer(): boolean {
    return this.dueTick >= 0;
  }

  /** Fires once: a later reason does not replace an earlier one. */
  abort(reason: AbortReason): boolean {
    if (this.abortReason !== null || this.phase !== "running") return false;
    this.abortReason = reason;
    this.#controller?.abort(new AttemptAborted(reason));
    return true;
  }

  /**
   * A store call of this attempt has begun that the settle must not overtake: progress, log lines and output, because
   * they carry the lease that the settle ends; or the reading of a cancel's reason, because the settle carries it.
   */
  callBegins(): void {
    this.#pending ??= { count: 0, settle: null };
    this.#pending.count += 1;
  }

  callEnds(): void {
    const pending = this.#pending;
    if (pending === null || --pending.count > 0) return;
    this.#pending = null;
    pending.settle?.();
  }

  /** Asked before `whenCallsEnd`: most attempts make no calls, and then no function is created. */
  get hasCalls(): boolean {
    return this.#pending !== null;
  }

  /** Call only if `hasCalls`. */
  whenCallsEnd(settle: () => void): void {
    if (this.#pending === null) return;
    this.#pending.settle = settle;
    this.frames?.hurry();
  }

  /** Its timeout, its deadline or its grace is over. */
  rang(): void {
    this.origin.aborting.rang(this);
  }

  /** Its settle was answered. */
  answered(answer: SettleAnswer): void {
    this.origin.settling.answered(this, answer);
  }

  /** Its settle did not reach the store. */
  failed(error: unknown): void {
    this.origin.settling.failed(this, error);
  }
}
