/**
 * Leases renew themselves while jobs run: all of a worker in one call, at a third of their length. The same call reports real starts
 * and brings cancels. While the store is away renewal goes on trying until a lease's end; then its handler is told `lease-lost`.
 *
 * After a claim whose reply was lost, renewal also asks for leases of this worker that it does not know: those jobs are run, not
 * stranded.
 */
import type { Engine } from "../engine/engine.ts";
import { answersWithin } from "../engine/race.ts";
import { isMillraceError } from "../model/error.ts";
import type { Timer } from "../platform/platform.ts";
import { storeLimits } from "../store/limits.ts";
import type { Extend } from "../store/operations.ts";
import type { LeasedJob } from "../store/records.ts";
import type { Aborting } from "./aborting.ts";
import type { Attempt } from "./attempt.ts";

/** A handler that runs longer than this is reported as started: a crash then counts as its attempt. */
const reportAfterMs = 200;
const retryMs = 500;
const patienceMinMs = 100;
/** The duty's backstop fires only after the worker's own timeout and abort grace had their chance. */
const backstopSlackMs = 5000;

export interface RenewalHost {
  readonly owner: string;
  readonly leaseMs: number;
  readonly abortGraceMs: number;
  readonly leases: ReadonlyMap<string, Attempt>;
  readonly aborting: Aborting;
  adopt(jobs: readonly LeasedJob[], leasedUs: number): void;
}

export class Renewal {
  readonly #engine: Engine;
  readonly #host: RenewalHost;
  #timer: Timer | null = null;
  #isRenewing = false;
  #wantsOthers = false;
  /** The call that asks for others is in flight. */
  #isAsking = false;

  constructor(engine: Engine, host: RenewalHost) {
    this.#engine = engine;
    this.#host = host;
  }

  /** Called when a lease is added; a worker without leases has no timer. */
  arm(): void {
    if (this.#timer === null && !this.#isRenewing)
      this.#setTimer(Math.min(reportAfterMs, this.#host.leaseMs / 3));
  }

  /** The reply of a claim was lost: whatever it took is asked for. */
  findLost(): void {
    this.#wantsOthers = true;
    this.#timer?.cancel();
    this.#timer = null;
    this.arm();
  }

  get isLooking(): boolean {
    return this.#wantsOthers || this.#isAsking;
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#wantsOthers = false;
  }

  #setTimer(delayMs: number): void {
    this.#timer = this.#engine.platform.setTimer(delayMs, () => {
      this.#timer = null;
      void this.#renew();
    });
  }

  async #renew(): Promise<void> {
    this.#isRenewing = true;
    let delayMs = this.#host.leaseMs / 3;
    try {
      delayMs = await this.#renewDue();
    } catch (error) {
      this.#wantsOthers ||= this.#isAsking;
      this.#isAsking = false;
      this.#engine.log.warn("leases could not be renewed, trying again", { error });
      delayMs = Math.min(retryMs, this.#host.leaseMs / 6);
    }
    this.#dropExpired();
    this.#isRenewing = false;
    if (this.#host.leases.size > 0 || this.#wantsOthers) this.#setTimer(delayMs);
  }

  /** @returns when to look again. */
  async #renewDue(): Promise<number> {
    const { owner, leaseMs, leases } = this.#host;
    const nowUs = this.#engine.platform.monotonicUs();
    const due: { readonly attempt: Attempt; readonly extend: Extend }[] = [];
    let hasUnreported = false;
    for (const attempt of leases.values()) {
      const isOld = nowUs - attempt.leasedUs >= (attempt.leaseMs - (leaseMs * 2) / 3) * 1000;
      const mustReport = attempt.phase === "running" && !attempt.isStartReported;
      const isReportDue = mustReport && nowUs - attempt.startedUs >= reportAfterMs * 1000;
      hasUnreported ||= mustReport && !isReportDue;
      if (isOld || isReportDue) due.push({ attempt, extend: this.#extendOf(attempt, nowUs) });
    }
    const wantsOthers = this.#wantsOthers;
    // Cleared before the call: a claim that is lost while it is in flight asks again.
    this.#wantsOthers = false;
    this.#isAsking = wantsOthers;
    for (let from = 0; from < due.length || (wantsOthers && from === 0); from += storeLimits.callItemsMax) {
      const chunk = due.slice(from, from + storeLimits.callItemsMax);
      // Others are what the store holds beside everything known here, so all known leases are named.
      const named = wantsOthers && from === 0 ? this.#withKnown(chunk, nowUs) : chunk;
      const call = this.#engine.store.extendIfLeased({
        owner,
        leaseMs,
        leases: named.map(({ extend }) => extend),
        wantsOthers: wantsOthers && from === 0,
      });
      const answer = await answersWithin(this.#engine.platform, call, this.#patienceMs(nowUs));
      for (const [index, { attempt, extend }] of named.entries())
        this.#heed(attempt, extend, answer.answers[index], nowUs);
      if (wantsOthers && from === 0) {
        this.#isAsking = false;
        // Found, not extended: they count as old, so that the next round renews them.
        this.#host.adopt(answer.others, nowUs - (leaseMs * 1000 * 2) / 3);
      }
    }
    return hasUnreported ? Math.min(reportAfterMs, leaseMs / 3) : leaseMs / 6;
  }

  /** Until the first lease ends: after that the handlers must be told, whether the store answers or not. */
  #patienceMs(nowUs: number): number {
    let endsUs = nowUs + this.#host.leaseMs * 1000;
    for (const { leasedUs, leaseMs } of this.#host.leases.values())
      endsUs = Math.min(endsUs, leasedUs + leaseMs * 1000);
    return Math.max(patienceMinMs, (endsUs - nowUs) / 1000);
  }

  #withKnown(
    due: readonly { readonly attempt: Attempt; readonly extend: Extend }[],
    nowUs: number,
  ): { readonly attempt: Attempt; readonly extend: Extend }[] {
    const isNamed = new Set(due.map(({ attempt }) => attempt));
    const rest = [...this.#host.leases.values()].filter((attempt) => !isNamed.has(attempt));
    return [...due, ...rest.map((attempt) => ({ attempt, extend: this.#extendOf(attempt, nowUs) }))];
  }

  #extendOf(attempt: Attempt, nowUs: number): Extend {
    const { id, seq, fence } = attempt.job;
    if (attempt.phase !== "running" || attempt.isStartReported) return { id, seq, fence };
    const startedAgoMs = Math.max(0, Math.round((nowUs - attempt.startedUs) / 1000));
    const { timeoutMs } = attempt.policy;
    const attemptEndsInMs =
      timeoutMs === null ? null : timeoutMs - startedAgoMs + this.#host.abortGraceMs + backstopSlackMs;
    return { id, seq, fence, startedAgoMs, attemptEndsInMs };
  }

  #heed(
    attempt: Attempt,
    extend: Extend,
    answer: "ok" | "cancel-asked" | "stale" | "gone" | undefined,
    nowUs: number,
  ): void {
    // Settled meanwhile: its own answer counts.
    if (this.#host.leases.get(attempt.job.id) !== attempt) return;
    if (answer === "stale" || answer === "gone") {
      if (attempt.phase !== "settling") this.#host.aborting.leaseLost(attempt);
      return;
    }
    if (attempt.leasedUs + attempt.leaseMs * 1000 < nowUs + this.#host.leaseMs * 1000) {
      attempt.leasedUs = nowUs;
      attempt.leaseMs = this.#host.leaseMs;
    }
    if (extend.startedAgoMs !== undefined) attempt.isStartReported = true;
    if (answer === "cancel-asked") this.#host.aborting.cancelAsked(attempt);
  }

  #dropExpired(): void {
    const nowUs = this.#engine.platform.monotonicUs();
    for (const attempt of [...this.#host.leases.values()]) {
      const isOver = nowUs - attempt.leasedUs > attempt.leaseMs * 1000;
      if (isOver && attempt.phase !== "settling") this.#host.aborting.leaseLost(attempt);
    }
  }
}

/** Whether a failed claim may have happened all the same. */
export function mayHaveHappened(error: unknown): boolean {
  return !isMillraceError(error) || error.outcome === "unknown";
}
