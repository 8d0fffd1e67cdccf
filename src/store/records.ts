/**
 * The records that cross the store contract. Payloads, policies, meta and attempt logs are texts that a store never
 * reads; everything that a rule reads is a number, a flag or a key.
 */
import type {
  dueFields,
  JobFieldName,
  JobFields,
  JobRow,
  leasedFields,
  answeredOtherwise,
} from "./job-fields.ts";
import type { Due } from "../model/job/change.ts";
import type { EventKind } from "../model/events/event-kind.ts";
import type { GateBounds, GateState, GateUse, TokenRate } from "../model/limits/gate.ts";
import type { JobState } from "../model/job/job-state.ts";
import type { Unique } from "../model/job/unique-key.ts";

/** A job as submitted. */
export interface NewJob {
  readonly id: string;
  /** For a given id: a repeat is the same job iff this is equal. Null for a minted id. */
  readonly digest: string | null;
  readonly queue: string;
  readonly name: string;
  readonly input: string;
  readonly policy: string | null;
  /** Headers and trace context, one text. */
  readonly meta: string | null;
  readonly tags: readonly string[] | null;
  readonly due: Due;
  readonly rankBase: number;
  readonly rankSlope: number;
  /** "Must finish by"; null for none. */
  readonly deadline: Due | null;
  /** Counted from the due time, ended by the first claim; null for none. */
  readonly ttlMs: number | null;
  readonly unique: Unique | null;
  /** Limits, sorted by key and without repeats; absent for none. Part of the route. */
  readonly gates?: readonly GateUse[];
  /** The capabilities that a worker must offer, sorted and without repeats; absent for none. Part of the route. */
  readonly requires?: readonly string[];
  /** Its lane; absent for none. */
  readonly laneKey?: string;
  readonly laneStep?: number | null;
  readonly laneGates?: readonly string[] | null;
  /**
   * For a member of a flow, or a flow itself (model/flow/); absent for other jobs. It replaces no other job: a held key
   * refuses it.
   */
  readonly flow?: string | null;
  readonly edges?: readonly string[] | null;
  readonly freed?: string | null;
  readonly waits?: string | null;
}

/**
 * Names one lease; all three must match. A given id that was deleted and submitted again is another job with another
 * seq, whose fences begin again: without the seq a worker of the deleted job could settle the new one.
 */
export interface LeaseRef {
  readonly id: string;
  readonly seq: number;
  readonly fence: number;
}

/** A job as a claim hands it out: what `leasedFields` names of it. */
export interface LeasedJob extends Readonly<Omit<Pick<JobRow, (typeof leasedFields)[number]>, "claimedAt">> {
  /** Store time of the claim. */
  readonly claimedAt: number;
  /** The gates of its keys, if it has any. Only a claim returns them. */
  readonly keyGates?: readonly string[];
}

/** A job with a due clock, with what the model needs to decide. */
export interface DueJob extends Readonly<
  Omit<Pick<JobRow, (typeof dueFields)[number]>, (typeof answeredOtherwise)[number]>
> {
  readonly state: JobState;
  readonly cancelAsked: boolean;
  /** Whether the running attempt reported that its handler had started. */
  readonly started: boolean;
  /** For how long the clock has been due. */
  readonly lateMs: number;
}

/** The fields that a read of a job shows: all but those for the store's own use. */
type ShownField = {
  [Name in JobFieldName]: JobFields[Name] extends { readonly isOwn: true } ? never : Name;
}[JobFieldName];

/** Everything about a job, live or finished. What a field means stands in job-fields.ts. */
export interface JobRecord extends Readonly<Omit<Pick<JobRow, ShownField>, "state" | "cancelAsked">> {
  readonly queue: string;
  readonly name: string;
  /** What its route requires of a worker; absent for nothing. */
  readonly requires?: readonly string[];
  readonly state: JobState;
  /** Kept until the job ends, also over hand-backs; a replay clears it. */
  readonly cancelAsked: boolean;
}

/**
 * An entry of the journal of a durable run, before the store has accepted it. model/durable/journal-entry.ts says what
 * a body means; a store does not read it.
 */
export interface EntryPut {
  /** The journal accepts it once per round. An entry whose key it has already is passed over. */
  readonly key: string;
  readonly body: string;
  /** Bits that it sets in the field `durable` of the job (model/durable/durable-marks.ts); absent for none. */
  readonly marks?: number;
  /** Its size as long as nobody has read it, above 0. Absent for an entry that needs no reader. */
  readonly unread?: number;
  /** The numbers of the unread entries that this one reads. */
  readonly reads?: readonly number[];
}

/** An entry as the journal keeps it. Numbers begin at 1 and have no gaps. */
export interface Entry {
  readonly number: number;
  /** When the store accepted it. */
  readonly at: number;
  readonly key: string;
  readonly body: string;
}

/**
 * A result that was committed together with the caller's own rows. It has no number: the run's worker adopts it by an
 * entry. A journal has one per key and round.
 */
export interface Slip {
  readonly key: string;
  readonly body: string;
}

/** Where a chunk of output stands: by fence, then by number. */
export interface FramePlace {
  readonly fence: number;
  /** From 1 on. A chunk has the number of its last frame, so numbers of an attempt rise and have gaps. */
  readonly number: number;
}

/** A chunk of output: packed frames of one attempt. A store does not read its body (model/output/chunk-text.ts). */
export interface FrameChunk extends FramePlace {
  /** When the store accepted it. */
  readonly at: number;
  readonly body: string;
}

/** What a running attempt adds to the output of its job, under its fence. */
export interface FramesPut {
  /**
   * With numbers that rise from write to write. A repeat of the last write, whose answer was lost, changes nothing: a
   * chunk whose number the attempt has written is passed over.
   */
  readonly chunks: readonly Pick<FrameChunk, "number" | "body">[];
  /** Replaces the summary of the output. */
  readonly summary?: string;
  /** What attempts with lower fences have written is deleted first, and the summary. */
  readonly restarts?: true;
  /** Afterwards all chunks up to this place are deleted. */
  readonly dropsTo?: FramePlace;
}

/** A versioned document: settings, registrations, the leader lease, the caller's KV. One mechanism for all. */
export interface Doc {
  readonly kind: string;
  readonly id: string;
  readonly version: number;
  readonly body: string;
  readonly dueAt: number | null;
  readonly expiresAt: number | null;
}

/** A put of a document: all of it is written, or a number is added to it. */
export type DocPut = DocWrite | DocAdd;

/**
 * A guarded write of one whole document: an absent time means none. `body: null` deletes it. Versions grow by 1. A new
 * document begins above every version that a deleted or pruned document of the store has had (at 1 if there was none).
 * One that is written over an expired document goes on from its version. So no version of a document occurs twice, and
 * it can serve as a fence.
 */
export type DocWrite = {
  readonly kind: string;
  readonly id: string;
  readonly body: string | null;
  readonly guard: DocGuard;
  /** The event to emit if the put is applied; absent for none. */
  readonly emits?: PutEvent;
  readonly add?: never;
} & (
  | { readonly due?: null; readonly expiresInMs?: number | null }
  /** From its due time on `readDueDocs` returns the document. A document with a due time does not expire. */
  | { readonly due: Due; readonly expiresInMs?: null }
);

/**
 * Adds to a counter (rule R9): a document whose body is a whole number of at most 2^53 - 1 either way, in decimal
 * digits. An absent or expired one counts as 0. Its version grows as with each put, and it has no due time afterwards.
 */
export interface DocAdd {
  readonly kind: string;
  readonly id: string;
  readonly add: Add;
  /** Counted anew with each add; absent for none. */
  readonly expiresInMs?: number | null;
  readonly body?: never;
  readonly guard?: never;
  readonly due?: never;
  readonly emits?: never;
}

/** All numbers are whole and at most 2^53 - 1 either way. */
export interface Add {
  /** A negative one takes away. */
  readonly by: number;
  /** The add is applied iff it takes away, or the sum is at most this. Absent for none. */
  readonly ceiling?: number | null;
  /** Thresholds. */
  readonly marks?: readonly number[];
  /**
   * If the number passes a mark upwards (before < mark <= after), this document is put in the same step, under any
   * guard, empty and due now: deferred work. Once for one add, however many marks it passes.
   */
  readonly leaves?: { readonly kind: string; readonly id: string };
}

/**
 * An event of no job: in the feed its id is the subject, its rev, route and attempt are 0 and its state is null.
 */
export interface PutEvent {
  readonly kind: Extract<EventKind, `queue-${string}` | `worker-${string}` | `budget-${string}`>;
  readonly subject: string;
  readonly extra: string | null;
}

/** An expired document counts as absent, with version 0, for every guard and every read. */
export type DocGuard = "any" | "absent" | { readonly version: number };

/**
 * A guard without a write: the document has this version from the step that checks it until that step is committed,
 * also in the caller's own transaction. Otherwise the unit is refused as `doc-changed`. Checks exclude puts of the
 * document, but not each other.
 */
export interface DocCheck {
  readonly kind: string;
  readonly id: string;
  readonly version: number;
}

/** A gate (rule R7) in its present state. */
export interface Gate extends GateState {
  readonly key: string;
  /** 1 with the first put, then one more with each. */
  readonly version: number;
  /** New jobs of its queue are refused. */
  readonly isIntakeClosed: boolean;
  /** The bounds of each of its keys (model/routing/lane.ts) without bounds of its own; null for none. */
  readonly perKey: GateBounds | null;
  /** What users have set; no rule reads it. */
  readonly body: string | null;
}

/** A guarded write of one gate, except its token time. Gates are not deleted: one without bounds is open. */
export interface GatePut {
  readonly key: string;
  /** Version 0: the gate was never put. */
  readonly guard: "any" | { readonly version: number };
  readonly cap: number | null;
  readonly rate: TokenRate | null;
  /** How long no job passes; null for open. */
  readonly closed: Due | null;
  readonly isIntakeClosed: boolean;
  /** Absent for null. */
  readonly perKey?: GateBounds | null;
  readonly body: string | null;
  /** Takes all present tokens: the token time is at least now + burstUs. */
  readonly emptiesRate?: boolean;
  /** The event to emit if the put is applied; absent for none. Over partitions it is emitted once. */
  readonly emits?: PutEvent;
}

/**
 * What is applied in the same atomic step as a submit, a settle or a change. All are applied or the unit is refused.
 * They are applied in this order after the job's own change, so a follow-up may take the unique key that the finishing
 * job frees. The answer names the first refusal.
 */
export interface Effects extends Growth {
  readonly jobs?: readonly NewJob[];
  readonly docs?: readonly DocPut[];
}

/**
 * What new members change in the flow that they join, applied after the jobs. If one part fails, the answer is
 * `flow-closed`.
 */
export interface Growth {
  /** Each of these must be blocked without a requested cancel: its need and its number of members grow. */
  readonly grows?: readonly {
    readonly id: string;
    readonly need: number;
    readonly slack: number;
    readonly members: number;
  }[];
  /**
   * New edges from existing members, applied after `grows`. If the end of such a member has gone along all its edges,
   * it goes along this one at once.
   */
  readonly links?: readonly { readonly from: string; readonly edge: string }[];
}

/**
 * One change of one job as the feed has it. The order inside a job is rev; an event without a change has the rev of the
 * change before.
 */
export interface FeedEvent {
  readonly kind: EventKind;
  readonly id: string;
  readonly rev: number;
  readonly route: number;
  /** The state after the change; null once deleted. */
  readonly state: JobState | null;
  readonly attempt: number;
  /**
   * By the kind: claimed = 1 if its handler starts with the claim; started = startedAt; progress and step = the text.
   * For any other kind, by the state after: scheduled = dueAt; terminal = reason; running with a requested cancel, or
   * signalled = owner; else null.
   */
  readonly extra: string | number | null;
  /**
   * For a settle: "!" if the start of the attempt was not emitted, then the attempt log if it is not longer than
   * `storeLimits.noteCharsMax`. Absent if empty.
   */
  readonly note?: string;
  /** Its index in the record, from 0, if only some events were requested. */
  readonly index?: number;
}

/**
 * Events of a record that differ only in their job, whose ids are still packed: `BundleWalk` of packed-events.ts reads
 * them.
 */
export interface FeedBundle extends Omit<FeedEvent, "id" | "note" | "index"> {
  /** The index of its first event in the record, from 0. */
  readonly first: number;
  /** How many events it has. */
  readonly count: number;
  /** Their ids, each followed by its note if the bundle has notes. */
  readonly packed: string;
  /** The common prefix of its notes, which is not packed with them; null without notes. */
  readonly noteStart: string | null;
}

/**
 * One record per store call that changed something. Events of one job in order of rev; between jobs the order is free.
 */
export interface FeedRecord {
  readonly number: number;
  readonly at: number;
  /** Empty if bundles were requested. */
  readonly events: readonly FeedEvent[];
  /** Only if they were requested. */
  readonly bundles?: readonly FeedBundle[];
  /** How many events it has, if bundles or only some events were requested. */
  readonly count?: number;
}

/**
 * How many jobs of a route are in a state, including finished ones that are still kept; exact at every commit, never 0.
 */
export interface StateCount {
  readonly queue: string;
  readonly name: string;
  /** Absent for none. */
  readonly requires?: readonly string[];
  /**
   * The gates that all its jobs have to pass, besides the gate of their queue and those of their keys; absent for none.
   */
  readonly gates?: readonly GateUse[];
  readonly state: JobState;
  readonly count: number;
}
