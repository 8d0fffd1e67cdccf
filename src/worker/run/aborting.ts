/**
 * Aborts attempts: for a cancel, a timeout, a deadline, a lost lease or a shutdown.
 *
 *   waiting ──cancel──► settled as cancelled        waiting ──lease lost──► dropped
 *
 *   running ──any of the five──► aborted ──the handler ends──► settled by its end (`attempt-end.ts`)
 *                                   └──its grace is over──► abandoned: settled without it, the slot busy until it ends
 *
 * The handler's signal fires once, with the first reason. While an aborted handler ends, its lease is renewed, unless
 * the lease was lost.
 */
import type { Needs } from "../../engine/services.ts";
import type { Attempt } from "./attempt.ts";
import { endByError } from "../settle/attempt-end.ts";
import { cancelDecision, learnCancelReason } from "../settle/cancel-reason.ts";
import type { AbortReason } from "../control.ts";
import type { Leases } from "../lease/leases.ts";
import type { LoopStalls } from "../lease/loop-stalls.ts";
import type { RouteMap } from "../claim/route-map.ts";
import { SharedTimer } from "./shared-timer.ts";

export type AbortingNeeds = Needs<"platform" | "log" | "repeated" | "strideMs" | "backoffs" | "reads">;

export interface AbortingOptions {
  readonly leases: Leases;
  readonly routes: RouteMap;
  readonly stalls: LoopStalls;
  /** How long an aborted handler may take to end. */
  readonly graceMs: number;
  /** Called when the number of abandoned attempts whose handler still runs has changed. */
  readonly abandonedChanged: () => void;
}

export class Aborting {
  readonly graceMs: number;
  readonly #needs: AbortingNeeds;
  readonly #leases: Leases;
  readonly #routes: RouteMap;
  readonly #stalls: LoopStalls;
  readonly #timer: SharedTimer;
  readonly #abandonedChanged: () => void;
  #abandoned = 0;

  constructor(needs: AbortingNeeds, options: AbortingOptions) {
    const { leases, routes, stalls, graceMs, abandonedChanged } = options;
    this.#needs = needs;
    this.#leases = leases;
    this.#routes = routes;
    this.#stalls = stalls;
    this.graceMs = graceMs;
    this.#abandonedChanged = abandonedChanged;
    this.#timer = new SharedTimer(needs.platform);
  }

  /** Abandoned attempts whose handler still runs. */
  get abandoned(): number {
    return this.#abandoned;
  }

  /** Starts the timer of a started attempt, for its timeout or its deadline, whichever comes first. */
  watch(attempt: Attempt): void {
    const { deadlineAt, claimedAt } = attempt.job;
    const { timeoutMs } = attempt.policy;
    if (timeoutMs === null && deadlineAt === null) return;
    const heldMs = (attempt.startedUs - attempt.claimedUs) / 1000;
    const deadlineInMs =
      deadlineAt === null ? Number.POSITIVE_INFINITY : Math.max(0, deadlineAt - claimedAt - heldMs);
    const endsInMs = Math.min(timeoutMs ?? Number.POSITIVE_INFINITY, deadlineInMs);
    this.#timer.set(attempt, attempt.startedUs + endsInMs * 1000);
  }

  unwatch(attempt: Attempt): void {
    this.#timer.clear(attempt);
  }

  cancelHinted(ids: readonly string[]): void {
    for (const id of ids) {
      const attempt = this.#leases.get(id);
      if (attempt !== undefined) this.cancelAsked(attempt);
    }
  }

  cancelAsked(attempt: Attempt): void {
    if (attempt.stay?.isEnding === true) return;
    learnCancelReason(this.#needs, attempt);
    if (attempt.phase !== "waiting") return this.abort(attempt, "cancel");
    this.#dropWaiting(attempt);
    attempt.origin.settling.settle(attempt, cancelDecision(attempt));
  }

  leaseLost(attempt: Attempt): void {
    this.#stalls.warn(this.#needs.log, attempt, this.#routes.titleOf(attempt.job));
    this.#leases.lose(attempt);
    if (attempt.phase !== "waiting") return this.abort(attempt, "lease-lost");
    this.#dropWaiting(attempt);
    this.#leases.end(attempt);
  }

  abort(attempt: Attempt, reason: AbortReason): void {
    if (!attempt.abort(reason)) return;
    this.#timer.set(attempt, this.#needs.platform.monotonicUs() + this.graceMs * 1000);
  }

  /** Its timeout, its deadline or the grace after its abort is over. */
  rang(attempt: Attempt): void {
    if (attempt.phase !== "running") return;
    if (attempt.abortReason !== null) return this.abandon(attempt);
    const { timeoutMs } = attempt.policy;
    const ranMs = (this.#needs.platform.monotonicUs() - attempt.startedUs) / 1000;
    this.abort(attempt, timeoutMs !== null && ranMs >= timeoutMs ? "timeout" : "deadline");
  }

  abandon(attempt: Attempt): void {
    attempt.isAbandoned = true;
    this.#abandoned += 1;
    this.#abandonedChanged();
    this.#needs.log.warn("handler ignored its abort; its slot stays busy until it ends", {
      id: attempt.job.id,
      reason: attempt.abortReason,
    });
    attempt.origin.settling.end(attempt, endByError(this.#needs, attempt, attempt.signal.reason));
  }

  /** The handler of an abandoned attempt has ended after all. */
  abandonedEnded(): void {
    this.#abandoned -= 1;
    this.#abandonedChanged();
  }

  #dropWaiting(attempt: Attempt): void {
    this.#routes.poolOf(attempt.job)?.drop(attempt);
  }
}
