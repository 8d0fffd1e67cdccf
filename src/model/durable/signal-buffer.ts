/**
 * The signals of a run that no wait has taken yet. A wait takes the first unread signal of its name that was sent
 * before the wait's time was over. What it took is decided once and recorded (`arrived`), so a replay never decides
 * again.
 */
import { journalLimits } from "./journal-entry.ts";
import type { JournalEntry } from "./journal-entry.ts";

export interface UnreadSignal {
  readonly number: number;
  readonly at: number;
  readonly name: string;
  readonly value: string | null;
  readonly source: string | null;
  /** The one wait that may take it; null for any. */
  readonly wait: string | null;
  /** What it was sent to; null for the run itself. */
  readonly businessKey: string | null;
}

/** A wait that may take a signal. */
export interface TakingWait {
  readonly call: string;
  /** Null for signals that are sent to the run itself. */
  readonly businessKey: string | null;
  /** The end of its time; null for none. */
  readonly until: number | null;
}

export class SignalBuffer {
  readonly #unread = new Map<string, UnreadSignal[]>();
  readonly #all = new Map<number, UnreadSignal>();

  add(entry: JournalEntry): void {
    const { number, at, body } = entry;
    if (body.kind !== "signal") return;
    const { name, value, source = null, wait = null, businessKey = null } = body;
    const signal = { number, at, name, value, source, wait, businessKey };
    const list = this.#unread.get(name);
    if (list === undefined) this.#unread.set(name, [signal]);
    else list.push(signal);
    this.#all.set(number, signal);
  }

  /** Those that this wait may take, in order of the journal. */
  unreadFor(name: string, { call, businessKey, until }: TakingWait): readonly UnreadSignal[] {
    const list = this.#unread.get(name) ?? [];
    return list.filter(
      (each) =>
        each.businessKey === businessKey &&
        (each.wait === null || each.wait === call) &&
        (until === null || each.at <= until),
    );
  }

  /** A decision about a signal: no later wait is offered it. @returns the signal; undefined if it is not there. */
  take(number: number): UnreadSignal | undefined {
    const signal = this.#all.get(number);
    if (signal === undefined) return undefined;
    const list = this.#unread.get(signal.name);
    const at = list?.indexOf(signal) ?? -1;
    if (at >= 0) list?.splice(at, 1);
    return signal;
  }

  /** Those that a new round keeps, in order. */
  get unread(): readonly UnreadSignal[] {
    return [...this.#unread.values()].flat().toSorted((one, other) => one.number - other.number);
  }
}

/** How many unread signals a run has, as a store counts them beside the job. */
export interface UnreadCount {
  readonly count: number;
  readonly bytes: number;
}

export type SignalRefusal = "buffer-full" | "too-large";

/** Whether one signal more may be appended. */
export function refusalOfSignal(unread: UnreadCount, bytes: number): SignalRefusal | null {
  if (bytes > journalLimits.unreadBytesMax) return "too-large";
  const isFull =
    unread.count >= journalLimits.unreadSignalsMax || unread.bytes + bytes > journalLimits.unreadBytesMax;
  return isFull ? "buffer-full" : null;
}
