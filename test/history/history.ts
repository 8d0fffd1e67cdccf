/**
 * The evidence of a run, from a simulation or from real processes: H, every call with its invocation and its answer; S,
 * what the store holds at the end; E, what handlers did. The checker reads nothing else.
 */
import type { JobState } from "../../src/model/job/job-state.ts";
import type {
  Change,
  ChangeAnswer,
  ClaimAnswer,
  ClaimRequest,
  ExtendAnswer,
  ExtendRequest,
  GatePutAnswer,
  LeasedWrite,
  OrLocked,
  PutDocAnswer,
  RecordAnswer,
  Settle,
  SettleAnswer,
  SubmitAnswer,
  SubmitUnit,
} from "../../src/store/operations.ts";
import type {
  Doc,
  DocPut,
  Entry,
  FeedRecord,
  FrameChunk,
  Gate,
  GatePut,
  JobRecord,
  StateCount,
} from "../../src/store/records.ts";

/** What the caller knows: an answer, that nothing happened, or nothing. */
export type Seen = "ok" | "failed" | "unknown";

interface Base {
  /** The process that called. */
  readonly actor: string;
  /** One monotonic clock for the whole run. */
  readonly invokedUs: number;
  answeredUs: number | null;
  seen: Seen;
  /** The place of its effect among all effects, where that is known (a simulation knows, real processes do not). */
  order: number | null;
}

type Call<Kind extends string, Request, Answer> = Base & {
  readonly kind: Kind;
  readonly request: Request;
  /** What the store answered, also when the reply was lost; null when it did not happen or nobody knows. */
  answer: Answer | null;
  /** Of a store with several partitions, the one that was asked. */
  readonly partition?: number;
  /**
   * The time in which its effect lies: it was at the store from then on, and until then. Null when it never came there;
   * left out by real processes, which do not know.
   */
  reachedUs?: number | null;
  leftUs?: number | null;
};

export type StoreCall =
  | Call<"submit", readonly SubmitUnit[], readonly OrLocked<SubmitAnswer>[]>
  | Call<"claim", ClaimRequest, ClaimAnswer>
  | Call<"settleIfLeased", readonly Settle[], readonly OrLocked<SettleAnswer>[]>
  | Call<"extendIfLeased", ExtendRequest, ExtendAnswer>
  | Call<"recordIfLeased", readonly LeasedWrite[], readonly OrLocked<RecordAnswer>[]>
  | Call<"changeIf", readonly Change[], readonly OrLocked<ChangeAnswer>[]>
  | Call<"putGates", readonly GatePut[], readonly GatePutAnswer[]>
  | Call<"putDocs", readonly DocPut[], readonly PutDocAnswer[]>;

export type StoreCallKind = StoreCall["kind"];

/** The calls that evidence is taken of; of puts of documents, those that add to counters. */
export const recordedCalls: readonly StoreCallKind[] = [
  "submit",
  "claim",
  "settleIfLeased",
  "extendIfLeased",
  "recordIfLeased",
  "changeIf",
  "putGates",
  "putDocs",
];

/** The kind of the counters that the checker judges: whoever runs a history adds to them alone. */
export const countKind = "count";

export function isRecorded(kind: string, request: unknown): boolean {
  if (kind === "putDocs") return (request as readonly DocPut[]).some(({ add }) => add !== undefined);
  return (recordedCalls as readonly string[]).includes(kind);
}

/** What application code saw of an enqueue: the inputs, each used for one job only, the ids it got. */
export type Enqueue = Base & {
  readonly kind: "enqueue";
  readonly inputs: readonly string[];
  got: readonly string[] | null;
};

/** A read of a job right after its enqueue was acknowledged. */
export type ReadBack = Base & { readonly kind: "read-back"; readonly id: string; found: boolean };

/** What application code saw of a purge: all jobs of a queue in these states, and how many it was told are gone. */
export type Purge = Base & {
  readonly kind: "purge";
  readonly queue: string;
  readonly states: readonly JobState[];
  deleted: number;
};

/** A worker that was told to stop and did; `held` are the jobs that the store still holds for it. */
export type Stop = Base & {
  readonly kind: "stop";
  readonly owner: string;
  held: readonly string[];
  /** Nothing was in the way of its last settles. */
  readonly isUndisturbed: boolean;
};

/**
 * What an operator saw of closing a gate (a pause, a throttle) or of opening it (a resume, a reset). A pause for a time
 * is both: it ends a longer one.
 */
export type GateAct = Base & {
  readonly kind: "close-gate" | "open-gate";
  readonly key: string;
  /** Of a close that was answered: when the gate opens by itself, by the store's clock. */
  until: number | null;
};

/** What somebody who answers by a token was told. */
export type TokenAnswer = Base & {
  readonly kind: "token-answer";
  readonly run: string;
  readonly round: number;
  /** Under which the journal accepts it. */
  readonly key: string;
  /** When the token, and the key that signed it, stop being accepted, by the store's clock; null for never. */
  readonly expiresAt: number;
  readonly keyEndsAt: number | null;
  /** When the call began, by the store's clock; left out if only the span of the call is known. */
  readonly invokedAt?: number;
  said: "accepted" | "refused" | null;
};

/** A process begins to work, and what all its workers offer. */
export type Work = Base & { readonly kind: "work"; readonly capabilities: readonly string[] };

export type Operation = StoreCall | Enqueue | ReadBack | Purge | Stop | GateAct | TokenAnswer | Work;

/** E: a handler began or ended. */
export interface Effect {
  readonly kind: "began" | "ended";
  readonly id: string;
  readonly fence: number;
  readonly attempt: number;
  readonly actor: string;
  readonly atUs: number;
  /** How it ended, as the handler itself knows it. */
  readonly how?:
    | "returned"
    | "threw"
    | "unrecoverable"
    | "retry-after"
    | "snoozed"
    | "throttled"
    | "cancelled"
    | "killed";
  readonly retryInMs?: number;
  /** Whether its signal had fired by then. */
  readonly wasAborted?: boolean;
}

/** The function of a step of a durable run began. */
export interface StepRun {
  readonly id: string;
  readonly fence: number;
  readonly round: number;
  readonly call: string;
  readonly atUs: number;
}

/** The journal of a durable run, whole. */
export interface KeptJournal {
  readonly id: string;
  readonly entries: readonly Entry[];
}

/** S, read when nothing runs any more. */
/** The output of a job. */
export interface KeptOutput {
  readonly id: string;
  readonly chunks: readonly FrameChunk[];
}

export interface Snapshot {
  readonly jobs: readonly JobRecord[];
  readonly stateCounts: readonly StateCount[];
  readonly feed: readonly FeedRecord[];
  /** The feed again, read in pages from cursor to cursor. */
  readonly feedByPages: readonly FeedRecord[];
  readonly kv: readonly Doc[];
  /** Of the kind `countKind`. */
  readonly counters: readonly Doc[];
  readonly schedules: readonly Doc[];
  readonly gates: readonly Gate[];
  readonly journals: readonly KeptJournal[];
  /** Of jobs that have any. */
  readonly outputs: readonly KeptOutput[];
  readonly now: number;
}

export interface Evidence {
  readonly operations: readonly Operation[];
  readonly effects: readonly Effect[];
  /** Left out where no durable runs are. */
  readonly steps?: readonly StepRun[];
  readonly snapshot: Snapshot;
  /** No fault was injected: no lease may be lost, no settle refused. */
  readonly isFaultFree: boolean;
  /**
   * How long real processes may get no processor: what is promised in seconds may be late by as much. Virtual time has
   * none.
   */
  readonly slackMs?: number;
  /** Store time since which nothing was disturbed; null when that was never so. */
  readonly healedAt: number | null;
  /** Sentences about flows that were counted wrong behind some commit; left out where nobody looked. */
  readonly miscounts?: readonly string[];
  /** How many of each were left after everything was closed. */
  readonly leftovers: Readonly<Record<string, number>>;
}
