/**
 * Natural batching: while one store call is in flight, arriving items wait for the next one and go together. At low
 * load no item waits; at high load one call carries hundreds.
 *
 * Unrelated items share a call, but not its failure: if a call fails because of one of its items, the batch is split in
 * halves until the bad item is alone. If the store is away, the same batch is tried again; an item whose call may have
 * happened is marked by `again` before it is repeated.
 *
 * An item fails if the store has answered nothing for `giveUpMs` since it was pushed, whether it waits for its call,
 * for the next try or for an answer. In a line that moves it waits as long as it takes.
 *
 * Nor do they share a wait: an item that an open transaction holds up (`Locked`) leaves the line. It is repeated in a
 * line of its own, until it is done or `giveUpMs` are over:
 *
 *   pending ──► in flight ──► answered
 *                   └─locked─► resting, for longer each time ──► pending in the other line ──► ...
 */
import { durationText } from "../../model/duration.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Platform, Timer } from "../../platform/platform.ts";
import { isLocked } from "../../store/operations.ts";
import type { OrLocked } from "../../store/operations.ts";
import { answersWithin } from "./settles-within.ts";
import type { Flush } from "./flush.ts";

/** Gets the answer of an item. An object with two methods, because a promise per item is too slow for the hot path. */
export interface Ticket<Answer> {
  answered(answer: Answer): void;
  failed(error: unknown): void;
}

export interface BatcherOptions<Item, Answer> {
  readonly platform: Platform;
  readonly flush: Flush;
  readonly call: (items: readonly Item[]) => Promise<readonly OrLocked<Answer>[]>;
  /** The weight of an item; one that is heavier than the maximum has a call of its own. */
  readonly weigh?: (item: Item) => number;
  readonly weightMax: number;
  /** A second call is sent during the first if it would carry this many items; left out: never. */
  readonly secondFrom?: number;
  /** Called with an item when a call takes it. From then on the item must not change. */
  readonly taken?: (item: Item) => void;
  /** The form in which an item is repeated after a call whose outcome is unknown. */
  readonly again?: (item: Item) => Item;
  /** Turns an error into the one that the item's ticket gets. */
  readonly failure?: (error: unknown, item: Item) => unknown;
  /** For how long an item waits while the store answers nothing. */
  readonly giveUpMs: number;
}

/**
 * An item in the batcher. It and `Waiter` are classes, because V8 moves literals of which a thousand are live at once
 * to its old generation (engine/submit/job-planner.ts, `BuiltJob`).
 */
class Entry<Item, Answer> {
  item: Item;
  ticket: Ticket<Answer>;
  readonly sinceUs: number;
  /** The error after which it may have happened. */
  unknownCause: unknown = null;
  /** Since when it has been locked, or -1, and how often it was repeated. */
  lockedUs = -1;
  rests = 0;

  constructor(item: Item, ticket: Ticket<Answer>, sinceUs: number) {
    this.item = item;
    this.ticket = ticket;
    this.sinceUs = sinceUs;
  }
}

/** A batch that was sent. `failed`: the error of its last try, if it waits for the next one. */
class Sent<Item, Answer> {
  readonly entries: readonly Entry<Item, Answer>[];
  failed: unknown = null;

  constructor(entries: readonly Entry<Item, Answer>[]) {
    this.entries = entries;
  }
}

/** The resolve and reject functions of a promise. */
class Waiter<Answer> implements Ticket<Answer> {
  readonly answered: (answer: Answer) => void;
  readonly failed: (error: unknown) => void;

  constructor(answered: (answer: Answer) => void, failed: (error: unknown) => void) {
    this.answered = answered;
    this.failed = failed;
  }
}

/** Of an item that was given up: its answer comes too late. */
const nobody: Ticket<unknown> = { answered: () => undefined, failed: () => undefined };

const retryLengths = { firstMs: 20, maxMs: 1000 };
const restMs = { first: 20, max: 500 };
/** A call without an answer after this time counts as lost: it may or may not have happened. */
const callMaxMs = 90_000;

export class Batcher<Item, Answer> {
  readonly #options: BatcherOptions<Item, Answer>;
  #pending: Entry<Item, Answer>[] = [];
  #inFlight = 0;
  /** The batches in flight, or between two tries. */
  readonly #sent = new Set<Sent<Item, Answer>>();
  #answeredUs = Number.NEGATIVE_INFINITY;
  /** Fires at the earliest when an item is to be given up. One for all items: they are given up in their order. */
  #watch: Timer | null = null;
  #isScheduled = false;
  #isClosing = false;
  #resting = 0;
  /** The line of locked items. It is its own line for them. */
  #lockedLine: Batcher<Item, Answer> | null = null;
  #idle: (() => void)[] = [];

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options;
  }

  push(item: Item, ticket: Ticket<Answer>): void {
    this.#enter(new Entry(item, ticket, this.#options.platform.monotonicUs()));
  }

  #enter(entry: Entry<Item, Answer>): void {
    this.#pending.push(entry);
    // Without a time to give up, an item has one try, and waits for its answer.
    const { giveUpMs } = this.#options;
    if (giveUpMs > 0) this.#watch ??= this.#watchIn(giveUpMs);
    this.#schedule();
  }

  add(item: Item): Promise<Answer> {
    return new Promise((answered, failed) => this.push(item, new Waiter(answered, failed)));
  }

  /** Resolves once no item is pending, in flight or locked. */
  async whenIdle(): Promise<void> {
    while (this.#inFlight > 0 || this.#pending.length > 0 || this.#resting > 0)
      await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#isClosing = true;
    this.#unwatch();
    if (this.#lockedLine !== this) await this.#lockedLine?.whenIdle();
  }

  #unwatch(): void {
    this.#watch?.cancel();
    this.#watch = null;
  }

  #schedule(): void {
    if (this.#isScheduled || !this.#mayCall()) return;
    this.#isScheduled = true;
    this.#options.flush.atEnd(this.#flush);
  }

  #mayCall(): boolean {
    if (this.#inFlight === 0) return this.#pending.length > 0;
    const { secondFrom = Number.POSITIVE_INFINITY } = this.#options;
    return this.#inFlight === 1 && this.#pending.length >= secondFrom;
  }

  readonly #flush = (): void => {
    this.#isScheduled = false;
    if (!this.#mayCall()) return;
    const { taken } = this.#options;
    this.#inFlight += 1;
    const batch = this.#takeBatch();
    if (taken !== undefined) for (const { item } of batch) taken(item);
    const sent = new Sent(batch);
    this.#sent.add(sent);
    void this.#deliver(batch, sent).then(() => this.#landed(sent));
  };

  readonly #landed = (sent: Sent<Item, Answer>): void => {
    this.#inFlight -= 1;
    this.#sent.delete(sent);
    if (this.#pending.length > 0) this.#schedule();
    else if (this.#inFlight === 0) this.#reportIdle();
  };

  #reportIdle(): void {
    // What comes after the close, such as the job of a late claim that is handed back, leaves no timer either.
    if (this.#isClosing && this.#resting === 0) this.#unwatch();
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  #takeBatch(): Entry<Item, Answer>[] {
    const { weigh, weightMax } = this.#options;
    const pending = this.#pending;
    let count = 0;
    if (weigh === undefined) {
      count = Math.min(pending.length, weightMax);
    } else {
      let weight = 0;
      while (count < pending.length) {
        weight += weigh((pending[count] as Entry<Item, Answer>).item);
        if (count > 0 && weight > weightMax) break;
        count += 1;
      }
    }
    if (count === pending.length) {
      this.#pending = [];
      return pending;
    }
    this.#pending = pending.slice(count);
    return pending.slice(0, count);
  }

  /** Never rejects: when it resolves, every ticket has its answer or its error. */
  async #deliver(entries: Entry<Item, Answer>[], sent: Sent<Item, Answer>): Promise<void> {
    const { platform, again } = this.#options;
    let backoff: Backoff | null = null;
    for (;;) {
      let answers: readonly OrLocked<Answer>[];
      try {
        const items = entries.map((entry) => entry.item);
        sent.failed = null;
        answers = await answersWithin(platform, this.#options.call(items), callMaxMs);
        this.#answeredUs = platform.monotonicUs();
      } catch (error) {
        const isKnownError = isMillraceError(error);
        if (!isKnownError || error.outcome === "unknown") {
          for (const entry of entries) {
            entry.unknownCause ??= error;
            if (again !== undefined) entry.item = again(entry.item);
          }
        }
        const isAway = isKnownError && error.retryable;
        if (!isAway && entries.length > 1) return this.#deliverHalves(entries, sent);
        const [over, left] = isAway ? this.#overAndLeft(entries.filter(isAwaited)) : [entries, []];
        for (const entry of over) this.#fail(entry, entry.unknownCause ?? error);
        if (left.length === 0) return;
        entries = left;
        sent.failed = error;
        const retrying = (backoff ??= new Backoff(platform, retryLengths));
        await new Promise<void>((resolve) => void retrying.retry(resolve));
        entries = entries.filter(isAwaited);
        if (entries.length === 0) return;
        continue;
      }
      for (let index = 0; index < entries.length; index++) {
        const entry = entries[index] as Entry<Item, Answer>;
        const answer = answers[index] as OrLocked<Answer>;
        if (isLocked(answer)) {
          this.#rest(entry);
          continue;
        }
        const { ticket } = entry;
        entry.ticket = nobody;
        ticket.answered(answer);
      }
      return;
    }
  }

  /** When it is to be given up, if nothing is answered before. */
  #endUs({ sinceUs }: Entry<Item, Answer>): number {
    return Math.max(sinceUs, this.#answeredUs) + this.#options.giveUpMs * 1000;
  }

  #overAndLeft(
    entries: readonly Entry<Item, Answer>[],
  ): [over: Entry<Item, Answer>[], left: Entry<Item, Answer>[]] {
    const nowUs = this.#options.platform.monotonicUs();
    const isOver = (entry: Entry<Item, Answer>): boolean => this.#endUs(entry) <= nowUs;
    return [entries.filter(isOver), entries.filter((entry) => !isOver(entry))];
  }

  #watchIn(inMs: number): Timer {
    return this.#options.platform.setTimer(inMs, this.#giveUp, false);
  }

  readonly #giveUp = (): void => {
    const { platform, giveUpMs } = this.#options;
    const [over, left] = this.#overAndLeft(this.#pending);
    this.#pending = left;
    const sentence = `The store did not answer within ${durationText(giveUpMs)}`;
    for (const entry of over)
      this.#fail(entry, new MillraceError("store-unavailable", `${sentence}; the call was not sent.`));
    const ends = left.map((entry) => this.#endUs(entry));
    for (const { entries, failed } of this.#sent) {
      const [lost, open] = this.#overAndLeft(entries.filter(isAwaited));
      for (const entry of lost) {
        const error = entry.unknownCause ?? failed ?? new MillraceError("outcome-unknown", `${sentence}.`);
        this.#fail(entry, error);
      }
      ends.push(...open.map((entry) => this.#endUs(entry)));
    }
    this.#watch = null;
    if (ends.length > 0)
      this.#watch = this.#watchIn(Math.max(1, (least(ends) - platform.monotonicUs()) / 1000));
    if (this.#pending.length === 0 && this.#inFlight === 0) this.#reportIdle();
  };

  #fail(entry: Entry<Item, Answer>, error: unknown): void {
    const { failure } = this.#options;
    const { item, ticket } = entry;
    entry.ticket = nobody;
    ticket.failed(failure === undefined ? error : failure(error, item));
  }

  #rest(entry: Entry<Item, Answer>): void {
    if (!isAwaited(entry)) return;
    const { platform, giveUpMs } = this.#options;
    const nowUs = platform.monotonicUs();
    if (entry.lockedUs < 0) entry.lockedUs = nowUs;
    const rests = entry.rests++;
    if (nowUs - entry.lockedUs >= giveUpMs * 1000) {
      const sentence =
        "An open transaction locks what this call needs, so nothing of it happened; try again.";
      return this.#fail(entry, new MillraceError("store-busy", sentence));
    }
    this.#resting += 1;
    platform.setTimer(Math.min(restMs.max, restMs.first * 2 ** rests), () => {
      this.#resting -= 1;
      this.#lineOfLocked().#enter(entry);
      if (this.#inFlight === 0 && this.#pending.length === 0) this.#reportIdle();
    });
  }

  #lineOfLocked(): Batcher<Item, Answer> {
    if (this.#lockedLine !== null) return this.#lockedLine;
    const line = new Batcher(this.#options);
    line.#lockedLine = line;
    return (this.#lockedLine = line);
  }

  async #deliverHalves(entries: Entry<Item, Answer>[], sent: Sent<Item, Answer>): Promise<void> {
    const middle = entries.length >> 1;
    await this.#deliver(entries.slice(0, middle), sent);
    await this.#deliver(entries.slice(middle), sent);
  }
}

function isAwaited({ ticket }: { readonly ticket: Ticket<never> }): boolean {
  return ticket !== nobody;
}

function least(numbers: readonly number[]): number {
  let result = Number.POSITIVE_INFINITY;
  for (const number of numbers) if (number < result) result = number;
  return result;
}
