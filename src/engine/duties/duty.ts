/**
 * A duty is one piece of background upkeep: named, separate, able to start and stop, safe to run in several processes at once because
 * every change it makes is guarded. It does one bounded batch per run and says whether more is left.
 */
import type { Quarantine } from "./quarantine.ts";

export interface DutyPass {
  readonly processed: number;
  readonly errors: number;
  /** How many items ended in which way. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** A full batch, or a walk that is not over: run again, at once or after the pause. */
  readonly hasMore: boolean;
  readonly pauseMs?: number;
  /** When the next clock rings, as far as this run could see; null for none, undefined when it does not know. */
  readonly nextInMs?: number | null;
}

export interface Duty {
  readonly name: string;
  /**
   * "clock": the duty that reads the store's next ring and sets the alarm; "alarm": runs when a clock has rung that the clock duty
   * did not serve; "sleep": only by its own period.
   */
  readonly wakes: "clock" | "alarm" | "sleep";
  readonly sleepMaxMs: number;
  /** Items it leaves alone for a while. A duty without one is one call to the store: it has no items, and the supervisor tells of its failures. */
  readonly quarantine?: Quarantine;
  /** @param isAsked by an operator: a duty that one process does for all then does not leave it to another. */
  pass(isAsked?: boolean): Promise<DutyPass>;
}

export const idlePass: DutyPass = { processed: 0, errors: 0, outcomes: {}, hasMore: false };

/** Adds runs up, for a report over several batches. */
export function addPasses(left: DutyPass, right: DutyPass): DutyPass {
  const outcomes: Record<string, number> = { ...left.outcomes };
  for (const [outcome, count] of Object.entries(right.outcomes))
    outcomes[outcome] = (outcomes[outcome] ?? 0) + count;
  return {
    processed: left.processed + right.processed,
    errors: left.errors + right.errors,
    outcomes,
    hasMore: right.hasMore,
    ...(right.nextInMs === undefined ? {} : { nextInMs: right.nextInMs }),
  };
}
