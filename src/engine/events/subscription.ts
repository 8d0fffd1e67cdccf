/**
 * One listener's way through the feed. While it is behind it reads for itself, page by page, as fast as it takes the
 * events; once it has caught up it follows the live feed that all listeners of the process share.
 *
 *   behind ──nothing left to read──► live          live ──more waits for it than its bound──► behind
 *
 * Always true: it holds a bounded number of events, whatever it does not take; and its events are without a gap and
 * without doubles over both ways, because each record is taken once, behind the position of the one before.
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

/** So many events may wait for a listener that follows; one that is further behind reads by itself. */
const waitingMax = 20_000;

interface Surroundings {
  readonly live: LiveFeed;
  readonly jobs: EventJobs;
  readonly platform: Platform;
  readonly repeated: RepeatedLines;
}

export interface SubscriptionOptions {
  readonly filter: EventFilter;
  /** Where it begins. */
  readonly begin: Promise<readonly FeedPosition[]>;
  readonly keepsAlive: boolean;
  /** Called once, when nothing more will be given. */
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
  /** While it is behind. */
  #merge: FeedMerge | null = null;
  #isFollowing = false;
  #waiting: PartitionRecord[] = [];
  #waitingEvents = 0;
  #failure: { readonly error: unknown } | null = null;
  #isOver = false;
  /** Called when something came, or when it is over. */
  #wake: (() => void) | null = null;
  /** The record whose events are taken; null behind its last one. */
  #record: ShownRecord | null = null;
  /** Events that had to wait for what their jobs have, from `#taken` on; they come before the rest of the record. */
  #completed: readonly MillraceEvent[] = [];
  #taken = 0;
  /** The event of the record that is next, and lacks what its job has. */
  #lacking: MillraceEvent | null = null;
  /** One `next` after the other. */
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
    // Whoever takes the first event is told; before that nobody is there to hear it.
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

  /** Nothing more is given; who waits is told so. */
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

  /** The next event where it can be given at once; null where something has to be read first, or all is over. */
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
   * From the first event on that lacks something, the rest of a record is made at once: its jobs are read in batches.
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

  /** The next record, or null where it has to look again. */
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
    // All that was read is given: this is where it stands.
    this.#positions = new Positions(merge.positions);
    if (this.#isOver || !live.follow(this, merge.positions)) return null;
    this.#isFollowing = true;
    this.#merge = null;
    return null;
  }

  /** What the feed does not tell is read from the jobs; while the store is away, the events wait. */
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
    repeated.say("warn", "reading events failed; it is tried again", { error });
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

  /** What waits is let go: it is read again from the position behind the last record that was taken. */
  #leave(): void {
    if (this.#isFollowing) this.#around.live.leave(this);
    this.#isFollowing = false;
    this.#waiting = [];
    this.#waitingEvents = 0;
  }
}

/** How many of the record's events were asked for. */
function takenOf({ bundles }: PartitionRecord): number {
  let taken = 0;
  for (const { count } of bundles) taken += count;
  return taken;
}
