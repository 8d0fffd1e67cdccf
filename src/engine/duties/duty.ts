/**
 * A duty is one piece of background upkeep: it has a name, starts and stops, and is safe in several processes at once,
 * because every change it makes is guarded. One pass is one bounded batch, and says whether more is left.
 */
import type { Quarantine } from "./quarantine.ts";
import { addByPartition } from "../../store/partitioned/by-partition.ts";
import type { ByPartition } from "../../store/partitioned/by-partition.ts";

export interface DutyPass {
  readonly processed: number;
  /** How many of them lie in which partition, as far as that is known; left out on a store of one. */
  readonly processedIn?: ByPartition;
  readonly errors: number;
  /** The partitions of the store that the pass skipped because they fail; left out if there are none. */
  readonly missing?: readonly number[];
  /** How many items ended in which way. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** True after a full batch and inside a walk: the next pass follows at once, or after `pauseMs`. */
  readonly hasMore: boolean;
  readonly pauseMs?: number;
  /**
   * The time until the next clock that this pass saw; null if there is none, undefined for a duty that does not read
   * clocks.
   */
  readonly nextInMs?: number | null;
  /** If that clock is due already: the time until the next one after it, if the store knows it. */
  readonly hiddenInMs?: number;
}

export interface Duty {
  readonly name: string;
  /**
   * What starts the next pass. "clock": this duty reads when the next clock is due and sets the alarm. "alarm": a clock
   * is due that promoting does not serve. "sleep": only the end of its own sleep.
   */
  readonly wakes: "clock" | "alarm" | "sleep";
  readonly sleepMaxMs: number;
  /** It serves the due times of documents. */
  readonly servesDocs?: true;
  /**
   * Items that the duty quarantines for a while. A duty without a quarantine makes one call to the store and has no
   * items; the supervisor reports its failures.
   */
  readonly quarantine?: Quarantine;
  /**
   * @param isAsked whether an operator asks for this pass. The duty then does all of its work, also in a process that
   * does not lead.
   */
  pass(isAsked?: boolean): Promise<DutyPass>;
}

export const idlePass: DutyPass = { processed: 0, errors: 0, outcomes: {}, hasMore: false };

/**
 * The sum of two passes. Whether more is left comes from the later one. A missing partition counts as one error of
 * both.
 */
export function addPasses(left: DutyPass, right: DutyPass): DutyPass {
  const outcomes: Record<string, number> = { ...left.outcomes };
  for (const [outcome, count] of Object.entries(right.outcomes))
    outcomes[outcome] = (outcomes[outcome] ?? 0) + count;
  const missing = [...new Set([...(left.missing ?? []), ...(right.missing ?? [])])].sort((a, b) => a - b);
  const processedIn = addByPartition(left.processedIn, right.processedIn);
  return {
    processed: left.processed + right.processed,
    ...(processedIn === undefined ? {} : { processedIn }),
    errors: ownErrors(left) + ownErrors(right) + missing.length,
    ...(missing.length === 0 ? {} : { missing }),
    outcomes,
    hasMore: right.hasMore,
    ...(right.nextInMs === undefined ? {} : { nextInMs: right.nextInMs }),
  };
}

function ownErrors({ errors, missing = [] }: DutyPass): number {
  return errors - missing.length;
}
