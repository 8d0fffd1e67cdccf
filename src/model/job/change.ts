/**
 * The next state of a job, computed by the model and applied by a store under a guard. Times are relative: the store
 * adds its own time (R1). A store reads only numbers, flags and keys here, never a name, an error or a setting.
 */
import type { EventKind } from "../events/event-kind.ts";
import type { TerminalState } from "./job-state.ts";

/**
 * A due time: after a while, or at an instant, by the store's clock. `isNamed`: a person or a calendar named the
 * instant, so it counts by the server's own clock, of which the store's may be ahead after it was set back.
 */
export type Due = { readonly inMs: number } | { readonly at: number; readonly isNamed?: true };

/** The end of the job (R3): it leaves the live set and its history is written. */
export interface Finish {
  readonly to: TerminalState;
  readonly event: EventKind;
  readonly reason: string | null;
  /** The encoded result of a completed job. */
  readonly result: string | null;
  /** How long the finished job is kept; null leaves it to the queue's retention, 0 keeps nothing. */
  readonly keepMs: number | null;
  /** How long its result is kept if that is shorter; absent for as long as the job. */
  readonly keepResultMs?: number;
  /**
   * A job with a lane goes on holding the gate of its group, and is kept until it is replayed or deleted: retention
   * passes over it. Comes with `keepMs: null`.
   */
  readonly keepsLane?: true;
}

/**
 * The job waits again (R1): claimable once due, at once if `due` has passed already. From a terminal state this is a
 * replay: reason, result and a requested cancel are cleared.
 */
export interface Schedule {
  readonly to: "scheduled";
  readonly event: EventKind;
  readonly due: Due;
  readonly rankBase: number;
  readonly rankSlope: number;
  /** 0 gives the attempt back: the next claim goes on with the same attempt number. */
  readonly countsAttempt: 0 | 1;
  /** The time-to-live, counted from the new due time; null for none, or if the job has started before. */
  readonly ttlMs: number | null;
  /** Sets the attempt number (a replay starts a new round at 0); unchanged if undefined. */
  readonly attempt?: number;
  /** A deadline that has passed by the store's clock is cleared, because the job would expire at once. */
  readonly clearsPassedDeadline?: true;
  /**
   * A job with a lane keeps its rank and the gate of its group while it is scheduled, so no other job of the group
   * overtakes it.
   */
  readonly keepsLane?: true;
  readonly edit?: Edit;
  /** A durable run begins a new round: its journal keeps what nobody has read, and nothing else. */
  readonly newRound?: true;
}

/**
 * A durable run waits for a signal, a child or a time. It keeps its place, and an append makes it ready again. It comes
 * with the number of the journal's last entry (`Settle.journal.seen`), so that no append is missed.
 */
export interface Suspend {
  readonly to: "suspended";
  readonly event: EventKind;
  /** When it wakes by itself; null for never. */
  readonly wake: Due | null;
  readonly countsAttempt: 0 | 1;
  /** Sets the attempt number, as in a schedule. */
  readonly attempt?: number;
  /** As in a schedule. */
  readonly keepsLane?: true;
}

/** The job is claimable again at once, with its old rank and due time: it keeps its place. */
export interface HandBack {
  readonly to: "ready";
  readonly event: EventKind;
  readonly countsAttempt: 0 | 1;
}

/**
 * The job stays in its state: an edit of its payload or priority, a requested cancel, or an entry for its journal
 * (event `signalled`, which changes nothing else of the job and is no new rev).
 */
export interface Update {
  readonly to: "same";
  readonly event: EventKind;
  readonly cancelAsked?: boolean;
  readonly edit?: Edit;
  /** A new rank, for a changed priority; the due time stays. */
  readonly rankBase?: number;
  readonly rankSlope?: number;
  /** Of a finished member of a flow: its end goes along up to this many more edges (`edgesOfStep` in flow/edge.ts). */
  readonly passesOn?: number;
}

/**
 * A member of a flow waits for others (R4): a finished one that is replayed, or a blocked one whose parents are counted
 * again. Parents that have ended arrive at once, so the job may be freed in the same step, or leave deferred work. A
 * finished member comes back without a deadline that has passed.
 */
export interface Block {
  readonly to: "blocked";
  readonly event: EventKind;
  /** Edges (flow/edge.ts) that lead here. Instead of a target each has the id of the member that it comes from. */
  readonly parents: readonly string[];
  /** The counts before any parent has arrived. Null keeps the present counts; then there are no parents. */
  readonly waits: { readonly need: number; readonly slack: number } | null;
  /** As in a schedule. */
  readonly attempt?: number;
}

/** The job is deleted from the store: no history, only the event. */
export interface Delete {
  readonly to: "deleted";
  readonly event: "deleted";
}

export interface Edit {
  readonly input?: string;
  readonly policy?: string | null;
  readonly meta?: string | null;
  /** Null for none. */
  readonly tags?: readonly string[] | null;
}

/** What a running attempt may write with its fence. */
export type SettleNext = AttemptNext | Suspend;
/** How an attempt ends, whoever decides it. */
export type AttemptNext = Finish | Schedule | HandBack;
/** What an operator or a duty may write with its guard. */
export type ChangeNext = AttemptNext | Update | Block | Delete;
