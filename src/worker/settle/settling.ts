/**
 * Settles ended attempts, from the decision to the store's answer.
 *
 *   decided ──effects built, the attempt's own calls answered──► sent ──answered──► over, or decided anew
 *      └──an effect cannot be built──► decided anew: failed
 *
 *   the answer                 and then
 *   ok, already                over
 *   doc-changed, id-differs,   decided anew: the store refused an effect, so the attempt failed, without effects
 *   key-held, above-ceiling,
 *   uncountable
 *   flow-closed                decided anew: cancelled, because its flow ends and takes no more nodes
 *   cancel-asked               decided anew: cancelled
 *   stale, gone                over: the lease was lost, and the result is dropped
 *   none                       over: the settle could not be delivered; the job is reclaimed when its lease ends
 *
 * Effects are part of the settle: they happen with the job's end or not at all.
 */
import type { AttemptObserver } from "../../engine/attempts/attempt-observer.ts";
import type { Needs } from "../../engine/services.ts";
import { afterCancel } from "../../model/job/after-run.ts";
import type { Decision } from "../../model/job/after-run.ts";
import type { EndReason } from "../../model/job/end-reason.ts";
import { MillraceError } from "../../model/error.ts";
import { endRun } from "../../model/durable/end-run.ts";
import { hasMark } from "../../model/durable/durable-marks.ts";
import type { NewEntry } from "../../model/durable/journal-entry.ts";
import { writeEntry } from "../../model/durable/entry-text.ts";
import type { Settle, SettleAnswer } from "../../store/operations.ts";
import type { Effects } from "../../store/records.ts";
import type { Attempt } from "../run/attempt.ts";
import { endByError, handedBack } from "./attempt-end.ts";
import type { AttemptEnd } from "./attempt-end.ts";
import { cancelDecision, learnCancelReason, withCancelReason } from "./cancel-reason.ts";
import { describeEnd } from "./describe-end.ts";
import type { Leases } from "../lease/leases.ts";
import type { LoopStalls } from "../lease/loop-stalls.ts";
import type { RouteMap } from "../claim/route-map.ts";

export type SettlingNeeds = Needs<
  | "platform"
  | "log"
  | "repeated"
  | "ids"
  | "limits"
  | "strideMs"
  | "backoffs"
  | "settles"
  | "records"
  | "reads"
  | "reportFailure"
>;

export interface SettlingOptions {
  readonly leases: Leases;
  readonly routes: RouteMap;
  readonly stalls: LoopStalls;
  /** Called with every attempt whose handler was called, once it is over. */
  readonly observers: readonly AttemptObserver[];
}

export class Settling {
  readonly #needs: SettlingNeeds;
  readonly #leases: Leases;
  readonly #routes: RouteMap;
  readonly #stalls: LoopStalls;
  readonly #observers: readonly AttemptObserver[];
  #count = 0;

  constructor(needs: SettlingNeeds, options: SettlingOptions) {
    this.#needs = needs;
    this.#leases = options.leases;
    this.#routes = options.routes;
    this.#stalls = options.stalls;
    this.#observers = options.observers;
  }

  /** The queue and the name of a job that this worker holds. */
  titleOf(attempt: Attempt): { readonly queue: string; readonly name: string } {
    return this.#routes.titleOf(attempt.job);
  }

  /** Ended attempts whose settle is not answered yet. */
  get count(): number {
    return this.#count;
  }

  end(attempt: Attempt, end: AttemptEnd): void {
    if (attempt.endedUs < 0) attempt.ended(this.#needs.platform.monotonicUs());
    if (end === null) this.#over(attempt);
    else if ("rested" in end) {
      attempt.settled = end.rested;
      this.#over(attempt);
    } else this.settle(attempt, end);
  }

  /** The job goes back unfinished, and no attempt is used up. */
  handBack(attempt: Attempt): void {
    this.settle(attempt, handedBack(this.#needs, attempt));
  }

  settle(attempt: Attempt, decision: Decision): void {
    if (attempt.policy.durable !== null && decision.hasUndone !== true)
      return this.#endRun(attempt, decision);
    this.#settle(attempt, decision);
  }

  /** A bad end of a durable run whose steps have undos: the run is to undo them first. */
  #endRun(attempt: Attempt, decision: Decision): void {
    const { policy, job } = attempt;
    const { strideMs } = this.#needs;
    const run = { policy, durable: job.durable };
    const { next, append } = endRun(run, decision.next, strideMs);
    if (append === undefined) return this.#settle(attempt, { ...decision, next });
    attempt.phase = "settling";
    this.#count += 1;
    const lost = (): void => this.answered(attempt, { kind: "stale" });
    void this.#appendEnding(attempt, decision).then(
      (ended) => {
        if (ended === null) return lost();
        this.#count -= 1;
        this.#settle(attempt, ended);
      },
      (error: unknown) => this.failed(attempt, error),
    );
  }

  /** @returns what is settled after it; null if the lease is lost. */
  async #appendEnding(attempt: Attempt, decision: Decision): Promise<Decision | null> {
    // The reason of a cancel may still be on its way.
    if (attempt.hasCalls) await new Promise<void>((resolve) => attempt.whenCallsEnd(resolve));
    const decided = attempt.cancelAsked ? withCancelReason(attempt, decision) : decision;
    const { policy, job } = attempt;
    const run = { policy, durable: job.durable };
    const { next, append } = endRun(run, decided.next, this.#needs.strideMs);
    const { id, seq, fence } = job;
    const entries = append === undefined ? [] : [writeEntry(append)];
    // By itself, because a store refuses every settle but an end while a cancel is requested.
    const answer = await this.#needs.records.append({ id, seq, fence, entries });
    return typeof answer === "object" && answer.kind === "appended"
      ? { next, attempts: decided.attempts }
      : null;
  }

  #settle(attempt: Attempt, decision: Decision): void {
    attempt.phase = "settling";
    this.#count += 1;
    const { to } = decision.next;
    const draft = to === "completed" ? attempt.effects : to === "failed" ? attempt.failureEffects : null;
    if (draft === null || draft.isEmpty) return this.#sendAfterCalls(attempt, decision, undefined);
    const placed = draft.build().then(async (effects) => {
      // A follow-up must not run before the store knows the limits that it uses.
      await this.#needs.limits.whenMade(effects.jobs ?? []);
      return this.#needs.ids.placed(effects, attempt.job.id);
    });
    placed.then(
      (effects) => this.#sendAfterCalls(attempt, decision, effects),
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
        learnCancelReason(this.#needs, attempt);
        return this.settle(attempt, cancelDecision(attempt));
      case "flow-closed":
        return this.settle(attempt, {
          next: afterCancel(attempt.policy, "flow-closed" satisfies EndReason<"cancelled">),
          attempts: null,
        });
      case "key-held":
      case "doc-changed":
      case "above-ceiling":
      case "uncountable":
      case "id-differs": {
        const message = `An effect was refused: ${answer.kind} (${answer.id}).`;
        return this.#effectsRefused(attempt, new MillraceError("version-conflict", message));
      }
      case "arrived":
      case "stale":
      case "gone":
        this.#stalls.warn(this.#needs.log, attempt, this.#routes.titleOf(attempt.job));
        this.#needs.log.warn("result dropped: the attempt no longer held its lease", {
          id: attempt.job.id,
          reason: answer.kind,
        });
        attempt.settled = null;
    }
    this.#over(attempt);
  }

  failed(attempt: Attempt, error: unknown): void {
    this.#count -= 1;
    const message = "a settle did not reach the store; the job is reclaimed when its lease ends";
    this.#needs.repeated.say("error", message, { id: attempt.job.id, error });
    attempt.settled = null;
    this.#over(attempt);
  }

  #sendAfterCalls(attempt: Attempt, decision: Decision, effects: Effects | undefined): void {
    if (attempt.hasCalls) attempt.whenCallsEnd(() => this.#send(attempt, decision, effects));
    else this.#send(attempt, decision, effects);
  }

  /** The attempt itself is the ticket of its settle: it gets the answer. */
  #send(attempt: Attempt, decision: Decision, effects: Effects | undefined): void {
    const { id, seq, fence } = attempt.job;
    const { next, attempts } = attempt.cancelAsked ? withCancelReason(attempt, decision) : decision;
    if (next.event !== "completed")
      describeEnd(this.#needs.log, attempt, decision, this.#routes.titleOf(attempt.job));
    const plain = { id, seq, fence, next, attempts };
    const settle: Settle =
      attempt.policy.durable === null
        ? plain
        : { ...plain, journal: { seen: null, entries: lastEntries(attempt, decision).map(writeEntry) } };
    attempt.settled = next;
    this.#needs.settles.push(effects === undefined ? settle : { ...settle, effects }, attempt);
  }

  #over(attempt: Attempt): void {
    this.#leases.end(attempt);
    const { reportFailure } = this.#needs;
    if (reportFailure !== null && attempt.settled !== null && !attempt.policy.isPermit) {
      const { id, attempt: number } = attempt.job;
      const { name, queue } = this.titleOf(attempt);
      reportFailure({ id, name, queue, attempt: number, worker: attempt.owner }, attempt.settled);
    }
    if (attempt.startedUs >= 0) for (const observe of this.#observers) observe(attempt);
  }

  /** The job ran, but one of its effects was refused: the attempt has failed, without effects. */
  #effectsRefused(attempt: Attempt, error: unknown): void {
    attempt.effects = attempt.failureEffects = null;
    this.end(attempt, endByError(this.#needs, attempt, error));
  }
}

/** What the journal of a durable run gets with its end. */
function lastEntries({ isMember, job }: Attempt, { next, entry, hasUndone }: Decision): readonly NewEntry[] {
  const entries = entry === undefined ? [] : [entry];
  const isOver = isMember && (next.to === "completed" || hasUndone === true);
  return isOver && hasMark(job.durable, "hasJournal") ? [...entries, over] : entries;
}

const over: NewEntry = { key: "over", body: { kind: "over" } };
