/** What one stay of a run is given, and how it may end. */
import type { Difference } from "../../model/durable/journal-cursor.ts";
import type { EntryBody } from "../../model/durable/journal-entry.ts";
import type { Ending } from "../../model/durable/undo-plan.ts";
import type { Platform } from "../../platform/platform.ts";
import type { LiveCall } from "./live-call.ts";

export type RunEnd =
  | { readonly kind: "returned"; readonly value: unknown }
  /** The handler threw, and the run may be tried again. */
  | { readonly kind: "threw"; readonly error: unknown }
  /** It ends badly, and its undos have run. */
  | { readonly kind: "ended"; readonly ending: Ending; readonly error: unknown }
  | { readonly kind: "suspended" }
  | { readonly kind: "continued"; readonly input: string }
  | { readonly kind: "diverged"; readonly difference: Difference }
  /** An entry was not asked for in time: the code is slow, or differs. */
  | { readonly kind: "unasked"; readonly difference: Difference }
  | { readonly kind: "journal-full" }
  /** Of a dry run: the code asks for all that the journal holds, and could go on. */
  | { readonly kind: "continues" }
  /** The lease is somebody else's: nothing is to be settled. */
  | { readonly kind: "lost" }
  /** It was asked to stop, and no code of a step runs any more. */
  | { readonly kind: "stopped" }
  /** What was recorded cannot be read here. */
  | { readonly kind: "unreadable"; readonly error: unknown }
  /** The store refuses a call, and would refuse its repeat. */
  | { readonly kind: "refused"; readonly error: unknown };

/** What is recorded of values, errors and signals. */
export interface RunCodec {
  encode(value: unknown): string | null;
  decode(text: string | null): unknown;
  encodeError(error: unknown): string;
  decodeError(text: string): unknown;
  /** What the schema makes of a signal, with its text: that of the signal if the schema changes nothing. */
  readSignal(
    name: string,
    text: string | null,
  ): { readonly value: unknown; readonly text: string | null } | { readonly refused: string };
}

export interface RunSettings {
  readonly platform: Pick<Platform, "defer" | "setTimer" | "monotonicUs">;
  readonly codec: RunCodec;
  /** Of the run: keys of entries that others append, too, belong to one. */
  readonly round: number;
  readonly version: { readonly version: number; readonly isNew: boolean };
  /** A run whose handler awaits plain I/O between its steps is not suspended before it has been quiet for so long. */
  readonly idleMs: number;
  /** A run stays for a time that is over so soon. */
  readonly lingerMs: number;
  /** Replays and stops at the end of the journal: no code of a step runs and nothing is written. */
  readonly isDry?: true;
  /** How long an entry of the journal may not be asked for. */
  readonly unaskedMs: number;
  /** What becomes of a run whose handler threw. */
  readonly judge: (error: unknown) => "retry" | Ending;
  readonly undoDelayMs: (attempt: number, error: unknown) => number | null;
  /** Observes the run; left out for nobody. */
  readonly observer?: RunObserver;
}

/** Sees what the run does in this life, and nothing of what is replayed. */
export interface RunObserver {
  /** Calls the code of a step. */
  step<Value>(call: LiveCall, attempt: number, work: () => Promise<Value>): Promise<Value>;
  /** An entry is about to be appended. */
  recorded(body: EntryBody): void;
}
