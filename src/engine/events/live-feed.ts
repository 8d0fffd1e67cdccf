/**
 * Reads new events once per process, for all listeners that keep up. A hint of the store wakes it. It reads the
 * partitions that may have news and hands each record to every follower. It never waits for one: a follower that falls
 * behind leaves by its own bound (subscription.ts) and reads for itself.
 *
 * hint ──► wake ──► read new records ──► followers without followers nothing is read
 *               ▲        └─ gap ──┐
 *               └──── slow poll ──┘
 *
 * In a flood it reads at its own pace and unsubscribes from hints, because being woken for every commit costs more than
 * reading.
 *
 * Always true: a follower gets every record after its position, once and in the order of its partition.
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
 * The gap between two reads grows with the events of the last one: single events come at once, and a flood comes in
 * large pages, about twenty a second. On a busy machine events arrive more slowly, so a long gap must follow even few
 * of them. At a fifth of this rate, ten listeners during a drain on two cores read bundles of a hundred events.
 */
const gapMsPerEvent = 0.1;
const gapMs = { min: 1, max: 50 };
/**
 * A read with this many events starts a flood. It ends after `calmReads` reads in a row with fewer than `until`.
 * Watching again costs a server more than reading for a second, because a watch begins with a read of the feed.
 */
const floodEvents = { from: 500, until: 100 };
const calmReads = 20;
/**
 * Not every change is hinted at: a claim follows a submit, and a message for each would wake all processes. So after
 * news the feed is read again at these intervals, until nothing more is found.
 */
const laterLooksMs: readonly number[] = [20, 60, 200, 500];
/**
 * The interval of the slow poll per partition, in case hints were lost. Together the partitions are read less than
 * twice a second.
 */
const slowLookMs = 1500;
const slowLookPerPartitionMs = 600;

export interface Follower {
  /** Whether the follower keeps its process alive, as a loop over events does. */
  readonly keepsAlive: boolean;
  /** The kinds of events that it reads. */
  readonly kinds: FeedKinds;
  /** Called with each new record while it follows. */
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
  /** By partition: records up to this number are not for this follower. */
  readonly after: readonly number[];
}

/** The result of reading all stale partitions. */
interface Reading {
  readonly events: number;
  /** There was nothing more when it was read. */
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
  /** The kinds that all followers together read. */
  #kinds: FeedKinds = undefined;
  /** Partitions that may have news. */
  readonly #stale = new Set<number>();
  /** Partitions without news whose end has to be compared with the last record that was read. */
  readonly #unchecked = new Set<number>();
  #unwatch: Unwatch | null = null;
  #slow: Timer | null = null;
  #gap: Timer | null = null;
  #isReading = false;
  /** The number of reads in a row with few events. */
  #calm = 0;
  /** The number of reads in a row that found nothing. */
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
   * Hands the follower all records after these positions. @returns false if the live feed is ahead of one of them. The
   * follower then reads on by itself and tries again.
   */
  follow(follower: Follower, positions: readonly FeedPosition[]): boolean {
    if (this.#following.size === 0) this.#begin(positions);
    // The read in flight does not ask for its kinds.
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
    // Records between the last read (or the given positions) and the watch have no hint.
    this.#allStale();
  }

  /** Starts or ends a flood, by the events of a read. */
  #noticeFlood(events: number): void {
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
      this.#noticeFlood(events);
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

  /** @returns what was read; null if a partition could not be read. It stays stale, and the others go on. */
  async #readStale(pages: readonly FeedPages[]): Promise<Reading | null> {
    const asked = [...this.#stale];
    this.#stale.clear();
    const read = await Promise.allSettled(asked.map((number) => this.#readPartition(pages, number)));
    // The read belongs to an earlier run of this feed, so it has no followers.
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
    // If the feed ends before the last record that was read, it is another feed.
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
    this.#around.repeated.say("warn", "reading events failed; it will be tried again", { error });
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
