/**
 * A duty is one piece of background upkeep: named, separate, able to start and stop, and safe in several processes at
 * once because every change it makes is guarded. One pass is one bounded batch; it says whether more is left.
 */
import type { Quarantine } from "./quarantine.ts";
import { addByPartition } from "../../store/partitioned/by-partition.ts";
import type { ByPartition } from "../../store/partitioned/by-partition.ts";

export interface DutyPass {
  readonly processed: number;
  /** How many of them lie in which partition, as far as that can be told; left out on a store of one. */
  readonly processedIn?: ByPartition;
  readonly errors: number;
  /** The partitions of the store that the pass left out because they fail; left out for none. */
  readonly missing?: readonly number[];
  /** How many items ended in which way. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** True after a full batch and inside a walk: the next pass follows at once, or after `pauseMs`. */
  readonly hasMore: boolean;
  readonly pauseMs?: number;
  /**
   * When the next clock rings, as far as this pass could see; null for no clock, undefined for a duty that does not
   * look.
   */
  readonly nextInMs?: number | null;
  /** Where that clock has rung already: the next one behind it, if the store knows. */
  readonly hiddenInMs?: number;
}

export interface Duty {
  readonly name: string;
  /**
   * What starts the next pass. "clock": this duty reads when the next clock rings and sets the alarm by it; "alarm": a
   * clock has rung that the clock duty does not serve; "sleep": only the end of its own sleep.
   */
  readonly wakes: "clock" | "alarm" | "sleep";
  readonly sleepMaxMs: number;
  /** It answers the due times of documents. */
  readonly servesDocs?: true;
  /**
   * Items that the duty quarantines for a while. A duty without a quarantine makes one call to the store: it has no
   * items, and the supervisor tells of its failures.
   */
  readonly quarantine?: Quarantine;
  /**
   * @param isAsked whether an operator asks for this pass: then the duty neither rests nor leaves the work to another
   * process.
   */
  pass(isAsked?: boolean): Promise<DutyPass>;
}

export const idlePass: DutyPass = { processed: 0, errors: 0, outcomes: {}, hasMore: false };

/** The sum of two passes; whether more is left is what the later one says. A missing partition is one error of both. */
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
