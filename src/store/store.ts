/**
 * The store contract: everything the engine may ask of a place where jobs live. Thirty operations named in the
 * language of jobs. Each is one atomic step, takes and returns batches, is guarded, and answers with a union.
 *
 * A store decides no policy. It applies what the model computed by ten mechanical rules, each with vectors in
 * test/contract:
 *
 *  R1 clock    durations come in relative; dueAt = now + inMs (or the named instant), rank = rankBase + rankSlope *
 *              dueAt, ttlAt = dueAt + ttlMs, timerAt = the earliest clock of the present state; due at once means
 *              ready, else scheduled
 *  R2 guard    a change is applied iff its guard holds, else the refusal carries the current value
 *  R3 finish   a job that ends leaves the live set, is written to history, drops its lease and frees its key unless
 *              held by time. A member of a flow is kept with its result, until foreverMs, whatever the finish says
 *  R4 arrive   a job whose `waits` has a need, or that has no `freed`, is born blocked, without a time-to-live. The end
 *              of a member, however it came about, goes along its edges in order, behind everything else of its unit:
 *              at once along edgesAtOnceMax, the rest is deferred; a mark with passesOn goes along so many more,
 *              edgesPerStepMax at most, and defers what is left. An edge arrives at a blocked target: an end that meets
 *              it counts its need down, one that misses it its slack. With no need left and a slack not below 0 the
 *              target is placed as `freed` says (event freed); with no need left, whatever its slack, deferred work is
 *              left if `defers` says so. A slack that falls below 0 leaves deferred work once and frees nobody.
 *              The edge to its flow counts a member's end there too, blocked or finished. A target that is gone, or not
 *              blocked, is passed over. None of this changes a rev, but for what is freed.
 *              A finished member that comes back (a schedule or a block) counts its flow up again, and has passed
 *              nothing on; before it has gone along all its edges it cannot come back (answer `changed`).
 *              Deferred work is a due document { kind: "deferred", id: the job's id, body: "" }, put whatever is there.
 *              A flow that is pruned or deleted leaves it too. Inside the caller's transaction a store may defer all
 *              edges.
 *  R5 promote  scheduled and due becomes ready; the routes that have due jobs share the call, so that a flood on one
 *              keeps no other waiting
 *  R6 claim    in order of (rank, seq) from the offered routes, never a job one of whose clocks has rung: fence + 1,
 *              attempt + countsAttempt, lease starts, ttl ends, a key held until the start is freed; the first `starts`
 *              of an offer have started. Of a lane only the first ready job by (rank, seq) can be claimed; an offer has
 *              routes of one lane order. By rank: as plain jobs. By turn: (turn of the lane, seq); a claim sets the
 *              turn to max(turn, T) + laneStep, T being the highest turn claimed in the queue so far; a lane that has
 *              no turn joins with T; at the end of a claim by turn the queue's empty lanes forget turns that are not
 *              above T
 *  R7 admit    a claim takes a job iff each gate of its route (its own gates, and that of its queue) lets its weight
 *              pass: closedUntil <= now, held + weight <= cap, max(tat, now) + weight * step <= now + burst; held is
 *              the sum of the weights of what runs. A gate that refuses a job lets nobody behind it pass in this call.
 *              A job that leaves `running` on a route with a cap is a hint `ready` for the routes that share the gate.
 *              A job with a lane (model/routing/lane.ts) also has to pass the gates of its keys. Such a gate is bounded
 *              by the job's own cap (which refuses nobody else), else by its own put, else by perKey of its limit; held
 *              by the jobs that run with it, and one with a cap of the job's own also by those that wait or have ended
 *              with keepsLane. What has ended so is not pruned; replayed, it keeps its rank, and holds on until it is
 *              ready
 *  R8 unique   on a live holder keep or replace, as the unit says; a member of a flow is kept
 *  R9 add      add to counters, all or none                                                              (with budgets)
 *  R10 tell    append one packed record per call to the feed, keep state counts exact, emit hints
 *
 * An operation whose reply may be lost can be repeated: submit by id, settle by fence (`already`), claim by
 * `extendIfLeased` with `wantsOthers`, documents by version.
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
} from "./operations.ts";
import type { UnreadableAnswer, AuditAnswer, PruneAnswer, PruneRequest } from "./upkeep.ts";
import type { Route } from "../model/routing/route.ts";
import type { DocPut, GatePut, JobRecord, StateCount } from "./records.ts";

export interface Store {
  describe(): Promise<StoreDescription>;
  /** Only reads are answered: no worker and no duty can run on it. */
  readonly isView?: true;
  /** The store works beside this process: the next claim goes out before the jobs of the last one are run. */
  readonly claimsAhead?: boolean;
  /**
   * A claim may be done before the submits and settles that were sent ahead of it. Left out where calls are done in
   * order.
   */
  readonly claimsOvertake?: boolean;
  /**
   * How many partitions the store has; left out for one. What is written in one step must lie in one
   * (model/routing/placement.ts).
   */
  readonly partitions?: number;

  submit(units: readonly SubmitUnit[]): Promise<readonly OrLocked<SubmitAnswer>[]>;
  claim(request: ClaimRequest): Promise<ClaimAnswer>;
  /** What a process tells and learns once a second, in one call. */
  heartbeat(request: HeartbeatRequest): Promise<HeartbeatAnswer>;
  settleIfLeased(settles: readonly Settle[]): Promise<readonly OrLocked<SettleAnswer>[]>;
  extendIfLeased(request: ExtendRequest): Promise<ExtendAnswer>;
  recordIfLeased(writes: readonly LeasedWrite[]): Promise<readonly OrLocked<RecordAnswer>[]>;
  changeIf(changes: readonly Change[]): Promise<readonly OrLocked<ChangeAnswer>[]>;

  promoteDue(request: { readonly max: number }): Promise<PromoteAnswer>;
  readDue(request: ReadDueRequest): Promise<ReadDueAnswer>;
  /** Later, with signals and budgets: refused as not-yet-supported. */
  signal(request: unknown): Promise<never>;
  adjust(request: unknown): Promise<never>;

  putGates(puts: readonly GatePut[]): Promise<readonly GatePutAnswer[]>;
  readGates(request: ReadGatesRequest): Promise<ReadGatesAnswer>;
  putDocs(puts: readonly DocPut[]): Promise<readonly PutDocAnswer[]>;
  readDocs(request: ReadDocsRequest): Promise<ReadDocsAnswer>;
  readDueDocs(request: ReadDueDocsRequest): Promise<ReadDueDocsAnswer>;
  readJobs(ids: readonly string[]): Promise<readonly (JobRecord | null)[]>;
  findJobs(request: FindRequest): Promise<FindAnswer>;
  /** The counting half of findJobs: exact, cheap, by route and state. */
  countJobs(): Promise<readonly StateCount[]>;
  /** Every route that has ever had a job here, by number: what gives a number its names back. */
  readRoutes(): Promise<readonly Route[]>;
  readFeed(request: FeedRequest): Promise<FeedAnswer>;
  readJournal(request: {
    readonly id: string;
    readonly after: number;
    readonly max: number;
  }): Promise<JournalAnswer>;

  prune(request: PruneRequest): Promise<PruneAnswer>;
  auditIndexes(request: { readonly cursor: string | null; readonly max: number }): Promise<AuditAnswer>;
  /**
   * Records that the store met and could not read. Whatever meets one (a claim, a promotion, a read of due jobs, the
   * audit) takes it out of every index and count in the same step, keeps it here and goes on with the others.
   */
  readUnreadable(request: { readonly after: string | null; readonly max: number }): Promise<UnreadableAnswer>;
  /** Deletes unreadable records for good, by their refs; answers how many were there. */
  deleteUnreadable(refs: readonly string[]): Promise<number>;
  /** The partitions that fail right now; lists, counts and duties pass over them. Left out for a store of one. */
  readonly missing?: () => readonly MissingPartition[];
  /** Of each route that has ready jobs, how long the one that would be claimed first has been due; for gauges. */
  readonly readHeads?: () => Promise<readonly ReadyHead[]>;
  /** How large each server or file of the store is, and how many are connected; for gauges, when somebody asks. */
  readonly measure?: () => Promise<readonly StoreMeasure[]>;
  /** Later, with moving a store: refused as not-yet-supported. */
  exportPage(request: unknown): Promise<never>;
  importPage(request: unknown): Promise<never>;

  /**
   * Hints the watchers of other processes that all jobs that were ready on these routes are claimed, by a claim that
   * was sent then (monotonic). Not awaited; left out where processes have no other way to each other than the feed.
   */
  readonly tellTaken?: (routes: readonly number[], sentUs: number) => void;

  /** Hints only: each may be lost or come twice, and every user of one has a slow read behind it. */
  watch(listener: (hint: Hint) => void): Unwatch;

  /** Submit and settle on the caller's own connection, inside the transaction open there. */
  inTransaction(connection: unknown): TransactionStore;

  close(): Promise<void>;
}

export type TransactionStore = Pick<Store, "submit" | "settleIfLeased">;

export type Unwatch = () => void;

export type Hint =
  /** Jobs became ready on these routes. */
  | { readonly kind: "ready"; readonly routes: readonly number[] }
  /**
   * The earliest clock that was set: a duty that sleeps longer should wake then. 0 tells of documents that are due
   * already, and hides no other clock.
   */
  | { readonly kind: "due"; readonly inMs: number }
  /** Due jobs were promoted just now: who stands by for their clocks need not do it. */
  | { readonly kind: "promoted" }
  /** Another process has just claimed all that was ready on these routes: who stands by for it need not. */
  | { readonly kind: "taken"; readonly routes: readonly number[] }
  | { readonly kind: "finished"; readonly ids: readonly string[] }
  /**
   * The feed may have grown. A store of several partitions says it behind each other hint, with the partition; any
   * other store says it only of what no other hint tells.
   */
  | { readonly kind: "told"; readonly partition: number }
  | { readonly kind: "cancel"; readonly ids: readonly string[]; readonly owner: string };

/** What an acknowledgement is worth: survives power loss, survives the process only, or ends with it. */
export type Durability = "strict" | "relaxed" | "memory";

export interface StoreDescription {
  readonly kind: string;
  readonly durability: Durability;
  /** What an acknowledgement is worth under the settings that were found, in a plain sentence. */
  readonly acknowledged?: string;
  /** The high part of every fence: grows whenever the store may have lost writes. */
  readonly epoch: number;
  readonly now: number;
  readonly schemaVersion: number;
  /** Left out for one. */
  readonly partitions?: number;
  readonly capabilities: { readonly transactions: boolean; readonly processes: "one" | "many" };
  /**
   * By how much the store's clock is ahead of the machine's: a clock that was set back goes on at the machine's pace.
   */
  readonly aheadMs?: number;
  /** Of a view only: how far it is behind, and whether anybody writes. */
  readonly view?: StoreView;
  /** Settings worth a warning, in plain sentences; shown by doctor. */
  readonly warnings: readonly string[];
  /** Only of a store in object storage: what this process has asked of it since it opened the store. */
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
  /** Bytes put for each byte of log records: the part above 1 is checkpoints. Null before the first record. */
  readonly amplification: number | null;
  /** Of the requests, in the currency of the store's prices. */
  readonly cost: number;
  /** Attempts that this process has settled meanwhile. */
  readonly settled: number;
  /** The cost by a million settled attempts; null before the first one. */
  readonly costPerMillion: number | null;
}

export interface StoreView {
  /** How long ago the view looked: what was acknowledged before then it shows. */
  readonly lagMs: number;
  /** Of the newest record, by the writer's clock. A living writer puts one every 10 s. */
  readonly recordAgeMs: number;
  /** Closed: in good order. Gone: its process is no more. Silent: nothing was heard of it for 15 s. */
  readonly writer: "writing" | "silent" | "gone" | "closed";
  /** The same for people. */
  readonly sentence: string;
}

export interface ReadyHead {
  readonly queue: string;
  /** Since it was due, by the store's clock. */
  readonly ageMs: number;
}

export interface StoreMeasure {
  /** What tells it from others of the same store; a file's own name. */
  readonly server: string;
  readonly sizeBytes: number;
  /** Of all who are connected to it; null where nobody can tell. */
  readonly connections: number | null;
}

export interface MissingPartition {
  readonly number: number;
  /** How often in a row it has failed. */
  readonly failures: number;
  readonly error: unknown;
}
