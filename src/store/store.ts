/**
 * The store contract: everything that the engine may ask of a place where jobs live. Its operations are in the
 * language of jobs. Each is one atomic step, takes and returns batches, is guarded, and answers with a union.
 *
 * A store decides no policy. It applies what the model computed, by ten mechanical rules. Each has vectors in
 * test/contract:
 *
 *  R1 clock    (place: schedules a job.) Durations come in relative; dueAt = now + inMs (or the named instant), rank =
 *              rankBase + rankSlope * dueAt, ttlAt = dueAt + ttlMs, timerAt = the earliest clock of the present state.
 *              A job that is due at once is ready, else scheduled. A suspended job keeps rank and dueAt; its ttlAt is
 *              when it wakes, and ends when it is placed again
 *  R2 guard    a change is applied iff its guard holds, else the refusal carries the current value. An entry is
 *              appended to a journal iff its key is new in the round. A settle with `seen` is applied iff the journal
 *              ends there. Entries set their marks, and clear the unread ones that they read. The mark isEnding clears
 *              the deadline and a requested cancel. A new round keeps the unread entries, in order and with new numbers
 *              from 1 on; it clears the marks, counts the round up, deletes the slips, and still refuses the keys of
 *              the newest journalKeysKeptMax entries that others have appended.
 *              A chunk of output is written iff its attempt has written none of its number. Chunks are read by fence
 *              and number, live and finished, and are deleted with their job
 *  R3 finish   a job that ends leaves the live set, is written to history, drops its lease and frees its key unless the
 *              key is held by time. A member of a flow is kept with its result until foreverMs, whatever the finish
 *              says. A durable run with the mark hasChildren leaves deferred work (R4) when it ends or is deleted
 *  R4 arrive   (satisfies a dependency.) A job whose `waits` has a need, or that has no `freed`, is born blocked,
 *              without a time-to-live. The end of a member, whatever its cause, goes along its edges in order, after
 *              everything else of its unit: edgesAtOnceMax edges at once, the others are deferred. A change with
 *              passesOn goes along that many more, at most edgesPerStepMax, and defers the others. An edge arrives at a
 *              blocked target: an end that meets the edge counts the target's need down, an end that misses it the
 *              target's slack. With no need left and a slack not below 0 the target is placed as `freed` says (event
 *              freed). With no need left, whatever its slack, deferred work is left if `defers` says so. A slack that
 *              falls below 0 leaves deferred work once and frees nothing.
 *              The edge to the flow counts the end there too, blocked or finished. A target that was deleted, or is not
 *              blocked, is passed over. Only a freed job gets a new rev.
 *              A finished member that comes back (a schedule or a block) counts its flow up again, and has passed
 *              nothing on. Before it has gone along all its edges it cannot come back (answer `changed`).
 *              Deferred work is a due document { kind: "deferred", id: the job's id, body: "" }, put under any guard. A
 *              flow that is pruned or deleted leaves it too. Inside the caller's transaction a store may defer all
 *              edges
 *  R5 promote  a scheduled job that is due becomes ready. The routes that have due jobs share the call, so that a flood
 *              on one route delays no other
 *  R6 claim    in order of (rank, seq) from the offered routes, never a job one of whose clocks is due: fence + 1,
 *              attempt + countsAttempt, the lease starts, the ttl ends, a key held until the start is freed; the first
 *              `starts` jobs of an offer have started. Of a lane only the first ready job by (rank, seq) can be
 *              claimed. An offer has routes of one lane order. By rank: as plain jobs. By turn (the virtual time of
 *              start-time fair queueing): in order of (turn of the lane, seq). A claim sets the turn to max(turn, T) +
 *              laneStep; T is the highest turn claimed in the queue so far. A lane without a turn joins with T. At the
 *              end of a claim by turn the queue's empty lanes forget turns that are not above T
 *  R7 admit    a claim takes a job iff each gate of its route (its own gates, and that of its queue) lets its weight
 *              pass: closedUntil <= now, held + weight <= cap, max(tat, now) + weight * step <= now + burst; held is
 *              the sum of the weights of running jobs. A gate that refuses a job lets no later job of this call pass. A
 *              job that leaves `running` on a route with a cap is a hint `ready` for the routes that share the gate.
 *              A job with a lane (model/routing/lane.ts) also has to pass the gates of its keys. Such a gate is bounded
 *              by the job's own cap (which refuses no other job), else by its own put, else by perKey of its limit. It
 *              is held by the jobs that run with it, and one with a cap of the job's own also by those that wait or
 *              have ended with keepsLane. A job that has ended so is not pruned; replayed, it keeps its rank, and holds
 *              on until it is ready
 *  R8 unique   (meet: resolves a key conflict.) A live holder is kept or replaced, as the unit says; a member of a flow
 *              is kept
 *  R9 add      a put with `add` adds to a counter, a document whose body is a whole number in decimal digits; absent or
 *              expired it counts as 0. It is applied iff by <= 0 or number + by <= ceiling (else `above`), and the
 *              body, `by` and the sum are whole numbers of at most 2^53 - 1 either way (else `uncountable`). Adds of
 *              one call work one after the other. If before < mark <= after for a mark, the document `leaves` is put
 *              under any guard, empty and due now. In a unit a refused add refuses the unit
 *  R10 emit    append one packed record per call to the feed, keep state counts exact, emit hints
 *
 * An operation whose reply may be lost can be repeated: submit by id, settle by fence (`already`), claim by
 * `extendIfLeased` with `wantsOthers`, documents by version. An add has no guard, so its repeat adds again: who must
 * count once puts another document under a guard in the same unit.
 */
import type {
  Change,
  ChangeAnswer,
  ClaimAnswer,
  ClaimRequest,
  ExtendAnswer,
  ExtendRequest,
  FeedAnswer,
  FeedRequest,
  FindAnswer,
  FindRequest,
  FramesAnswer,
  FramesRead,
  GatePutAnswer,
  HeartbeatAnswer,
  HeartbeatRequest,
  LeasedWrite,
  OrLocked,
  PromoteAnswer,
  PutDocAnswer,
  ReadDocsAnswer,
  ReadDocsRequest,
  ReadDueAnswer,
  ReadDueDocsAnswer,
  ReadDueDocsRequest,
  ReadDueRequest,
  ReadGatesAnswer,
  ReadGatesRequest,
  RecordAnswer,
  Settle,
  SettleAnswer,
  SubmitAnswer,
  SubmitUnit,
  JournalAnswer,
  JournalRead,
  LogsAnswer,
  SlipAnswer,
} from "./operations.ts";
import type { UnreadableAnswer, AuditAnswer, PruneAnswer, PruneRequest } from "./upkeep.ts";
import type { Route } from "../model/routing/route.ts";
import type { DocPut, GatePut, JobRecord, LeaseRef, Slip, StateCount } from "./records.ts";

export interface Store {
  describe(): Promise<StoreDescription>;
  /** Only reads are answered: no worker and no duty can run on it. */
  readonly isView?: true;
  /** The store works beside this process: the next claim goes out before the jobs of the last one are run. */
  readonly claimsAhead?: boolean;
  /** A claim may be done before submits and settles that were sent before it. Absent if calls are done in order. */
  readonly claimsOvertake?: boolean;
  /**
   * The number of partitions; absent for one. Everything that is written in one step must lie in one of them
   * (model/routing/placement.ts).
   */
  readonly partitions?: number;

  submit(units: readonly SubmitUnit[]): Promise<readonly OrLocked<SubmitAnswer>[]>;
  claim(request: ClaimRequest): Promise<ClaimAnswer>;
  /** What a process writes and reads once a second, in one call. */
  heartbeat(request: HeartbeatRequest): Promise<HeartbeatAnswer>;
  settleIfLeased(settles: readonly Settle[]): Promise<readonly OrLocked<SettleAnswer>[]>;
  extendIfLeased(request: ExtendRequest): Promise<ExtendAnswer>;
  recordIfLeased(writes: readonly LeasedWrite[]): Promise<readonly OrLocked<RecordAnswer>[]>;
  changeIf(changes: readonly Change[]): Promise<readonly OrLocked<ChangeAnswer>[]>;

  promoteDue(request: { readonly max: number }): Promise<PromoteAnswer>;
  readDue(request: ReadDueRequest): Promise<ReadDueAnswer>;

  putGates(puts: readonly GatePut[]): Promise<readonly GatePutAnswer[]>;
  readGates(request: ReadGatesRequest): Promise<ReadGatesAnswer>;
  putDocs(puts: readonly DocPut[]): Promise<readonly PutDocAnswer[]>;
  readDocs(request: ReadDocsRequest): Promise<ReadDocsAnswer>;
  readDueDocs(request: ReadDueDocsRequest): Promise<ReadDueDocsAnswer>;
  readJobs(ids: readonly string[]): Promise<readonly (JobRecord | null)[]>;
  findJobs(request: FindRequest): Promise<FindAnswer>;
  /** The counting half of findJobs: exact, cheap, by route and state. */
  countJobs(): Promise<readonly StateCount[]>;
  /** Every route that has ever had a job here, by number: it maps numbers back to names. */
  readRoutes(): Promise<readonly Route[]>;
  readFeed(request: FeedRequest): Promise<FeedAnswer>;
  /** Log lines of a job. */
  readLogs(request: {
    readonly id: string;
    readonly after: number;
    readonly max: number;
  }): Promise<LogsAnswer>;
  /** The output of jobs, an answer for each read. */
  readFrames(reads: readonly FramesRead[]): Promise<readonly FramesAnswer[]>;
  /** The journals of durable runs, an answer for each read. A page may end before `max`; its `last` says so. */
  readJournal(reads: readonly JournalRead[]): Promise<readonly JournalAnswer[]>;

  prune(request: PruneRequest): Promise<PruneAnswer>;
  auditIndexes(request: { readonly cursor: string | null; readonly max: number }): Promise<AuditAnswer>;
  /**
   * Unreadable records. An operation that meets one (a claim, a promotion, a read of due jobs, the audit) takes it out
   * of every index and count in the same step, keeps it here and goes on with the others.
   */
  readUnreadable(request: { readonly after: string | null; readonly max: number }): Promise<UnreadableAnswer>;
  /** Deletes unreadable records for good, by their refs; answers how many were there. */
  deleteUnreadable(refs: readonly string[]): Promise<number>;
  /** The partitions that fail now; lists, counts and duties pass over them. Absent for a store of one. */
  readonly missing?: () => readonly MissingPartition[];
  /** For each route with ready jobs: how long the job that would be claimed first has been due; for gauges. */
  readonly readHeads?: () => Promise<readonly ReadyHead[]>;
  /** The size of each server or file of the store, and its number of connections; for gauges, on request. */
  readonly measure?: () => Promise<readonly StoreMeasure[]>;
  /** Later, with moving a store: refused as not-yet-supported. */
  exportPage(request: unknown): Promise<never>;
  importPage(request: unknown): Promise<never>;

  /**
   * Hints the watchers of other processes that all jobs that were ready on these routes are claimed, by a claim that
   * was sent then (monotonic). Not awaited; absent if processes only communicate through the feed.
   */
  readonly announceTaken?: (routes: readonly number[], sentUs: number) => void;

  /** Hints only: each may be lost or come twice, so every user of one also polls. */
  watch(listener: (hint: Hint) => void): Unwatch;

  /** Submit and settle on the caller's own connection, inside the transaction open there. */
  inTransaction(connection: unknown): TransactionStore;

  close(): Promise<void>;
}

export type TransactionStore = Pick<Store, "submit" | "settleIfLeased"> & {
  /**
   * The last statement of the caller's transaction: the result of a step, which is committed with the caller's rows iff
   * the lease is the current one at the commit. It takes no lock that a renewal needs, and changes nothing of the job:
   * a run has an entry in its journal before its first slip, so the next worker reads the journal.
   */
  commitSlip(lease: LeaseRef, slip: Slip): Promise<SlipAnswer>;
};

export type Unwatch = () => void;

export type Hint =
  /** Jobs became ready on these routes. */
  | { readonly kind: "ready"; readonly routes: readonly number[] }
  /**
   * The earliest clock that was set: a duty that sleeps longer should wake then. 0 means documents that are due
   * already, and hides no other clock.
   */
  | { readonly kind: "due"; readonly inMs: number }
  /** Due jobs were promoted just now: a process in its fallback delay for their clocks need not do it. */
  | { readonly kind: "promoted" }
  /**
   * Another process has just claimed all ready jobs of these routes: a process in its fallback delay need not claim.
   */
  | { readonly kind: "taken"; readonly routes: readonly number[] }
  | { readonly kind: "finished"; readonly ids: readonly string[] }
  /**
   * The feed may have grown. A store of several partitions sends it after each other hint, with the partition. Any
   * other store sends it only for changes without another hint.
   */
  | { readonly kind: "emitted"; readonly partition: number }
  | { readonly kind: "cancel"; readonly ids: readonly string[]; readonly owner: string }
  /** These running jobs have written output. */
  | { readonly kind: "output"; readonly ids: readonly string[] }
  /** Calls of this process have met N records that cannot be read, and kept them apart. Others are not notified. */
  | { readonly kind: "unreadable"; readonly count: number }
  /** The journals of these running jobs of the owner have grown. */
  | { readonly kind: "signalled"; readonly ids: readonly string[]; readonly owner: string };

/** What an acknowledged write survives: a power loss, the end of the process only, or neither. */
export type Durability = "strict" | "relaxed" | "memory";

export interface StoreDescription {
  readonly kind: string;
  readonly durability: Durability;
  /** What an acknowledged write survives under the settings that were found, in one sentence. */
  readonly acknowledged?: string;
  /** The high part of every fence: grows whenever the store may have lost writes. */
  readonly epoch: number;
  readonly now: number;
  /** The server's own time, by which named instants count; absent if that is `now`. */
  readonly serverNow?: number;
  readonly schemaVersion: number;
  /** Absent for one. */
  readonly partitions?: number;
  readonly capabilities: { readonly transactions: boolean; readonly processes: "one" | "many" };
  /** By how much the store's clock is ahead of the machine's, after the machine's clock was set back. */
  readonly aheadMs?: number;
  /** For a view only: how far it is behind, and the state of the writer. */
  readonly view?: StoreView;
  /** Settings that deserve a warning, as sentences; shown by doctor. */
  readonly warnings: readonly string[];
  /** For a store in object storage only: the requests of this process since it opened the store. */
  readonly requests?: StoreRequests;
}

export interface StoreRequests {
  readonly put: number;
  readonly get: number;
  readonly list: number;
  /** Objects, however many of them one request removes. */
  readonly remove: number;
  readonly bytesPut: number;
  readonly bytesGot: number;
  /** Of the puts: records of the log. The others are checkpoints. */
  readonly logPut: number;
  readonly logBytesPut: number;
  /** Bytes put per byte of log records: the part above 1 is checkpoints. Null before the first record. */
  readonly amplification: number | null;
  /** Of the requests, in the currency of the store's prices. */
  readonly cost: number;
  /** Attempts that this process has settled meanwhile. */
  readonly settled: number;
  /** The cost by a million settled attempts; null before the first one. */
  readonly costPerMillion: number | null;
}

export interface StoreView {
  /** How long ago the view read the log: it shows everything that was acknowledged before. */
  readonly lagMs: number;
  /** The age of the newest record, by the writer's clock. A living writer puts one every 10 s. */
  readonly recordAgeMs: number;
  /** Closed: cleanly. Gone: its process has ended. Silent: it wrote nothing for 15 s. */
  readonly writer: "writing" | "silent" | "gone" | "closed";
  /** The same as a sentence. */
  readonly sentence: string;
}

export interface ReadyHead {
  readonly queue: string;
  /** Since it was due, by the store's clock. */
  readonly ageMs: number;
}

export interface StoreMeasure {
  /** The name among the servers of the store; for a file its name. */
  readonly server: string;
  readonly sizeBytes: number;
  /** The number of connections; null if unknown. */
  readonly connections: number | null;
}

export interface MissingPartition {
  readonly number: number;
  /** How often in a row it has failed. */
  readonly failures: number;
  readonly error: unknown;
}
