/**
 * Requests and answers of the store operations, in the order of a job's life. All take and return arrays. A **unit** is
 * atomic. A call may carry units of many callers, and a refused unit never affects another. A lost race is an answer,
 * not an error.
 */
import type { ByPartition } from "./partitioned/by-partition.ts";
import type { ChangeNext, SettleNext } from "../model/job/change.ts";
import type { EventKind } from "../model/events/event-kind.ts";
import type { JobState, TerminalState } from "../model/job/job-state.ts";
import type {
  Doc,
  DocCheck,
  DocPut,
  DueJob,
  Effects,
  Entry,
  EntryPut,
  FeedRecord,
  FrameChunk,
  FramePlace,
  FramesPut,
  Gate,
  Growth,
  JobRecord,
  LeasedJob,
  LeaseRef,
  NewJob,
  Slip,
} from "./records.ts";

/**
 * Replaces the answer to one item of a call if an open transaction holds what the item needs. The item did not happen,
 * the others did. It is sent again later, without them (engine/calls/batcher.ts).
 */
export interface Locked {
  readonly kind: "locked";
}
export type OrLocked<Answer> = Answer | Locked;

export function isLocked(answer: unknown): answer is Locked {
  return typeof answer === "object" && answer !== null && (answer as Partial<Locked>).kind === "locked";
}

// submit ------------------------------------------------------------------------------------------------------------

export interface SubmitUnit extends Growth {
  readonly jobs: readonly NewJob[];
  readonly docs?: Effects["docs"];
  readonly checks?: readonly DocCheck[];
  /**
   * True when an earlier try may have happened: known ids are then answered as existing. If one of its minted ids is
   * known, the unit has happened: its checks are skipped, its documents are not put and its flow does not grow again.
   */
  readonly isRepeat?: boolean;
}

/** Why jobs, documents or growth that go with a unit are refused. */
export type EffectRefusal =
  | "id-differs"
  | "doc-changed"
  | "above-ceiling"
  | "uncountable"
  | "flow-closed"
  | "key-held";

export type SubmitHow = "created" | "existing" | "replaced";

export type SubmitAnswer =
  /** Per job, in order. `ids[i]` differs from the submitted id when a unique key's holder was kept or replaced. */
  | { readonly kind: "ok"; readonly ids: readonly string[]; readonly hows: readonly SubmitHow[] }
  | {
      readonly kind: "refused";
      /**
       * flow-closed: `id` was deleted, is not blocked any more, or is to be cancelled. key-held: another job holds the
       * key of a member. above-ceiling, uncountable: a counter refused its add, as `PutDocAnswer` says.
       */
      readonly reason: "intake-closed" | EffectRefusal;
      readonly id: string;
    };

// claim -------------------------------------------------------------------------------------------------------------

export interface ClaimRequest {
  readonly owner: string;
  readonly leaseMs: number;
  readonly offers: readonly ClaimOffer[];
  /**
   * The claim stops after the job with which the inputs reach this number of bytes; it always returns at least one.
   * Absent: no bound. A claim that stops early answers `more`.
   */
  readonly inputBytesMax?: number;
}

/** Routes that share slots (one queue) and have lanes of one order, or none, with the number of jobs wanted. */
export interface ClaimOffer {
  readonly routes: readonly number[];
  readonly max: number;
  /**
   * The number of free slots: the handlers of that many jobs start with the claim, so startedAt = now. Absent for none.
   */
  readonly starts?: number;
}

export interface ClaimAnswer {
  /** In claim order: rank, then seq, per offer. */
  readonly jobs: readonly LeasedJob[];
  /** True when an offer was filled to its max, so that more may be waiting. */
  readonly more: boolean;
  /**
   * The time until the earliest clock of a live job, or the earliest due time of a document, after this call; 0 if one
   * is due already, null if none is set.
   */
  readonly nextDueInMs: number | null;
  readonly now: number;
  /**
   * If gates that open by their own clock refused jobs of this claim's offers: the time until the first of these gates
   * lets one pass. Absent if there are none.
   */
  readonly opensInMs?: number;
  /** An earlier claim may have taken jobs whose answer was lost: the owner looks for them by `wantsOthers`. */
  readonly mustLook?: boolean;
}

// heartbeat ---------------------------------------------------------------------------------------------------------

/**
 * The call that each process makes once a second (engine/fleet/heartbeat.ts). All documents lie in one partition. A
 * lost reply means the same as for `putDocs`.
 */
export interface HeartbeatRequest {
  readonly puts: readonly DocPut[];
  /** After the puts. */
  readonly read: ReadDocsRequest;
}

export interface HeartbeatAnswer {
  readonly puts: readonly PutDocAnswer[];
  readonly read: ReadDocsAnswer;
  /** The routes that have ready jobs, by number. A gate or a lane may still hold these jobs. */
  readonly ready: readonly number[];
  /** The time until the earliest clock after this call; 0 if one is due, null if none is set. */
  readonly nextDueInMs: number | null;
  readonly now: number;
}

// gates (R7) ----------------------------------------------------------------------------------------------------------

export type GatePutAnswer =
  | { readonly kind: "ok"; readonly version: number }
  | { readonly kind: "changed"; readonly version: number };

/** `mayFail`: the caller can do without it; it fails at once if a partition is missing or unresponsive. */
export type ReadGatesRequest =
  | { readonly keys: readonly string[]; readonly mayFail?: boolean }
  | { readonly prefix: string; readonly after: string | null; readonly max: number };

export interface ReadGatesAnswer {
  /** By key in byte order. */
  readonly gates: readonly Gate[];
  readonly cursor: string | null;
  readonly now: number;
}

// settle, extend, record: always with the fence ---------------------------------------------------------------------

export interface Settle extends LeaseRef {
  readonly next: SettleNext;
  /**
   * Entries that are appended in the same step, before `next` is applied. Every settle of a durable run has it, so that
   * sets of plain settles need not look at the marks of their jobs.
   */
  readonly journal?: {
    /**
     * The settle is applied iff this is the last number of the journal before the entries. Null: whatever the journal
     * holds.
     */
    readonly seen: number | null;
    readonly entries: readonly EntryPut[];
  };
  /** The new packed attempt log; null keeps the old one. */
  readonly attempts: string | null;
  readonly effects?: Effects;
}

export type SettleAnswer =
  | { readonly kind: "ok" }
  /** A settle with the same fence was applied before: the reply was lost, the effect is there. */
  | { readonly kind: "already" }
  /**
   * The fence is newer, or the lease was reclaimed, ended or expired otherwise (which may leave the fence unchanged).
   */
  | { readonly kind: "stale" }
  | { readonly kind: "gone" }
  /** The journal holds more than was seen; this is its last number. If it holds less, the answer is `stale`. */
  | { readonly kind: "arrived"; readonly last: number }
  /** A cancel was requested, so the job must not wait again: only a Finish is applied. */
  | { readonly kind: "cancel-asked" }
  /** An effect was refused; nothing of the settle happened. */
  | { readonly kind: EffectRefusal; readonly id: string };

export interface Extend extends LeaseRef {
  /**
   * Reported once, when the handler has really started; the store sets startedAt = now - startedAgoMs. A repeat sets it
   * again.
   */
  readonly startedAgoMs?: number;
  /** The backstop for an attempt that outlives its timeout; null for none. */
  readonly attemptEndsInMs?: number | null;
  /** For a durable run: the last number of its journal that the worker knows. */
  readonly seen?: number;
}

export interface ExtendRequest {
  readonly owner: string;
  /** The minimum from now on; a lease is never shortened. */
  readonly leaseMs: number;
  readonly leases: readonly Extend[];
  /**
   * Also return, by seq, running jobs of this owner that `leases` does not name by id and fence: those of a claim whose
   * reply was lost. They are not extended: only a lease that its worker names is.
   */
  readonly wantsOthers: boolean;
}

export interface ExtendAnswer {
  /**
   * `unknown`: its partition did not answer, while others did, or an open transaction holds the job. The lease may not
   * be extended: try again.
   */
  readonly answers: readonly ("ok" | "cancel-asked" | "stale" | "gone" | "unknown")[];
  readonly others: readonly LeasedJob[];
  readonly now: number;
  /** The ids of leases with a `seen` whose journal holds more by now; absent for none. */
  readonly grown?: readonly string[];
}

export interface LeasedWrite extends LeaseRef {
  /** Replaces the job's progress text. */
  readonly progress?: string;
  /** Appended to the job's journal of logs, in order. */
  readonly logs?: readonly string[];
  /** The line that replaces the last one that fits (`storeLimits.logLinesPerJobMax`) if there are more. */
  readonly overflow?: string;
  /** Output; emitted as `output` (R10). Never together with entries. */
  readonly frames?: FramesPut;
  /** Entries for the journal of a durable run. With them the answer is `appended`. */
  readonly entries?: readonly EntryPut[];
  /**
   * With entries only: applied in the same step iff one of the entries is new. So a repeat changes nothing, whatever
   * the effects are. A job whose given id and digest are known is passed over.
   */
  readonly effects?: Effects;
  /**
   * With entries only: the run has got further, so its attempts count anew: attempt = 1, and the attempt log is emptied
   * unless a cancel was requested, whose reason it has.
   */
  readonly setsBack?: true;
  /**
   * With entries only: texts that are emitted as `step`, one event for each, iff one of the entries is new (R10).
   */
  readonly steps?: readonly string[];
}

export type RecordAnswer =
  | "ok"
  | "stale"
  | "gone"
  /** @property last the last number of the journal; @property at the time of the entries */
  | { readonly kind: "appended"; readonly last: number; readonly at: number }
  /** An effect was refused; nothing of the write happened. */
  | { readonly kind: EffectRefusal; readonly id: string };

// change: operators and duties, under a guard -------------------------------------------------------------------------

/** `ttl` and `wake` are one field: of a suspended job `ttlAt` is when it wakes, of any other when it expires. */
export type Clock = "lease" | "attempt" | "deadline" | "ttl" | "wake";

export interface Guard {
  readonly states: readonly JobState[];
  readonly rev?: number;
  readonly fence?: number;
  /** This clock of the job is due by the store's time. */
  readonly rang?: Clock;
  /**
   * Of the field `durable`, the bits in `mask` are exactly `is`. Every change that ends a durable run has it, so that
   * sets of plain ends need not look at the marks of their jobs.
   */
  readonly marks?: { readonly mask: number; readonly is: number };
}

/** The first case whose guard holds is applied; if none holds, the answer is `changed`. */
export interface Change {
  readonly id: string;
  /**
   * Identifies this change. A store keeps the token of the last change of a job. If no guard holds and the tokens are
   * equal, the reply was lost and the answer is `already`.
   */
  readonly token?: string;
  readonly cases: readonly ChangeCase[];
}

export interface ChangeCase {
  readonly guard: Guard;
  readonly next: ChangeNext;
  /** The new packed attempt log; null or absent keeps the old one. */
  readonly attempts?: string | null;
  /** For a durable run: appended to its journal in the same step. */
  readonly append?: Append;
}

/**
 * An entry that others append: a signal, the end of a child, an ending. If the journal has its key, the change is
 * answered `repeated`, before any guard is looked at.
 */
export interface Append {
  readonly entry: EntryPut;
  /**
   * With this entry the journal has at most `count` unread ones, of this size in all; else the answer is `full`. An
   * entry without `unread` is none of them.
   */
  readonly unreadMax?: { readonly count: number; readonly size: number };
}

export type ChangeAnswer =
  | {
      readonly kind: "ok";
      readonly applied: number;
      readonly from: JobState;
      readonly state: JobState | null;
      readonly rev: number;
    }
  /** The change with this token was applied before: the reply was lost, the effect is there. */
  | { readonly kind: "already"; readonly state: JobState; readonly rev: number }
  | { readonly kind: "changed"; readonly state: JobState; readonly rev: number }
  /** The journal has the key of the append already. */
  | { readonly kind: "repeated"; readonly state: JobState; readonly rev: number }
  /** The journal has too many unread entries, or too large ones. */
  | { readonly kind: "full"; readonly state: JobState; readonly rev: number }
  /** A replay would take a unique key that another live job holds. */
  | { readonly kind: "key-held"; readonly by: string }
  | { readonly kind: "gone" };

// due -----------------------------------------------------------------------------------------------------------------

/**
 * Of n routes with due jobs, ordered by their longest due job and then by number, the first `max` give up to
 * max(1, floor(max / n)) jobs each, the longest due first.
 */
export interface PromoteAnswer {
  readonly count: number;
  /** Absent for a store of one partition, as in the answers to a prune and to an audit. */
  readonly countIn?: ByPartition;
  /** True while jobs that were due are still scheduled. */
  readonly more: boolean;
  /** The time until the earliest clock after this call; 0 if one is due, null if none is set. */
  readonly nextDueInMs: number | null;
  /** The next clock after those that are due; absent if the store knows only the earliest. */
  readonly hiddenInMs?: number;
}

export interface ReadDueRequest {
  readonly clock: Clock;
  readonly max: number;
  /** From the previous answer; null starts at the head. */
  readonly cursor: string | null;
}

export interface ReadDueAnswer {
  /** By the job's earliest clock, then seq. */
  readonly jobs: readonly DueJob[];
  /** Null if nothing is left. */
  readonly cursor: string | null;
  readonly now: number;
  /** The time until the earliest clock of any kind, so that the reader knows when to read again; 0 if one is due. */
  readonly nextInMs: number | null;
}

// documents -----------------------------------------------------------------------------------------------------------

export type PutDocAnswer = WriteAnswer | AddAnswer;

/** To a put of a whole document. */
export type WriteAnswer =
  /** Version 0: deleted. */
  | { readonly kind: "ok"; readonly version: number }
  /** Version 0: absent. */
  | { readonly kind: "changed"; readonly version: number };

/** To a put that adds (R9). */
export type AddAnswer =
  /** `number`: the sum. */
  | { readonly kind: "ok"; readonly version: number; readonly number: number }
  /** The sum of an add would be above its ceiling; `number` is the present one. */
  | { readonly kind: "above"; readonly number: number }
  /** The body of the counter or `by` is no whole number, or the sum would have a size above 2^53 - 1. */
  | { readonly kind: "uncountable" };

export type ReadDocsRequest =
  | { readonly kind: string; readonly ids: readonly string[] }
  | {
      readonly kind: string;
      readonly prefix: string;
      readonly after: string | null;
      readonly max: number;
      /** Failing partitions are passed over instead of failing the call. */
      readonly passesOver?: boolean;
    };

export interface ReadDocsAnswer {
  /** By id in byte order, without absent and expired ones. */
  readonly docs: readonly Doc[];
  /** The id to go on after; null at the end. */
  readonly cursor: string | null;
}

export interface ReadDueDocsRequest {
  readonly max: number;
  /** From the previous answer; null starts at the longest due. */
  readonly cursor: string | null;
}

export interface ReadDueDocsAnswer {
  /** Documents of every kind whose due time has come, by (dueAt, kind, id), texts in byte order. */
  readonly docs: readonly Doc[];
  /** Null if nothing is left. */
  readonly cursor: string | null;
  readonly now: number;
  /** The server's own time, by which named instants count; absent if that is `now`. */
  readonly serverNow?: number;
  /** The time until the earliest clock of any kind; 0 if one is due, null if none is set. */
  readonly nextInMs: number | null;
}

// looking
// ---------------------------------------------------------------------------------------------------------------

export interface JobFilter {
  readonly states?: readonly JobState[];
  readonly queue?: string;
  readonly name?: string;
  /** Exactly these, as a route has them; an empty list means jobs that require none. */
  readonly requires?: readonly string[];
  readonly tag?: string;
  readonly reason?: string;
  /** Both exclusive. */
  readonly createdAfter?: number;
  readonly createdBefore?: number;
  /** Only jobs that hold their group without running. Finished ones have an index of their own. */
  readonly keepsLane?: true;
}

export interface FindRequest {
  readonly filter: JobFilter;
  readonly max: number;
  /** How many rows may be looked at; the page ends there, with a cursor. */
  readonly scanMax: number;
  readonly cursor: string | null;
}

export interface FindAnswer {
  /** Newest first, by seq. */
  readonly jobs: readonly JobRecord[];
  readonly cursor: string | null;
  readonly scanned: number;
  /** The partitions that this page passed over because they fail; absent for none. */
  readonly missing?: readonly number[];
}

export interface FeedRequest {
  /** The partition of the feed, from 0 on: each feed has numbers of its own. 0 by default. */
  readonly partition?: number;
  /** Records with a greater number; 0 from the beginning, -1 for none but the present end. */
  readonly after: number;
  readonly max: number;
  /**
   * Only events of these kinds, with their `index` in the record and the record's `count` of all, so that a reader of
   * few kinds does not unpack the others. Absent: all.
   */
  readonly kinds?: readonly EventKind[];
  /**
   * Records with `bundles` instead of events, for readers that walk through them: an object for each event of a page
   * costs more than all that a listener does with it.
   */
  readonly isBundled?: boolean;
}

export interface FeedAnswer {
  readonly records: readonly FeedRecord[];
  /** To go on after: the number of the last record given, else `after` itself. */
  readonly cursor: number;
}

export interface LogsAnswer {
  readonly lines: readonly { readonly number: number; readonly at: number; readonly body: string }[];
  readonly cursor: number;
}

export interface FramesRead {
  readonly id: string;
  /** Chunks after this place. Null: the newest chunk alone. */
  readonly after: FramePlace | null;
  readonly max: number;
}

export type FramesAnswer =
  | {
      readonly kind: "ok";
      /** In the order of their places; less than `max` of them only at the end. */
      readonly chunks: readonly FrameChunk[];
      readonly summary: string | null;
      /** How the job has ended: nothing more comes. Null while it lives. */
      readonly ended: TerminalState | null;
    }
  | { readonly kind: "gone" };

export interface JournalRead {
  readonly id: string;
  /** Entries with a greater number. */
  readonly after: number;
  readonly max: number;
  /** Answered only while this lease is the current one: a superseded worker must not follow its successor's journal. */
  readonly lease?: Pick<LeaseRef, "seq" | "fence">;
}

export type JournalAnswer =
  | {
      readonly kind: "ok";
      readonly entries: readonly Entry[];
      /** The last number of the journal; 0 for an empty one. */
      readonly last: number;
      readonly slips: readonly Slip[];
      /** The job's field `durable`. */
      readonly durable: number;
      readonly now: number;
    }
  | { readonly kind: "stale" }
  | { readonly kind: "gone" };

export type SlipAnswer =
  | { readonly kind: "ok" }
  /** The journal has a slip of this key: the caller's transaction must be rolled back. */
  | { readonly kind: "recorded"; readonly body: string }
  | { readonly kind: "stale" };
