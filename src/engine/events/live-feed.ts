/**
 * The one reader of new events in a process, for all who listen there and keep up. A hint of the store wakes it; it
 * reads the partitions that may have news and hands each record to every follower. It takes no part in delivery: who
 * does not take the records is let go by its own bound (subscription.ts) and reads for itself.
 *
 *  hint ──► wake ──► read what is new ──► followers          nobody follows: nothing is read
 *               ▲        └─ gap ──┐
 *               └──── slow look ──┘
 *
 * In a flood it reads at a pace of its own and lets the hints go: to be woken for every commit of somebody else costs
 * more than to read what it told.
 *
 * Always true: a follower gets every record behind the position that it came with, once and in order of its partition.
 */
import { isMillraceError } from "../../model/error.ts";
import type { FeedPosition } from "../../model/events/event-cursor.ts";
import type { EventKind } from "../../model/events/event-kind.ts";
import type { Platform, Timer } from "../../platform/platform.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Store, Unwatch } from "../../store/store.ts";
import type { RepeatedLines } from "../log/repeated-line.ts";
import { beyondEnd, FeedPages, readEnd } from "./feed-pages.ts";
import type { FeedKinds, FeedPage, PartitionRecord } from "./feed-pages.ts";
import { mergeByTime } from "./merge-by-time.ts";
import { RouteNames } from "./route-names.ts";

/**
 * The time between two reads grows with what the last one brought: single events come at once, and a flood comes in
 * large pages, some twenty a second. On a busy machine events come more slowly, so that little has to be enough for a
 * long gap: at a fifth of this rate, ten listeners beside a drain on two cores read bundles of a hundred events.
 */
const gapMsPerEvent = 0.1;
const gapMs = { min: 1, max: 50 };
/**
 * A read that brings so many events begins a flood; it ends with so many reads in a row that bring fewer than that. To
 * watch again costs a server more than to be read for a second: the watch begins with a look at the feed of its own.
 */
const floodEvents = { from: 500, until: 100 };
const calmReads = 20;
/**
 * Not everything that is told is hinted at to all processes: a claim follows a submit, and a message for each would
 * wake everybody. So behind news the feed is looked at again at these distances, until nothing more is found.
 */
const laterLooksMs: readonly number[] = [20, 60, 200, 500];
/** Behind lost hints each partition is looked at so often; together they ask less than twice a second. */
const slowLookMs = 1500;
const slowLookPerPartitionMs = 600;

export interface Follower {
  /** Whoever waits in a loop keeps its process alive, as every wait does. */
  readonly keepsAlive: boolean;
  /** What it wants of the feed. */
  readonly kinds: FeedKinds;
  /** Called with each record that is new, for as long as it follows. */
  took(record: PartitionRecord): void;
  /** The feed cannot be followed any more. */
  failed(error: unknown): void;
}

interface Surroundings {
  readonly store: Store;
  readonly platform: Platform;
  readonly repeated: RepeatedLines;
}

interface Following {
  readonly follower: Follower;
  /** By partition: records up to this number are not for it. */
  readonly after: readonly number[];
}

/** What was read of all partitions together. */
interface Reading {
  readonly events: number;
  /** There was no more when it was read. */
  readonly isEnd: boolean;
}

export class LiveFeed {
  readonly store: Store;
  readonly names: RouteNames;
  readonly #around: Surroundings;
  readonly #partitions: number;
  readonly #following = new Map<Follower, Following>();
  readonly #backoff: Backoff;
  #pages: FeedPages[] = [];
  /** What all followers together want. */
  #kinds: FeedKinds = undefined;
  /** Partitions that may have news. */
  readonly #stale = new Set<number>();
  /** Partitions whose end is to be compared with what was read, where they have no news. */
  readonly #unchecked = new Set<number>();
  #unwatch: Unwatch | null = null;
  #slow: Timer | null = null;
  #gap: Timer | null = null;
  #isReading = false;
  /** Reads in a row that brought little. */
  #calm = 0;
  /** Looks in a row that found nothing. */
  #quietLooks = laterLooksMs.length;

  constructor(around: Surroundings) {
    this.#around = around;
    this.#partitions = around.store.partitions ?? 1;
    this.store = around.store;
    this.names = new RouteNames(around.store);
    this.#backoff = new Backoff(around.platform, { firstMs: 100, maxMs: 2000 });
  }

  get partitions(): number {
    return this.#partitions;
  }

  /**
   * Hands the follower all records behind these positions. @returns false where the live feed is ahead of one of them:
   * the follower reads on by itself and tries again.
   */
  follow(follower: Follower, positions: readonly FeedPosition[]): boolean {
    if (this.#following.size === 0) this.#begin(positions);
    // What is on its way was asked for without it.
    else if (this.#isReading && !this.#isRead(follower)) return false;
    else if (this.#pages.some((pages, number) => (positions[number]?.after ?? 0) < pages.position.after))
      return false;
    this.#following.set(follower, { follower, after: positions.map(({ after }) => after) });
    this.#kinds = kindsOf(this.#following.keys());
    this.#lookLater();
    return true;
  }

  leave(follower: Follower): void {
    if (!this.#following.delete(follower)) return;
    this.#kinds = kindsOf(this.#following.keys());
    if (this.#following.size === 0) this.#end();
  }

  #isRead({ kinds }: Follower): boolean {
    const read = this.#kinds;
    return read === undefined || (kinds !== undefined && kinds.every((kind) => read.includes(kind)));
  }

  #begin(positions: readonly FeedPosition[]): void {
    const kinds = (): FeedKinds => this.#kinds;
    this.#pages = positions.map((position, partition) => new FeedPages(this, { partition, position, kinds }));
    this.#watch();
    this.#read();
  }

  #watch(): void {
    this.#unwatch = this.store.watch((hint) => {
      if (hint.kind === "emitted") this.#stale.add(hint.partition);
      else if (this.#partitions === 1) this.#stale.add(0);
      this.#read();
    });
    // What was told between the last read, or that of the positions, and the watch has no hint.
    this.#allStale();
  }

  /** Begins or ends a flood, by what a read has brought. */
  #heedFlood(events: number): void {
    this.#calm = events < floodEvents.until ? this.#calm + 1 : 0;
    if (this.#unwatch === null && this.#calm >= calmReads) this.#watch();
    if (this.#unwatch === null || events < floodEvents.from) return;
    this.#unwatch();
    this.#unwatch = null;
  }

  #end(): void {
    this.#unwatch?.();
    this.#unwatch = null;
    this.#slow?.cancel();
    this.#gap?.cancel();
    this.#backoff.cancel();
    this.#slow = this.#gap = null;
    this.#pages = [];
    this.#stale.clear();
    this.#unchecked.clear();
  }

  #allStale(): void {
    for (let number = 0; number < this.#partitions; number++) this.#stale.add(number);
  }

  #lookLater(): void {
    this.#slow?.cancel();
    const slowMs = Math.max(slowLookMs, slowLookPerPartitionMs * this.#partitions);
    const delayMs = laterLooksMs[this.#quietLooks] ?? slowMs;
    const keepsAlive = [...this.#following.keys()].some((follower) => follower.keepsAlive);
    const look = (): void => {
      this.#allStale();
      if (this.#quietLooks >= laterLooksMs.length)
        for (const number of this.#stale) this.#unchecked.add(number);
      this.#quietLooks += 1;
      this.#read();
      this.#lookLater();
    };
    this.#slow = this.#around.platform.setTimer(delayMs, look, keepsAlive);
  }

  #read(): void {
    if (this.#isReading || this.#gap !== null || this.#backoff.isWaiting || this.#stale.size === 0) return;
    this.#isReading = true;
    void this.#readStale(this.#pages).then((read) => {
      this.#isReading = false;
      if (this.#following.size === 0) return;
      if (read === null) {
        this.#backoff.retry(() => this.#read());
        return;
      }
      this.#backoff.succeeded();
      const { events, isEnd } = read;
      this.#heedFlood(events);
      const isFlood = this.#unwatch === null;
      const wishedMs = isFlood ? gapMs.max : Math.max(events * gapMsPerEvent, gapMs.min);
      const restMs = isEnd ? Math.min(wishedMs, gapMs.max) : gapMs.min;
      this.#gap = this.#around.platform.setTimer(restMs, () => {
        this.#gap = null;
        if (this.#unwatch === null) this.#allStale();
        this.#read();
      });
    });
  }

  /** @returns what was read; null where a partition could not be: it stays stale, and the others go on. */
  async #readStale(pages: readonly FeedPages[]): Promise<Reading | null> {
    const asked = [...this.#stale];
    this.#stale.clear();
    const read = await Promise.allSettled(asked.map((number) => this.#readPartition(pages, number)));
    // A reading of an earlier life of this feed has nobody to tell.
    if (pages !== this.#pages) return { events: 0, isEnd: true };
    const fulfilled = read.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    const records = mergeByTime(fulfilled.map((each) => each.records));
    this.#emit(records);
    if (records.length > 0) {
      this.#quietLooks = 0;
      this.#lookLater();
    }
    let hasFailed = false;
    for (const [index, each] of read.entries()) {
      if (each.status === "fulfilled") continue;
      hasFailed = true;
      this.#stale.add(asked[index] as number);
      this.#failed(each.reason);
    }
    const events = records.reduce((sum, record) => sum + record.count, 0);
    return hasFailed ? null : { events, isEnd: fulfilled.every((each) => each.isEnd) };
  }

  async #readPartition(pages: readonly FeedPages[], number: number): Promise<FeedPage> {
    const reader = pages[number] as FeedPages;
    const { records, isEnd } = await reader.next();
    if (!isEnd) this.#stale.add(number);
    const isQuiet = records.length === 0 && this.#unchecked.delete(number);
    // A feed that ends before the last record that was read is another feed.
    if (isQuiet && (await readEnd(this.store, number)) < reader.position.after) throw beyondEnd();
    return { records, isEnd };
  }

  #emit(records: readonly PartitionRecord[]): void {
    for (const record of records) {
      for (const { follower, after } of this.#following.values())
        if (record.number > (after[record.partition] as number)) follower.took(record);
    }
  }

  #failed(error: unknown): void {
    if (isMillraceError(error, "invalid-cursor") || isMillraceError(error, "cursor-expired")) {
      for (const { follower } of [...this.#following.values()]) follower.failed(error);
      return;
    }
    this.#around.repeated.say("warn", "reading events failed; it is tried again", { error });
  }
}

function kindsOf(followers: Iterable<Follower>): FeedKinds {
  const kinds = new Set<EventKind>();
  for (const follower of followers) {
    if (follower.kinds === undefined) return undefined;
    for (const kind of follower.kinds) kinds.add(kind);
  }
  return [...kinds];
}
