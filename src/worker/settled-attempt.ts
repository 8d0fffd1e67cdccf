/**
 * What `onSettled` of a worker is told: an attempt that ran, once the store has its end. It costs nothing where nobody
 * asked for it: only then a settle gets a ticket of its own that passes the answer on and tells.
 */
import type { Ticket } from "../engine/batcher.ts";
import type { Engine } from "../engine/engine.ts";
import type { SettleNext } from "../model/change.ts";
import type { EventKind } from "../model/event-kind.ts";
import type { SettleAnswer } from "../store/operations.ts";
import type { Attempt } from "./attempt.ts";

export interface SettledAttempt {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly attempt: number;
  /** The state that the job is in now. */
  readonly state: SettleNext["to"];
  /** What happened, in the words of the feed: completed, failed, retry-scheduled, snoozed, handed-back and so on. */
  readonly event: EventKind;
  /** Why the job ended, for one that ended without completing. */
  readonly reason: string | null;
  /** From its due time to its start. */
  readonly waitedUs: number;
  readonly ranUs: number;
}

export type OnSettled = (settled: SettledAttempt) => void;

export function tellingTicket(
  engine: Engine,
  onSettled: OnSettled,
  attempt: Attempt,
  next: SettleNext,
): Ticket<SettleAnswer> {
  const times = attempt.timesAt(engine.platform.monotonicUs());
  const { name, queue } = attempt.settling.titleOf(attempt);
  return {
    answered(answer) {
      attempt.answered(answer);
      if (answer.kind !== "ok" && answer.kind !== "already") return;
      const { id, attempt: number } = attempt.job;
      const reason = "reason" in next ? next.reason : null;
      try {
        onSettled({ id, name, queue, attempt: number, state: next.to, event: next.event, reason, ...times });
      } catch (error) {
        engine.log.error("onSettled threw; the job is settled all the same", { id, error });
      }
    },
    failed: (error) => attempt.failed(error),
  };
}
