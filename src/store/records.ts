/**
 * The records that cross the store contract. Payloads, policies, meta and attempt logs are texts that a store keeps and
 * hands back unread; everything a rule reads is a number, a flag or a key.
 */
import type { dueFields, JobRow, leasedFields, toldOtherwise } from "./job-fields.ts";
import type { Due } from "../model/job/change.ts";
import type { EventKind } from "../model/events/event-kind.ts";
import type { GateBounds, GateState, GateUse, TokenRate } from "../model/limits/gate.ts";
import type { JobState } from "../model/job/job-state.ts";
import type { Unique } from "../model/job/unique-key.ts";

/** A job as submitted. */
export interface NewJob {
  readonly id: string;
  /** For a caller-given id: what must be equal for a repeat to be the same job. Null for a minted id. */
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
  /** Limits, sorted by key and without repeats; left out for none. Part of the route. */
  readonly gates?: readonly GateUse[];
  /** The capabilities that a worker must offer, sorted and without repeats; left out for none. Part of the route. */
  readonly caps?: readonly string[];
  /** Its lane; left out for none. */
  readonly laneKey?: string;
  readonly laneStep?: number | null;
  readonly laneGates?: readonly string[] | null;
  /**
   * Of a member of a flow, or a flow itself (model/flow/); left out for neither. It meets nobody: a held key refuses
   * it.
   */
  readonly flow?: string | null;
  readonly edges?: readonly string[] | null;
  readonly freed?: string | null;
  readonly waits?: string | null;
}

/**
 * Names one lease; all three must match. A caller-given id that was removed and submitted again is another job with
 * another seq, whose fences begin anew: without the seq a worker of its past life could settle the new one.
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
  /** The gates of its keys, where it has any. Only a claim tells them. */
  readonly keyGates?: readonly string[];
}

/** A job whose clock has rung, with what the model needs to decide. */
export interface DueJob extends Readonly<
  Omit<Pick<JobRow, (typeof dueFields)[number]>, (typeof toldOtherwise)[number]>
> {
  readonly state: JobState;
  readonly cancelAsked: boolean;
  /** Whether the running attempt reported that its handler had started. */
  readonly started: boolean;
  /** How long ago the clock rang. */
  readonly lateMs: number;
}

/** Everything about a job, live or finished. */
export interface JobRecord {
  readonly id: string;
  readonly seq: number;
  readonly queue: string;
  readonly name: string;
  /** What its route asks of a worker; left out for nothing. */
  readonly caps?: readonly string[];
  readonly state: JobState;
  /** 1 after the submit, then one more with every event but `started` and `progress`, which change no state. */
  readonly rev: number;
  readonly fence: number;
  readonly attempt: number;
  readonly countsAttempt: 0 | 1;
  readonly input: string;
  readonly policy: string | null;
  readonly meta: string | null;
  readonly tags: readonly string[] | null;
  /** Its lane, as submitted; null for none. */
  readonly laneKey: string | null;
  readonly laneStep: number | null;
  readonly laneGates: readonly string[] | null;
  /** It waits for its retry and holds its group meanwhile. */
  readonly keepsLane: 0 | 1;
  /** Of a member of a flow, or a flow itself (model/flow/); null for neither. */
  readonly flow: string | null;
  readonly edges: readonly string[] | null;
  readonly waits: string | null;
  readonly attempts: string | null;
  readonly progress: string | null;
  readonly rank: number;
  readonly createdAt: number;
  readonly dueAt: number;
  readonly deadlineAt: number | null;
  readonly ttlAt: number | null;
  /** As submitted, whether the job still holds it or not. */
  readonly uniqueKey: string | null;
  /** Stays until the job ends, over hand-backs too; a replay clears it. */
  readonly cancelAsked: boolean;
  /** Of the present or last attempt; the two ends are null unless it is running. */
  readonly owner: string | null;
  readonly claimedAt: number | null;
  readonly startedAt: number | null;
  readonly leaseEndsAt: number | null;
  readonly attemptEndsAt: number | null;
  /** Finished jobs only. */
  readonly endedAt: number | null;
  readonly reason: string | null;
  readonly result: string | null;
  readonly keepUntil: number | null;
}

/** A versioned document: settings, terms, the caller's KV. One mechanism for all. */
export interface Doc {
  readonly kind: string;
  readonly id: string;
  readonly version: number;
  readonly body: string;
  readonly dueAt: number | null;
  readonly expiresAt: number | null;
}

/**
 * A guarded write of one document, whole: a time left out is none. `body: null` deletes it. Versions grow by 1. A new
 * document begins above every version that a deleted or pruned document of the store has had (at 1 where there was
 * none), and one written over an expired document goes on from its version: no version of a document is ever given
 * twice, so that it can serve as a fencing term.
 */
export type DocPut = {
  readonly kind: string;
  readonly id: string;
  readonly body: string | null;
  readonly guard: DocGuard;
  /** What the feed tells where the put is applied; left out for nothing. */
  readonly tells?: PutEvent;
} & (
  | { readonly due?: null; readonly expiresInMs?: number | null }
  /** From its due time on the document is given by `readDueDocs`. One that is due does not expire. */
  | { readonly due: Due; readonly expiresInMs?: null }
);

/**
 * An event of no job: in the feed its id is the subject, its rev, route and attempt are 0 and its state is null.
 */
export interface PutEvent {
  readonly kind: Extract<EventKind, `queue-${string}` | `worker-${string}`>;
  readonly subject: string;
  readonly extra: string | null;
}

/** An expired document counts as absent, with version 0, for every guard and every read. */
export type DocGuard = "any" | "absent" | { readonly version: number };

/**
 * A guard without a write: the document is there with this version, from the step that checks it until that step is
 * committed, be it in the caller's own transaction; else the unit is refused as `doc-changed`. Checks exclude puts of
 * the document, not one another.
 */
export interface DocCheck {
  readonly kind: string;
  readonly id: string;
  readonly version: number;
}

/** A gate (rule R7) as it stands. */
export interface Gate extends GateState {
  readonly key: string;
  /** 1 with the first put, then one more with each. */
  readonly version: number;
  /** New jobs of its queue are refused. */
  readonly isDraining: boolean;
  /** What bounds each key of it (model/routing/lane.ts) that has no bounds of its own; null for nothing. */
  readonly perKey: GateBounds | null;
  /** What people set, unread by any rule. */
  readonly body: string | null;
}

/**
 * A guarded write of one gate, whole but for its token time. Gates are not removed: one that asks for nothing is open.
 */
export interface GatePut {
  readonly key: string;
  /** Version 0: the gate was never put. */
  readonly guard: "any" | { readonly version: number };
  readonly cap: number | null;
  readonly rate: TokenRate | null;
  /** How long nothing passes; null for open. */
  readonly closed: Due | null;
  readonly isDraining: boolean;
  /** Left out for null. */
  readonly perKey?: GateBounds | null;
  readonly body: string | null;
  /** Takes all tokens that are there: the token time is at least now + burstUs. */
  readonly drains?: boolean;
  /** What the feed tells where the put is applied; left out for nothing. Over partitions it is told once. */
  readonly tells?: PutEvent;
}

/**
 * What rides along in the same atomic step as a submit, a settle or a change. All apply or the unit is refused. Applied
 * in this order behind the job's own change, so a follow-up may take the unique key that the finishing job frees; the
 * first refusal is told.
 */
export interface Effects extends Growth {
  readonly jobs?: readonly NewJob[];
  readonly docs?: readonly DocPut[];
}

/**
 * What new members mean to the flow that they join, behind the jobs. Where one part fails the unit is `flow-closed`.
 */
export interface Growth {
  /**
   * Each of these is blocked and nobody has asked for its cancel: it needs so much more, and has so many members more.
   */
  readonly grows?: readonly {
    readonly id: string;
    readonly need: number;
    readonly slack: number;
    readonly members: number;
  }[];
  /**
   * Edges from members that are there already, behind what grows: each has one edge more. Where the end of such a
   * member has gone along all its edges, it goes along this one at once.
   */
  readonly links?: readonly { readonly from: string; readonly edge: string }[];
}

/**
 * One change of one job as the feed tells it. Order inside a job is rev; what tells no change has that of the change
 * before.
 */
export interface FeedEvent {
  readonly kind: EventKind;
  readonly id: string;
  readonly rev: number;
  readonly route: number;
  /** The state after the change; null once removed. */
  readonly state: JobState | null;
  readonly attempt: number;
  /**
   * By the kind: claimed = 1 where its handler starts with the claim; started = startedAt; progress = the text. Of any
   * other, by the state after: scheduled = dueAt; terminal = reason; running with a cancel asked = owner; else null.
   */
  readonly extra: string | number | null;
  /**
   * Of a settle: "!" where nobody had told that the attempt started, then its attempt log where that is not longer than
   * `storeLimits.noteCharsMax`. Left out where that is nothing.
   */
  readonly note?: string;
  /** Its place in the record, from 0 on, where only some of its events were asked for. */
  readonly index?: number;
}

/**
 * Events of a record that differ only in their job, whose ids are still packed: `BundleWalk` of packed-events.ts reads
 * them.
 */
export interface FeedBundle extends Omit<FeedEvent, "id" | "note" | "index"> {
  /** The place of its first event in the record, from 0 on. */
  readonly first: number;
  /** How many events it has. */
  readonly count: number;
  /** Their ids, each with its note behind it where the bundle is noted. */
  readonly packed: string;
  /** What all of its notes begin with, which is not packed with them; null where it has none. */
  readonly noteStart: string | null;
}

/**
 * One record per store call that changed something. Events of one job in order of rev; between jobs the order is free.
 */
export interface FeedRecord {
  readonly number: number;
  readonly at: number;
  /** None where bundles were asked for. */
  readonly events: readonly FeedEvent[];
  /** Where they were asked for. */
  readonly bundles?: readonly FeedBundle[];
  /** How many events it has, where bundles or only some of them were asked for. */
  readonly count?: number;
}

/**
 * How many jobs of a route are in a state, finished ones that are still kept included; exact at every commit, never 0.
 */
export interface StateCount {
  readonly queue: string;
  readonly name: string;
  /** Left out for none. */
  readonly caps?: readonly string[];
  /** That all its jobs have to pass, beside the gate of their queue and those of their keys; left out for none. */
  readonly gates?: readonly GateUse[];
  readonly state: JobState;
  readonly count: number;
}
