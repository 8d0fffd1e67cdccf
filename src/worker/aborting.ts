/**
 * Telling attempts to stop: a cancel, a timeout, a deadline, a lost lease, a shutdown. The handler's signal fires once and it gets its grace to
 * unwind, with the lease renewed meanwhile; one that ignores its signal past the grace is abandoned: settled without it, its slot busy until
 * it ends.
 */
import type { Engine } from "../engine/engine.ts";
import type { LeasedJob } from "../store/records.ts";
import type { Attempt } from "./attempt.ts";
import { cancelDecision, learnCancelReason } from "./cancel-reason.ts";
import type { AbortReason } from "./control.ts";
import { endByThrow } from "./run-attempt.ts";
import type { Settling } from "./settling.ts";
import { SharedTimer } from "./shared-timer.ts";

export interface AbortingHost {
  readonly engine: Engine;
  readonly owner: string;
  readonly abortGraceMs: number;
  readonly leases: Map<string, Attempt>;
  readonly settling: Settling;
  /** Takes an attempt that has not started out of its pool. */
  dropWaiting(attempt: Attempt): void;
  forget(attempt: Attempt): void;
}

/** More leases than any worker loses within one lease's length. */
const givenUpMax = 10_000;

export class Aborting {
  readonly #host: AbortingHost;
  readonly #timer: SharedTimer;
  /** Leases lost, as id:fence. Their handler may have run with that fence, or may still run: they are never taken up again. */
  readonly #givenUp = new Set<string>();

  constructor(host: AbortingHost) {
    this.#host = host;
    this.#timer = new SharedTimer(host.engine.platform);
  }

  /** Counts from the real start: the earlier of timeout and deadline. */
  watch(attempt: Attempt): void {
    const { deadlineAt, claimedAt } = attempt.job;
    const heldMs = (attempt.startedUs - attempt.claimedUs) / 1000;
    const deadlineInMs =
      deadlineAt === null ? Number.POSITIVE_INFINITY : Math.max(0, deadlineAt - claimedAt - heldMs);
    const endsInMs = Math.min(attempt.policy.timeoutMs ?? Number.POSITIVE_INFINITY, deadlineInMs);
    if (endsInMs !== Number.POSITIVE_INFINITY) this.#timer.set(attempt, attempt.startedUs + endsInMs * 1000);
  }

  unwatch(attempt: Attempt): void {
    this.#timer.clear(attempt);
  }

  cancelHinted(ids: readonly string[]): void {
    for (const id of ids) {
      const attempt = this.#host.leases.get(id);
      if (attempt !== undefined) this.cancelAsked(attempt);
    }
  }

  cancelAsked(attempt: Attempt): void {
    learnCancelReason(this.#host.engine, attempt);
    if (attempt.phase !== "waiting") return this.abort(attempt, "cancel");
    this.#host.dropWaiting(attempt);
    this.#host.settling.settle(attempt, cancelDecision(attempt));
  }

  leaseLost(attempt: Attempt): void {
    const { leases } = this.#host;
    const { id, fence } = attempt.job;
    this.#givenUp.add(`${id}:${fence}`);
    if (this.#givenUp.size > givenUpMax) this.#givenUp.delete(this.#givenUp.values().next().value as string);
    if (attempt.phase === "waiting") {
      this.#host.dropWaiting(attempt);
      return this.#host.forget(attempt);
    }
    if (attempt.phase === "running" && leases.get(id) === attempt) leases.delete(id);
    this.abort(attempt, "lease-lost");
  }

  wasGivenUp({ id, fence }: LeasedJob): boolean {
    return this.#givenUp.has(`${id}:${fence}`);
  }

  abort(attempt: Attempt, reason: AbortReason): void {
    if (!attempt.abort(reason)) return;
    const { engine, abortGraceMs } = this.#host;
    this.#timer.set(attempt, engine.platform.monotonicUs() + abortGraceMs * 1000);
  }

  /** A timeout, a deadline, or the end of the grace after an abort. */
  rang(attempt: Attempt): void {
    if (attempt.phase !== "running") return;
    if (attempt.abortReason !== null) return this.abandon(attempt);
    const { timeoutMs } = attempt.policy;
    const ranMs = (this.#host.engine.platform.monotonicUs() - attempt.startedUs) / 1000;
    this.abort(attempt, timeoutMs !== null && ranMs >= timeoutMs ? "timeout" : "deadline");
  }

  abandon(attempt: Attempt): void {
    const { engine, settling } = this.#host;
    attempt.isAbandoned = true;
    engine.log.warn("handler ignored its abort; its slot stays busy until it ends", {
      id: attempt.job.id,
      reason: attempt.abortReason,
    });
    const end = endByThrow(this.#host, attempt, attempt.signal.reason);
    if (end === null) this.#host.forget(attempt);
    else settling.settle(attempt, end);
  }
}
