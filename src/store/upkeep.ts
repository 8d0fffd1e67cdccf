/** Requests and answers of upkeep: pruning, unreadable records, and the index audit (operations.ts has all others). */
import type { ByPartition } from "./partitioned/by-partition.ts";
import type { TerminalState } from "../model/job/job-state.ts";

/** `olderThanMs`: at least that old. Pruning keeps the state counts exact and emits no events. */
export type PruneRequest =
  /** Finished jobs without a keeping time of their own. `queue: null` takes every queue not in `exceptQueues`. */
  | {
      readonly what: "history";
      readonly outcome: TerminalState;
      readonly queue: string | null;
      readonly exceptQueues: readonly string[];
      readonly olderThanMs: number;
      readonly max: number;
      readonly cursor: string | null;
    }
  /**
   * The finished jobs of a queue and an outcome beyond `keep`, by the state counts. In each window of the oldest jobs,
   * those that ended first are deleted first, so a small history is pruned strictly in order of ends. Jobs with a
   * keeping time of their own, and jobs that hold their group, count and stay. The answer's cursor may be given to the
   * next call even if `more` is false.
   */
  | {
      readonly what: "surplus";
      readonly outcome: TerminalState;
      readonly queue: string;
      readonly keep: number;
      readonly max: number;
      readonly cursor: string | null;
    }
  /**
   * Finished jobs whose own keeping time is over, then results that are kept for a shorter time than their jobs: these
   * jobs stay, and no event is emitted.
   */
  | { readonly what: "kept"; readonly max: number }
  /** Unique keys held by time, and documents, that have expired. */
  | { readonly what: "expired"; readonly max: number }
  | { readonly what: "feed"; readonly olderThanMs: number; readonly max: number };

export interface PruneAnswer {
  readonly pruned: number;
  readonly prunedIn?: ByPartition;
  readonly more: boolean;
  readonly cursor: string | null;
}

/** An unreadable record. */
export interface UnreadableRecord {
  /** The store's own name for it. */
  readonly ref: string;
  /** The job's id, if it can be read. */
  readonly id: string | null;
  readonly why: string;
  readonly at: number;
  /** What was found there, at most 4,000 characters. */
  readonly text: string;
}

export interface UnreadableAnswer {
  /** By ref in byte order. */
  readonly records: readonly UnreadableRecord[];
  readonly cursor: string | null;
}

export interface AuditAnswer {
  readonly checked: number;
  readonly checkedIn?: ByPartition;
  /** How many entries of each kind were wrong and are now right. */
  readonly repaired: Readonly<Record<string, number>>;
  readonly cursor: string | null;
}
