/**
 * The entries of a run's journal: everything that a durable run remembers. The journal is append-only. Its entries are
 * numbered from 1 without gaps, in the order in which the store accepted them, and a handler sees their effects in that
 * order alone.
 *
 * Each entry has a key that is accepted once per round, so a repeated append changes nothing. Own entries are appended
 * by the run's worker under the fence. Foreign entries are appended by anybody else under a guard.
 *
 *  own       version   the version of the handler that the round began with
 *            patched   the first answer of `step.patched(name)`
 *            opened    a call waits from now on; its time, if it has one, counts from this entry
 *            result    a call has its value               error    a call has failed for good
 *            failed    a step failed and runs again later
 *            arrived   a wait took a signal               refused  a signal has the wrong shape: no wait takes it
 *            decided   an approval was decided by signals
 *            escalated the time of an approval was over once: a job is enqueued, and the time counts again
 *            rang      the time of a wait is over         raced    a race is won; its other branches are closed
 *            undone    an undo of a step has run          stuck    an undo failed, and runs again later or never
 *            over      a run that is a member of a flow has ended well, or undone its steps: a replay begins anew
 *            gave-up   the run failed because this call had failed: a retry of the run asks the call again
 *  foreign   signal    somebody sent a signal             child    an invoked job has ended
 *            ending    the run is to end badly, after its undos
 */

/** What a call of `step` asks for. A call and its entries agree in name, occurrence and kind, or the run diverged. */
export type CallKind =
  | "run"
  | "run-in"
  | "enqueue"
  | "invoke"
  | "sleep"
  | "wait"
  | "approval"
  | "race"
  | "each";

/** Of an entry that belongs to a call. */
interface OfCall {
  readonly call: string;
  readonly as: CallKind;
}

export type EntryBody =
  | { readonly kind: "version"; readonly version: number }
  | { readonly kind: "patched"; readonly name: string; readonly answer: boolean }
  | ({
      readonly kind: "opened";
      /** For people and lists: the name of the signal that is awaited. */
      readonly signal?: string;
      /** Where it waits for the signal; left out for signals that are sent to the run itself. */
      readonly businessKey?: string;
      /** Counted from the time of this entry, by the store's clock. */
      readonly endsInMs?: number;
      /** An instant that the caller named. */
      readonly endsAt?: number;
    } & OfCall)
  | ({ readonly kind: "result"; readonly value: string | null; readonly hasUndo?: true } & OfCall)
  | ({ readonly kind: "error"; readonly error: string } & OfCall)
  | ({
      readonly kind: "failed";
      readonly attempt: number;
      readonly error: string;
      readonly retryInMs: number;
    } & OfCall)
  | ({
      readonly kind: "arrived";
      readonly signal: number;
      /** What the schema made of the signal; left out if it is the signal's own value. */
      readonly value?: string | null;
    } & OfCall)
  | { readonly kind: "refused"; readonly signal: number; readonly why: string }
  | ({
      readonly kind: "decided";
      readonly signals: readonly number[];
      readonly approved: boolean;
      /** What the schema made of each signal; left out if it changed none. */
      readonly values?: readonly (string | null)[];
    } & OfCall)
  | ({ readonly kind: "rang" } & OfCall)
  | ({ readonly kind: "escalated"; readonly endsInMs: number } & OfCall)
  | ({ readonly kind: "raced"; readonly winner: string } & OfCall)
  | ({ readonly kind: "undone" } & OfCall)
  | ({
      readonly kind: "stuck";
      readonly attempt: number;
      readonly error: string;
      /** Null: the undo is given up. */
      readonly retryInMs: number | null;
    } & OfCall)
  | ({ readonly kind: "gave-up" } & OfCall)
  | { readonly kind: "over" }
  | {
      readonly kind: "signal";
      readonly name: string;
      readonly value: string | null;
      /** Who sent it, as a token or the sender says; approvals count distinct sources. */
      readonly source?: string;
      /** Only for the wait with this key: a token names its wait. */
      readonly wait?: string;
      /** Only for waits at this business key. */
      readonly businessKey?: string;
    }
  | {
      readonly kind: "child";
      readonly call: string;
      /** Of the call, as its flow has it: the end of one that was given up before means nothing. */
      readonly life?: number;
      /** The child has ended because its run had, and the run has come back: the call invokes another one. */
      readonly isAnew?: true;
      readonly state: "completed" | "failed" | "cancelled" | "expired" | "skipped";
      readonly value: string | null;
    }
  | {
      readonly kind: "ending";
      readonly state: "failed" | "cancelled" | "expired";
      readonly reason: string;
    };

export type EntryKind = EntryBody["kind"];

/** An entry that is not appended yet. */
export interface NewEntry {
  readonly key: string;
  readonly body: EntryBody;
}

export interface JournalEntry extends NewEntry {
  readonly number: number;
  /** When the store accepted it, by the store's clock. */
  readonly at: number;
}

export const journalLimits = {
  entriesMax: 10_000,
  bytesMax: 16 * 1024 * 1024,
  /** Signals that no wait has taken. */
  unreadSignalsMax: 1000,
  unreadBytesMax: 1024 * 1024,
  /** Undos and what ends a run are accepted above `entriesMax`: a full journal must still be undone. */
  endingEntriesMax: 2 * 10_000,
} as const;

const isOwn: Readonly<Record<EntryKind, boolean>> = {
  version: true,
  patched: true,
  opened: true,
  result: true,
  error: true,
  failed: true,
  arrived: true,
  refused: true,
  decided: true,
  escalated: true,
  rang: true,
  raced: true,
  undone: true,
  stuck: true,
  "gave-up": true,
  over: true,
  signal: false,
  child: false,
  ending: false,
};

/** Whether the run's own worker appends such an entry, under the fence. */
export function isOwnKind(kind: EntryKind): boolean {
  return isOwn[kind];
}

export function isEntryKind(kind: unknown): kind is EntryKind {
  return typeof kind === "string" && Object.hasOwn(isOwn, kind);
}

/** About how many bytes the body takes in a store, without counting them. */
export function sizeOfBody(body: EntryBody): number {
  const long = ("value" in body ? body.value?.length : "error" in body ? body.error.length : 0) ?? 0;
  return long + 100;
}

/** The call that must have been asked for before an entry can be delivered; null for none. */
export function callOf(body: EntryBody): string | null {
  return "call" in body ? body.call : null;
}

/**
 * The key under which a store accepts an own entry once: a repeated append after a lost reply changes nothing.
 *
 * @param life how often the run was retried because this call had failed: the call then ends once more.
 */
export function ownKey(body: EntryBody, life = 0): string {
  return `${keyOfLife(body)}${lifeMark(life)}`;
}

const lifeMark = (life = 0): string => (life === 0 ? "" : `~${life}`);

function keyOfLife(body: EntryBody): string {
  switch (body.kind) {
    case "version":
    case "over":
      return body.kind;
    case "patched":
      return `patched:${body.name}`;
    case "refused":
      return `refused:${body.signal}`;
    case "failed":
    case "stuck":
      return `${body.kind}:${body.attempt}:${body.call}`;
    case "escalated":
    case "opened":
    case "undone":
    case "gave-up":
      return `${body.kind}:${body.call}`;
    case "result":
    case "error":
    case "arrived":
    case "decided":
    case "rang":
    case "raced":
      return `end:${body.call}`;
    case "child":
    case "ending":
      throw new TypeError("the key of such an entry has its round");
    case "signal":
      throw new TypeError("the key of a signal is given by its sender");
  }
}

/**
 * The key of an entry that others append and that belongs to one round. A new round still refuses the keys that others
 * have appended before, so that a signal counts once; the same call of a later round must not be refused with them.
 */
export function keyInRound(
  body: Extract<EntryBody, { readonly kind: "child" | "ending" }>,
  round: number,
): string {
  const mark = roundMark(round);
  return body.kind === "ending" ? `ending${mark}` : `child:${mark}${body.call}${lifeMark(body.life)}`;
}

/** No name of a call has this in it, so no key of one round is a key of another. */
export function roundMark(round: number): string {
  return round === 0 ? "" : `#${round}:`;
}
