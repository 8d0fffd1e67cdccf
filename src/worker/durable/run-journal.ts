/**
 * What a run asks of its journal, under the fence of its lease. `store-journal.ts` implements it over the store, tests
 * over a journal in memory, with faults.
 *
 * A call may be repeated after a lost reply: an entry whose key the round has already is not appended again, and a
 * suspend that was applied answers `suspended` again. A superseded fence answers `stale`.
 */
import type { Child } from "../../engine/durable/children.ts";
import type { JournalEntry, NewEntry } from "../../model/durable/journal-entry.ts";
import type { RestPlan } from "../../model/durable/rest-plan.ts";

export interface RunJournal {
  /**
   * All entries after this number, in order, and what `runIn` has committed. Also under the fence: a worker that has
   * lost its lease must not follow the journal that another one writes.
   */
  read(after: number): Promise<ReadAnswer>;
  /** In one step: all of it or nothing. */
  append(entries: readonly NewEntry[], starts: readonly Start[]): Promise<AppendAnswer>;
  /**
   * Appends the entries and gives the lease back, iff the journal's last number is `seen`; else nothing of it happened.
   */
  suspend(request: SuspendRequest): Promise<SuspendAnswer>;
  /** The last statement of the caller's transaction: the result of a `runIn`, once per call and round. */
  commitSlip(connection: unknown, slip: Slip): Promise<SlipAnswer>;
}

export type SlipAnswer =
  | { readonly kind: "ok" }
  /** Another attempt has committed it: this transaction is to be rolled back. */
  | { readonly kind: "recorded"; readonly value: string | null }
  | { readonly kind: "stale" };

export interface JournalPage {
  readonly entries: readonly JournalEntry[];
  readonly slips: readonly Slip[];
  /** The store's time. */
  readonly now: number;
}

export type ReadAnswer = ({ readonly kind: "ok" } & JournalPage) | { readonly kind: "stale" };

/**
 * The result of a `runIn`, committed together with the caller's rows. It has no number: the worker adopts it by an
 * entry of the journal, so that a long transaction does not hold the numbering up.
 */
export interface Slip {
  readonly call: string;
  readonly value: string | null;
}

/** A job that is submitted in the step that appends the entry of its call. */
export interface Start {
  readonly call: string;
  /** The id of the job, the same in each life of the run. */
  readonly id: string;
  readonly submission: Child;
  /** Its end is appended to this journal. */
  readonly isAwaited: boolean;
}

export type AppendAnswer =
  /**
   * @property last the journal's last number; @property at the time of the new entries; @property isRepeat the call may
   * have happened before, so that the entries may have another time.
   */
  | { readonly kind: "ok"; readonly last: number; readonly at: number; readonly isRepeat?: true }
  | { readonly kind: "stale" };

export interface SuspendRequest {
  readonly seen: number;
  readonly entries: readonly NewEntry[];
  readonly starts: readonly Start[];
  readonly rest: RestPlan;
}

export type SuspendAnswer =
  | { readonly kind: "suspended" }
  /** The journal holds more than was seen: read on. */
  | { readonly kind: "arrived" }
  | { readonly kind: "stale" };
