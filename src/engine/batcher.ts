/**
 * Natural batching: while one store call is in flight, items that arrive wait for the next one and go together. At low
 * load nothing waits, at high load one call carries hundreds.
 *
 * Items of strangers share a call, but not its failure: when a call fails for a reason that lies in one of its items,
 * the batch is split in halves until the guilty item is alone. When the store is away, the same batch is tried again
 * until `giveUpMs`; an item whose call may have happened is marked by `again` before it is repeated.
 */
import { isMillraceError } from "../model/error.ts";
import { Backoff } from "../platform/backoff.ts";
import type { Platform } from "../platform/platform.ts";
import { answersWithin } from "./race.ts";
import type { Turn } from "./turn.ts";

/** Who waits for an item's answer. An object with two methods, because a promise per item costs the hot path. */
export interface Ticket<Answer> {
  answered(answer: Answer): void;
  failed(error: unknown): void;
}

export interface BatcherOptions<Item, Answer> {
  readonly platform: Platform;
  readonly turn: Turn;
  readonly call: (items: readonly Item[]) => Promise<readonly Answer[]>;
  /** How much of a call an item takes; a larger item than the maximum travels alone. */
  readonly weigh?: (item: Item) => number;
  readonly weightMax: number;
  /** Called with an item when a call takes it: from now on nobody may change the item. */
  readonly taken?: (item: Item) => void;
  /** The form in which an item is repeated after a call whose outcome is unknown. */
  readonly again?: (item: Item) => Item;
  /** For how long a call is repeated while the store is away. */
  readonly giveUpMs: number;
}

interface Entry<Item, Answer> {
  item: Item;
  readonly ticket: Ticket<Answer>;
}

const retryLengths = { firstMs: 20, maxMs: 1000 };
/** A call that has no answer after this long counts as lost: it may or may not have happened. */
const callMaxMs = 90_000;

export class Batcher<Item, Answer> {
  readonly #options: BatcherOptions<Item, Answer>;
  #pending: Entry<Item, Answer>[] = [];
  #isInFlight = false;
  #isScheduled = false;
  #idle: (() => void)[] = [];

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options;
  }

  push(item: Item, ticket: Ticket<Answer>): void {
    this.#pending.push({ item, ticket });
    this.#schedule();
  }

  add(item: Item): Promise<Answer> {
    return new Promise((answered, failed) => this.push(item, { answered, failed }));
  }

  /** Resolves once nothing is pending or in flight. */
  whenIdle(): Promise<void> {
    if (!this.#isInFlight && this.#pending.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isInFlight) return;
    this.#isScheduled = true;
    this.#options.turn.atEnd(this.#flush);
  }

  readonly #flush = (): void => {
    this.#isScheduled = false;
    if (this.#isInFlight || this.#pending.length === 0) return;
    this.#isInFlight = true;
    const { platform, taken } = this.#options;
    const batch = this.#takeBatch();
    if (taken !== undefined) for (const { item } of batch) taken(item);
    void this.#deliver(batch, platform.monotonicUs()).then(this.#landed);
  };

  readonly #landed = (): void => {
    this.#isInFlight = false;
    if (this.#pending.length > 0) return this.#schedule();
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  };

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

  /** Never rejects: when it resolves, every ticket has been given its answer or its error. */
  async #deliver(entries: Entry<Item, Answer>[], sinceUs: number): Promise<void> {
    const { platform, again, giveUpMs } = this.#options;
    let backoff: Backoff | null = null;
    let unknownCause: unknown = null;
    for (;;) {
      let answers: readonly Answer[];
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
          for (const entry of entries) entry.ticket.failed(unknownCause ?? error);
          return;
        }
        const retrying = (backoff ??= new Backoff(platform, retryLengths));
        await new Promise<void>((resolve) => void retrying.retry(resolve));
        continue;
      }
      for (let index = 0; index < entries.length; index++) {
        (entries[index] as Entry<Item, Answer>).ticket.answered(answers[index] as Answer);
      }
      return;
    }
  }

  async #deliverHalves(entries: Entry<Item, Answer>[], sinceUs: number): Promise<void> {
    const middle = entries.length >> 1;
    await this.#deliver(entries.slice(0, middle), sinceUs);
    await this.#deliver(entries.slice(middle), sinceUs);
  }
}
