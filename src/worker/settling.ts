/**
 * Settling: from the decision about an ended attempt to the store's answer. Effects ride along; a refused effect makes the attempt a failed
 * one, a cancel that was asked for meanwhile makes it cancelled, and a lease that is gone makes the result a dropped one.
 */
import type { Engine } from "../engine/engine.ts";
import type { Decision } from "../model/after-run.ts";
import { MillraceError } from "../model/error.ts";
import type { SettleAnswer } from "../store/operations.ts";
import type { Route } from "../model/route.ts";
import type { Effects, LeasedJob } from "../store/records.ts";
import type { Attempt } from "./attempt.ts";
import { cancelDecision, learnCancelReason, withCancelReason } from "./cancel-reason.ts";
import { describeEnd } from "./describe-end.ts";
import { endByThrow } from "./run-attempt.ts";

export interface SettlingHost {
  readonly engine: Engine;
  readonly owner: string;
  routeOf(job: LeasedJob): Route | undefined;
  forget(attempt: Attempt): void;
}

export class Settling {
  readonly #host: SettlingHost;
  #count = 0;

  constructor(host: SettlingHost) {
    this.#host = host;
  }

  /** Ended attempts whose settle is not answered yet. */
  get count(): number {
    return this.#count;
  }

  settle(attempt: Attempt, decision: Decision): void {
    attempt.phase = "settling";
    this.#count += 1;
    const { to } = decision.next;
    const draft = to === "completed" ? attempt.effects : to === "failed" ? attempt.failureEffects : null;
    if (draft === null || draft.isEmpty) return this.#whenFree(attempt, decision, undefined);
    const placed = draft.build().then((effects) => this.#host.engine.placed(effects, attempt.job.id));
    placed.then(
      (effects) => this.#whenFree(attempt, decision, effects),
      (error: unknown) => {
        this.#count -= 1;
        this.#effectsRefused(attempt, error);
      },
    );
  }

  answered(attempt: Attempt, answer: SettleAnswer): void {
    this.#count -= 1;
    switch (answer.kind) {
      case "ok":
      case "already":
        break;
      case "cancel-asked":
        learnCancelReason(this.#host.engine, attempt);
        return this.settle(attempt, cancelDecision(attempt));
      case "doc-changed":
      case "id-differs": {
        const message = `An effect was refused: ${answer.kind} (${answer.id}).`;
        return this.#effectsRefused(attempt, new MillraceError("version-conflict", message));
      }
      case "stale":
      case "gone":
        this.#host.engine.log.warn("result dropped: the attempt no longer held its lease", {
          id: attempt.job.id,
          reason: answer.kind,
        });
    }
    this.#host.forget(attempt);
  }

  failed(attempt: Attempt, error: unknown): void {
    this.#count -= 1;
    this.#host.engine.log.error(
      "a settle did not reach the store; the job is reclaimed when its lease ends",
      {
        id: attempt.job.id,
        error,
      },
    );
    this.#host.forget(attempt);
  }

  #whenFree(attempt: Attempt, decision: Decision, effects: Effects | undefined): void {
    if (attempt.isFree) this.#push(attempt, decision, effects);
    else attempt.whenFree(() => this.#push(attempt, decision, effects));
  }

  #push(attempt: Attempt, decision: Decision, effects: Effects | undefined): void {
    const { engine } = this.#host;
    const { id, seq, fence } = attempt.job;
    const { next, attempts } = withCancelReason(attempt, decision);
    if (next.event !== "completed") describeEnd(engine, attempt, decision, this.#host.routeOf(attempt.job));
    const settle = { id, seq, fence, next, attempts };
    engine.settles.push(effects === undefined ? settle : { ...settle, effects }, attempt);
  }

  /** The job ran, but what it wanted to happen with its end was refused: that is a failed attempt, without effects. */
  #effectsRefused(attempt: Attempt, error: unknown): void {
    attempt.effects = attempt.failureEffects = null;
    const end = endByThrow(this.#host, attempt, error);
    if (end === null) this.#host.forget(attempt);
    else this.settle(attempt, end);
  }
}
