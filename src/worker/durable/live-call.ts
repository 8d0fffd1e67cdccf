/**
 * A call of `step` in a run that is alive in this process: the promise that the handler awaits, and how far the call
 * has come. It settles only when an entry of the journal is delivered to it. When the run is suspended, nothing refers
 * to the call any more but the handler's own frames, and both are collected.
 */
import type { AskedCall } from "../../model/durable/journal-cursor.ts";
import type { CallKind } from "../../model/durable/journal-entry.ts";
import type { UnreadSignal } from "../../model/durable/signal-buffer.ts";
import type { Start } from "./run-journal.ts";

/** What a kind of call does; most kinds have a few of these. */
export interface CallPlan {
  /** Runs the step's own code. */
  readonly work?: (attempt: number, signal: AbortSignal) => Promise<unknown>;
  /** @returns null if it does not run again. */
  readonly retryDelayMs?: (attempt: number, error: unknown) => number | null;
  readonly undo?: (value: unknown) => unknown;
  /** A job that begins with the call. */
  readonly start?: Start;
  /** The name of the signal that it waits for. */
  readonly signal?: string;
  /** Where it waits for it; left out for signals that are sent to the run itself. */
  readonly businessKey?: string;
  /** Its time counts from the entry `opened`. */
  readonly endsInMs?: number;
  readonly endsAt?: number;
  /** Whether the wait takes this value. */
  readonly where?: (value: unknown) => boolean;
  /** Of an approval. */
  readonly needed?: number;
  /** Of an approval: the job that is enqueued when the time is over once. */
  readonly escalation?: Start;
  /** What the handler gets once the time is over; left out for nothing. */
  readonly rang?: () => Settlement;
  /** What the handler gets of a failure that was recorded. */
  readonly failed?: (cause: unknown) => unknown;
  /** What the handler gets of a signal. */
  readonly arrived?: (signal: UnreadSignal, value: unknown) => unknown;
  /** Of a race: what the keys of each branch begin with. */
  readonly branches?: ReadonlyMap<string, string>;
}

export type Settlement =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "error"; readonly error: unknown };

export class LiveCall implements AskedCall {
  readonly key: string;
  readonly kind: CallKind;
  readonly plan: CallPlan;
  readonly promise: Promise<unknown>;
  /** An entry has settled it. */
  isSettled = false;
  /** What settles it is on its way into the journal. */
  isDecided = false;
  /** Its entry `escalated` is there, or on its way. */
  isEscalated = false;
  /** Its entry `opened` is there, or on its way. */
  isOpened = false;
  wakeAt: number | null = null;
  /** How often the step has failed. */
  attempt = 0;
  /** The step's code runs now. */
  running: AbortController | null = null;
  /** Of a race: how its branches have ended, in that order. */
  readonly ended = new Map<string, Settlement>();
  #resolve!: (value: unknown) => void;
  #reject!: (error: unknown) => void;

  constructor(key: string, kind: CallKind, plan: CallPlan) {
    this.key = key;
    this.kind = kind;
    this.plan = plan;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // A step that fails while its handler awaits something else is no unhandled rejection of this process.
    this.promise.catch(() => undefined);
  }

  get businessKey(): string | null {
    return this.plan.businessKey ?? null;
  }

  /** It waits for a time, a signal or a job, and not for code of its own. */
  get isWaiting(): boolean {
    if (this.isSettled || this.isDecided || this.kind === "race") return false;
    return this.plan.work === undefined || (this.wakeAt !== null && this.running === null);
  }

  settle(settlement: Settlement): void {
    if (this.isSettled) return;
    this.isSettled = true;
    if (settlement.kind === "value") this.#resolve(settlement.value);
    else this.#reject(settlement.error);
  }
}
