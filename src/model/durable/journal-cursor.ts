/**
 * How a run reads its journal: entry by entry, in order of their numbers, live and on replay alike. The handler asks
 * for calls; the cursor says which entry comes next, and whether the handler has asked for what the entry belongs to.
 * Because the handler learns everything in one order, parallel branches that are run again take the same way.
 *
 *  next()   caught-up   every entry that is known was delivered
 *           deliver     this entry is to take effect now, and nothing else before the handler has come to rest
 *           unasked     the handler has not asked for the entry's call: it is still on its way there, or its code
 *                       has changed
 *
 * A call that was asked for is compared with what the journal holds under its key at once: another kind there means
 * that the code has changed.
 *
 * A run that failed because a call had failed, and is retried, asks that call anew: `gave-up` makes all earlier entries
 * of the call void. What was recorded between the failure and the end, such as steps of a `catch`, is put aside until
 * the handler asks for it, because it may take another way now. An invoked job that has ended with its run is asked for
 * anew, too, once the run comes back; nothing else changes, because the handler has learnt nothing of that end.
 */
import { callOf, isOwnKind, sizeOfBody } from "./journal-entry.ts";
import type { CallKind, EntryBody, JournalEntry } from "./journal-entry.ts";

type ChildBody = Extract<EntryBody, { readonly kind: "child" }>;

export interface AskedCall {
  readonly key: string;
  readonly kind: CallKind;
  /** Of a wait: the business key at which it waits; null or absent for none. */
  readonly businessKey?: string | null;
}

export type NextEntry<Call extends AskedCall> =
  | { readonly kind: "caught-up" }
  | { readonly kind: "deliver"; readonly entry: JournalEntry; readonly call: Call | null }
  | { readonly kind: "unasked"; readonly entry: JournalEntry };

/** The first difference between the journal and what the code asks for, as people read it. */
export interface Difference {
  readonly entry: number;
  readonly recorded: string;
  readonly asked: string;
}

interface Recorded extends AskedCall {
  readonly number: number;
  /** Undefined if the journal does not say it. */
  readonly businessKey?: string | null | undefined;
}

export class JournalCursor<Call extends AskedCall> {
  readonly #entries: JournalEntry[] = [];
  readonly #calls = new Map<string, Call>();
  /** What the journal holds under a key. */
  readonly #recorded = new Map<string, Recorded>();
  readonly #patches = new Map<string, boolean>();
  /** What the keys of closed branches begin with. */
  readonly #closed: string[] = [];
  /** How often the run was retried because this call had failed. */
  readonly #lives = new Map<string, number>();
  readonly #void = new Set<number>();
  /** Entries that the handler need not ask for: those after the first number and before the second. */
  readonly #afterFailures: (readonly [failed: number, gaveUp: number])[] = [];
  readonly #putAside = new Map<string, JournalEntry[]>();
  /** Entries that were put aside and are asked for now. */
  readonly #askedLater: JournalEntry[] = [];
  #bytes = 0;
  #at = 0;
  /** The last entry that an earlier life of the run has left. */
  #replayTo = 0;
  /** Own entries of earlier lives that are not delivered yet. */
  #ownLeft = 0;
  #lastAt: number;

  /** @param beganAt the time before the first entry: the submit of the job. */
  constructor(beganAt: number) {
    this.#lastAt = beganAt;
  }

  /** Entries that were read or appended, in order; those that are known already are passed over. */
  add(entries: readonly JournalEntry[]): void {
    for (const entry of entries) {
      if (entry.number <= this.#entries.length) continue;
      if (entry.number !== this.#entries.length + 1) throw new RangeError("a journal has no gaps");
      this.#entries.push(entry);
      const { body } = entry;
      this.#bytes += sizeOfBody(body);
      if (body.kind === "gave-up") this.#giveUp(entry, body.call);
      if (body.kind === "child") this.#takeEnd(entry, body);
      if ("as" in body && !this.#recorded.has(body.call))
        this.#recorded.set(body.call, {
          ...{ kind: body.as, number: entry.number, key: body.call },
          ...(body.kind === "opened" ? { businessKey: body.businessKey ?? null } : {}),
        });
      if (body.kind === "patched") this.#patches.set(body.name, body.answer);
    }
  }

  #giveUp({ number }: JournalEntry, call: string): void {
    const recorded = this.#recorded.get(call);
    // The retry may wait at another key.
    if (recorded !== undefined) this.#recorded.set(call, { ...recorded, businessKey: undefined });
    const own = this.#beginLife(call, number + 1);
    const failed = own.findLast(({ body }) => body.kind !== "gave-up")?.number ?? number;
    this.#afterFailures.push([failed, number]);
  }

  #takeEnd({ number }: JournalEntry, { call, life = 0, isAnew }: ChildBody): void {
    if (life !== this.lifeOf(call)) this.#void.add(number);
    else if (isAnew === true) this.#beginLife(call, number);
  }

  /** What the journal holds of the call before this entry means nothing any more. */
  #beginLife(call: string, before: number): readonly JournalEntry[] {
    this.#lives.set(call, this.lifeOf(call) + 1);
    const own = this.#entries.filter(({ body, number }) => number < before && callOf(body) === call);
    for (const entry of own) this.#void.add(entry.number);
    return own;
  }

  lifeOf(call: string): number {
    return this.#lives.get(call) ?? 0;
  }

  /** What was added so far is what earlier lives have left. */
  begins(): void {
    this.#replayTo = this.#entries.length;
    this.#ownLeft = this.#entries.filter(({ body }) => isOwnKind(body.kind)).length;
  }

  /** The number of the last entry that is known. */
  get known(): number {
    return this.#entries.length;
  }

  /** The number of the last entry that was delivered. */
  get seen(): number {
    return this.#at;
  }

  get isCaughtUp(): boolean {
    return this.#at === this.#entries.length && this.#askedLater.length === 0;
  }

  /** The handler is told what an earlier life has told it already. */
  get isReplaying(): boolean {
    return this.#at < this.#replayTo;
  }

  /** About how large the journal is. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * The time of day for the handler: that of the last entry that it felt. Entries that it does not feel, such as a
   * signal that nobody waits for, may be met earlier or later in another life.
   */
  get now(): number {
    return this.#lastAt;
  }

  entry(number: number): JournalEntry | undefined {
    return this.#entries[number - 1];
  }

  get entries(): readonly JournalEntry[] {
    return this.#entries;
  }

  call(key: string): Call | undefined {
    return this.#calls.get(key);
  }

  /** The handler asks for a call. @returns the difference if the journal holds another kind under its key. */
  ask(call: Call): Difference | null {
    this.#calls.set(call.key, call);
    const aside = this.#putAside.get(call.key);
    if (aside !== undefined) {
      this.#askedLater.push(...aside);
      this.#putAside.delete(call.key);
    }
    const recorded = this.#recorded.get(call.key);
    if (recorded === undefined) return null;
    const { businessKey = call.businessKey ?? null } = recorded;
    if (recorded.kind === call.kind && businessKey === (call.businessKey ?? null)) return null;
    return { entry: recorded.number, recorded: callText(recorded), asked: callText(call) };
  }

  /**
   * Whether the handler is to take the new way of a patch. The first answer of a name is recorded and stays for the
   * round: true unless an earlier life has recorded something after this point, which shows that the old way was
   * taken. Entries of others show nothing.
   */
  patched(name: string): { readonly answer: boolean; readonly isNew: boolean } {
    const recorded = this.#patches.get(name);
    if (recorded !== undefined) return { answer: recorded, isNew: false };
    const answer = this.#ownLeft === 0;
    this.#patches.set(name, answer);
    return { answer, isNew: true };
  }

  /** Whether a race was lost by the branch that made the call. */
  isClosed(key: string): boolean {
    return this.#closed.some((prefix) => key.startsWith(prefix));
  }

  /** From now on nothing reaches the calls of this branch. */
  close(prefix: string): void {
    this.#closed.push(prefix);
  }

  next(): NextEntry<Call> {
    for (;;) {
      const entry = this.#askedLater[0] ?? this.#entries[this.#at];
      if (entry === undefined) return { kind: "caught-up" };
      const key = callOf(entry.body);
      if (this.#void.has(entry.number)) {
        this.delivered();
        continue;
      }
      if (key === null || this.isClosed(key)) return { kind: "deliver", entry, call: null };
      const call = this.#calls.get(key);
      if (call !== undefined) return { kind: "deliver", entry, call };
      const { number } = entry;
      if (!this.#isAfterFailure(number)) return { kind: "unasked", entry };
      const aside = this.#putAside.get(key);
      if (aside === undefined) this.#putAside.set(key, [entry]);
      else aside.push(entry);
      this.delivered();
    }
  }

  /** It was recorded after the failure on which the run gave up, so the handler may take another way now. */
  #isAfterFailure(number: number): boolean {
    return this.#afterFailures.some(([failed, gaveUp]) => failed < number && number < gaveUp);
  }

  /** The next entry takes effect. */
  delivered(): void {
    if (this.#askedLater.shift() !== undefined) return;
    const entry = this.#entries[this.#at];
    if (entry === undefined) throw new RangeError("nothing is left to deliver");
    this.#at += 1;
    if (this.#at <= this.#replayTo && isOwnKind(entry.body.kind)) this.#ownLeft -= 1;
  }

  /** The handler learns what was delivered last. */
  felt(at: number): void {
    this.#lastAt = at;
  }

  /**
   * The first entry that the handler will never ask for, once it has ended. What was in flight when a handler ended
   * stays in the journal and is no difference: the handler had asked for it.
   */
  leftBehind(): Difference | null {
    for (let at = this.#at; at < this.#entries.length; at++) {
      const { body, number } = this.#entries[at] as JournalEntry;
      const key = callOf(body);
      if (key === null || !isOwnKind(body.kind) || this.#calls.has(key) || this.isClosed(key)) continue;
      if (this.#void.has(number) || this.#isAfterFailure(number)) continue;
      return { entry: number, recorded: entryText(body), asked: "nothing more: the handler has ended" };
    }
    return null;
  }

  /** What stands in the way of an entry that the handler does not ask for. @param open the calls that wait. */
  differenceAt(entry: JournalEntry, open: readonly AskedCall[]): Difference {
    const asked = open.map(callText);
    return {
      entry: entry.number,
      recorded: entryText(entry.body),
      asked: asked.length === 0 ? "no step" : asked.slice(0, 3).join(", "),
    };
  }
}

function entryText(body: JournalEntry["body"]): string {
  return "as" in body ? callText({ kind: body.as, key: body.call }) : body.kind;
}

const kindNames: Readonly<Record<CallKind, string>> = {
  run: "step.run",
  "run-in": "step.runIn",
  enqueue: "step.enqueue",
  invoke: "step.invoke",
  sleep: "step.sleep",
  wait: "step.waitFor",
  approval: "step.approval",
  race: "step.race",
  each: "step.each",
};

function callText({ kind, key, businessKey = null }: AskedCall): string {
  const at = businessKey === null ? "" : ` at the key ${JSON.stringify(businessKey)}`;
  return `${kindNames[kind]} ${JSON.stringify(key)}${at}`;
}

/** One sentence for the error of a run that diverged. */
export function differenceText({ entry, recorded, asked }: Difference): string {
  return `The code does not match the journal of the run: entry ${entry} is ${recorded}, and the handler asks for ${asked}.`;
}
