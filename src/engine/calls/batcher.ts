/**
 * Natural batching: while one store call is in flight, arriving items wait for the next one and go together. At low
 * load no item waits; at high load one call carries hundreds.
 *
 * Unrelated items share a call, but not its failure: if a call fails because of one of its items, the batch is split in
 * halves until the bad item is alone. If the store is away, the same batch is tried again until `giveUpMs`; an item
 * whose call may have happened is marked by `again` before it is repeated.
 *
 * Nor do they share a wait: an item that an open transaction holds up (`Locked`) leaves the line. It is repeated in a
 * line of its own, until it is done or `giveUpMs` are over:
 *
 *   pending ──► in flight ──► answered
 *                   └─locked─► resting, for longer each time ──► pending in the other line ──► ...
 */
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Platform } from "../../platform/platform.ts";
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
  /** For how long a call is repeated while the store is away. */
  readonly giveUpMs: number;
}

/**
 * An item in the batcher. It and `Waiter` are classes, because V8 moves literals of which a thousand are live at once
 * to its old generation (engine/submit/job-planner.ts, `BuiltJob`).
 */
class Entry<Item, Answer> {
  item: Item;
  readonly ticket: Ticket<Answer>;
  /** Since when it has been locked, or -1, and how often it was repeated. */
  lockedUs = -1;
  rests = 0;

  constructor(item: Item, ticket: Ticket<Answer>) {
    this.item = item;
    this.ticket = ticket;
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

const retryLengths = { firstMs: 20, maxMs: 1000 };
const restMs = { first: 20, max: 500 };
/** A call without an answer after this time counts as lost: it may or may not have happened. */
const callMaxMs = 90_000;

export class Batcher<Item, Answer> {
  readonly #options: BatcherOptions<Item, Answer>;
  #pending: Entry<Item, Answer>[] = [];
  #inFlight = 0;
  #isScheduled = false;
  #resting = 0;
  /** The line of locked items. It is its own line for them. */
  #lockedLine: Batcher<Item, Answer> | null = null;
  #idle: (() => void)[] = [];

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options;
  }

  push(item: Item, ticket: Ticket<Answer>): void {
    this.#enter(new Entry(item, ticket));
  }

  #enter(entry: Entry<Item, Answer>): void {
    this.#pending.push(entry);
    this.#schedule();
  }

  add(item: Item): Promise<Answer> {
    return new Promise((answered, failed) => this.push(item, new Waiter(answered, failed)));
  }

  /** Resolves once no item is pending, in flight or locked. */
  async whenIdle(): Promise<void> {
    while (this.#inFlight > 0 || this.#pending.length > 0 || this.#resting > 0)
      await new Promise<void>((resolve) => this.#idle.push(resolve));
    if (this.#lockedLine !== this) await this.#lockedLine?.whenIdle();
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
    const { platform, taken } = this.#options;
    this.#inFlight += 1;
    const batch = this.#takeBatch();
    if (taken !== undefined) for (const { item } of batch) taken(item);
    void this.#deliver(batch, platform.monotonicUs()).then(this.#landed);
  };

  readonly #landed = (): void => {
    this.#inFlight -= 1;
    if (this.#pending.length > 0) this.#schedule();
    else if (this.#inFlight === 0) this.#reportIdle();
  };

  #reportIdle(): void {
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
  async #deliver(entries: Entry<Item, Answer>[], sinceUs: number): Promise<void> {
    const { platform, again, giveUpMs } = this.#options;
    let backoff: Backoff | null = null;
    let unknownCause: unknown = null;
    for (;;) {
      let answers: readonly OrLocked<Answer>[];
      try {
        const items = entries.map((entry) => entry.item);
        answers = await answersWithin(platform, this.#options.call(items), callMaxMs);
      } catch (error) {
        const isKnownError = isMillraceError(error);
        if (!isKnownError || error.outcome === "unknown") {
          unknownCause ??= error;
          if (again !== undefined) for (const entry of entries) entry.item = again(entry.item);
        }
        const isAway = isKnownError && error.retryable;
        if (!isAway && entries.length > 1) return this.#deliverHalves(entries, sinceUs);
        const isLate = platform.monotonicUs() - sinceUs >= giveUpMs * 1000;
        if (!isAway || isLate) {
          for (const entry of entries) this.#fail(entry, unknownCause ?? error);
          return;
        }
        const retrying = (backoff ??= new Backoff(platform, retryLengths));
        await new Promise<void>((resolve) => void retrying.retry(resolve));
        continue;
      }
      for (let index = 0; index < entries.length; index++) {
        const entry = entries[index] as Entry<Item, Answer>;
        const answer = answers[index] as OrLocked<Answer>;
        if (isLocked(answer)) this.#rest(entry);
        else entry.ticket.answered(answer);
      }
      return;
    }
  }

  #fail({ item, ticket }: Entry<Item, Answer>, error: unknown): void {
    const { failure } = this.#options;
    ticket.failed(failure === undefined ? error : failure(error, item));
  }

  #rest(entry: Entry<Item, Answer>): void {
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

  async #deliverHalves(entries: Entry<Item, Answer>[], sinceUs: number): Promise<void> {
    const middle = entries.length >> 1;
    await this.#deliver(entries.slice(0, middle), sinceUs);
    await this.#deliver(entries.slice(middle), sinceUs);
  }
}
