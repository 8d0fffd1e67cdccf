/**
 * Leads one listener through the feed. While it is behind, it reads by itself, page by page, as fast as the listener
 * takes the events. Once it has caught up, it follows the live feed that all listeners of the process share.
 *
 *   behind ──nothing left to read──► live          live ──more than its bound is waiting──► behind
 *
 * Always true: it holds a bounded number of events, even if the listener takes none; and the listener gets no gap and
 * no duplicate, because each record is taken once, after the position of the one before.
 */
import type { FeedPosition } from "../../model/events/event-cursor.ts";
import { feedKindsOf } from "../../model/events/event.ts";
import type { MillraceEvent } from "../../model/events/event.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Platform } from "../../platform/platform.ts";
import type { RepeatedLines } from "../log/repeated-line.ts";
import { FeedMerge } from "./feed-merge.ts";
import type { FeedKinds, PartitionRecord } from "./feed-pages.ts";
import { lacksJob } from "./event-jobs.ts";
import type { EventJobs } from "./event-jobs.ts";
import type { LiveFeed } from "./live-feed.ts";
import { mayHaveWanted, Positions, ShownRecord } from "./show-events.ts";
import type { EventFilter } from "./show-events.ts";

/** How many events may wait for a listener that follows. With more, it reads by itself. */
const waitingMax = 20_000;

interface Surroundings {
  readonly live: LiveFeed;
  readonly jobs: EventJobs;
  readonly platform: Platform;
  readonly repeated: RepeatedLines;
}

export interface SubscriptionOptions {
  readonly filter: EventFilter;
  /** The position at which it begins. */
  readonly begin: Promise<readonly FeedPosition[]>;
  readonly keepsAlive: boolean;
  /** Called once, when there will be no more events. */
  readonly ended: () => void;
}

const over: IteratorReturnResult<undefined> = { done: true, value: undefined };

export class Subscription implements AsyncIterableIterator<MillraceEvent, undefined>, AsyncDisposable {
  readonly keepsAlive: boolean;
  readonly kinds: FeedKinds;
  readonly #around: Surroundings;
  readonly #filter: EventFilter;
  readonly #begin: Promise<readonly FeedPosition[]>;
  readonly #ended: () => void;
  readonly #backoff: Backoff;
  #positions: Positions | null = null;
  /** Set while it is behind. */
  #merge: FeedMerge | null = null;
  #isFollowing = false;
  #waiting: PartitionRecord[] = [];
  #waitingEvents = 0;
  #failure: { readonly error: unknown } | null = null;
  #isOver = false;
  /** Called if a record came, or at the end. */
  #wake: (() => void) | null = null;
  /** The record whose events are being taken; null after its last one. */
  #record: ShownRecord | null = null;
  /** Events completed from their jobs, from `#taken` on; they come before the others of the record. */
  #completed: readonly MillraceEvent[] = [];
  #taken = 0;
  /** The next event of the record, which lacks fields of its job. */
  #lacking: MillraceEvent | null = null;
  /** Calls of `next` run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #turns = 0;

  constructor(around: Surroundings, { filter, begin, keepsAlive, ended }: SubscriptionOptions) {
    this.#around = around;
    this.#filter = filter;
    this.kinds = filter.kinds === undefined ? undefined : feedKindsOf(filter.kinds);
    this.#begin = begin;
    this.keepsAlive = keepsAlive;
    this.#ended = ended;
    this.#backoff = new Backoff(around.platform, { firstMs: 100, maxMs: 2000 });
    // The first `next` rejects with this error; until then no caller handles it.
    begin.catch(() => undefined);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<MillraceEvent, undefined>> {
    if (this.#turns === 0) {
      try {
        const event = this.#takeNow();
        if (event !== null) return Promise.resolve({ done: false, value: event });
      } catch (error) {
        this.end();
        return Promise.reject(error as Error);
      }
    }
    this.#turns += 1;
    const turn = this.#turn.then(() => this.#pull()).finally(() => (this.#turns -= 1));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  return(): Promise<IteratorReturnResult<undefined>> {
    this.end();
    return Promise.resolve(over);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.end();
    return Promise.resolve();
  }

  /** Ends the subscription; a waiting `next` returns at once. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#leave();
    this.#record = this.#lacking = null;
    this.#completed = [];
    this.#taken = 0;
    this.#wake?.();
    this.#ended();
  }

  /** The next event if it is at hand; null if something has to be read first, or at the end. */
  #takeNow(): MillraceEvent | null {
    if (this.#taken < this.#completed.length) return this.#completed[this.#taken++] as MillraceEvent;
    if (this.#record === null || this.#lacking !== null) return null;
    const event = this.#record.next();
    if (event === null) this.#record = null;
    else if (lacksJob(event, this.#filter)) {
      this.#lacking = event;
      return null;
    }
    return event;
  }

  async #pull(): Promise<IteratorResult<MillraceEvent, undefined>> {
    try {
      while (!this.#isOver) {
        const event = this.#takeNow();
        if (event !== null) return { done: false, value: event };
        if (this.#lacking !== null) await this.#completeRest(this.#lacking);
        else await this.#takeRecord();
      }
      return over;
    } catch (error) {
      this.end();
      throw error;
    }
  }

  async #takeRecord(): Promise<void> {
    const positions = (this.#positions ??= new Positions(await this.#begin));
    const record = await this.#nextRecord(positions);
    if (record === null || this.#isOver) return;
    const { names } = this.#around.live;
    this.#record = new ShownRecord(record, { filter: this.#filter, names, positions });
  }

  /**
   * From the first event that lacks fields on, all remaining events of the record are made at once, so that their jobs
   * are read in batches.
   */
  async #completeRest(first: MillraceEvent): Promise<void> {
    const rest = [first];
    for (let event = this.#record?.next(); event; event = this.#record?.next()) rest.push(event);
    this.#record = null;
    this.#lacking = null;
    this.#taken = 0;
    const completed = await this.#withJobs(rest);
    if (!this.#isOver) this.#completed = completed;
  }

  /** The next record, or null if the caller has to try again. */
  async #nextRecord(positions: Positions): Promise<PartitionRecord | null> {
    if (this.#failure !== null) throw this.#failure.error;
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) {
      this.#waitingEvents -= takenOf(waiting);
      return waiting;
    }
    if (this.#isFollowing) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = null;
      return null;
    }
    return this.#readBehind(positions);
  }

  async #readBehind(positions: Positions): Promise<PartitionRecord | null> {
    const { live, platform } = this.#around;
    const merge = (this.#merge ??= new FeedMerge(live, platform, {
      positions: positions.all,
      kinds: this.kinds,
    }));
    const merged = await merge.next();
    if (merged.kind === "record") {
      this.#backoff.succeeded();
      return merged.record;
    }
    if (merged.kind === "failure") {
      await this.#failedOnce(merged.error);
      return null;
    }
    // All records that were read have been returned, so this is the position.
    this.#positions = new Positions(merge.positions);
    if (this.#isOver || !live.follow(this, merge.positions)) return null;
    this.#isFollowing = true;
    this.#merge = null;
    return null;
  }

  /** Fields that the feed lacks are read from the jobs. While the store is away, the events wait. */
  async #withJobs(events: readonly MillraceEvent[]): Promise<readonly MillraceEvent[]> {
    while (!this.#isOver) {
      try {
        return await this.#around.jobs.complete(events, this.#filter);
      } catch (error) {
        await this.#failedOnce(error);
      }
    }
    return [];
  }

  async #failedOnce(error: unknown): Promise<void> {
    const { platform, repeated } = this.#around;
    repeated.say("warn", "reading events failed; it will be tried again", { error });
    await this.#sleep(platform, this.#backoff.failed());
  }

  async #sleep(platform: Platform, delayMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      platform.setTimer(delayMs, resolve);
    });
    this.#wake = null;
  }

  /** A new record of the live feed. */
  took(record: PartitionRecord): void {
    const isForNobody = !mayHaveWanted(record, this.#filter, this.#around.live.names);
    if (isForNobody && this.#waiting.length === 0) return this.#positions?.read(record);
    this.#waitingEvents += takenOf(record);
    if (this.#waitingEvents > waitingMax && this.#waiting.length > 0) return this.#leave();
    this.#waiting.push(record);
    this.#wake?.();
  }

  failed(error: unknown): void {
    this.#leave();
    this.#failure = { error };
    this.#wake?.();
  }

  /** Drops the waiting records. They are read again from the position after the last record that was taken. */
  #leave(): void {
    if (this.#isFollowing) this.#around.live.leave(this);
    this.#isFollowing = false;
    this.#waiting = [];
    this.#waitingEvents = 0;
  }
}

/** How many events of the record are in kinds that were asked for. */
function takenOf({ bundles }: PartitionRecord): number {
  let taken = 0;
  for (const { count } of bundles) taken += count;
  return taken;
}
