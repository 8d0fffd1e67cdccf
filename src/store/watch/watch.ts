/**
 * The watch on a store that several processes share. Hints about this process's own calls go out at once. Hints about
 * the calls of others come through the store's listening connection or, while it is not listening, from reads of the
 * feed.
 *
 *  own call ──► emitOwn ─────────────┐
 *  message ──► listener ──► heard ───┼──► listeners
 *  feed ──► look ────────────────────┘
 *
 * A look reads the feed after the last record whose hints are out. Looks are made at intervals while not listening,
 * once when listening begins again, and when a message says that it does not have everything. While messages come in,
 * the feed is not read, because its hints were received and reading them again would delay the calls of jobs. A note
 * only asks where the feed ends, so that the next look begins there. If a message is lost, the polls of the listeners
 * find the change.
 *
 * The watch works only while it has listeners, and never keeps the process alive.
 */
import { emptyHints, handOut, isEmpty } from "./hints.ts";
import type { Hints } from "./hints.ts";
import { hintEvents } from "../packing/packed-events.ts";
import type { Hint, Unwatch } from "../store.ts";

/** The time between two looks while not listening or after a failed look, and between two notes while listening. */
const slowMs = { note: 15_000, unheard: 1000 };
/** The least time between two looks that messages ask for. */
const lookGapMs = 100;
const feedPageMax = 200;
/**
 * A look reads at most this many pages and then skips to the newest one: old hints may be lost, but not the one that
 * the look was made for.
 */
const pagesMax = 10;
/** How many records before the end of the feed the first look begins. */
const lookBackRecords = 50;

/** The one connection per process on which others' hints come in. */
export interface Listener {
  /** Whether hints of others come in now. */
  isListening(): boolean;
  close(): void | Promise<void>;
}

/** What a listener calls in the watch. */
export interface Ears {
  /** Called with the hints of another process. `hasMore`: the message had no room for all of them. */
  readonly heard: (hints: Hints, hasMore?: boolean) => void;
  /** Called when listening begins, begins again or ends: messages that were sent meanwhile are lost. */
  readonly changed: () => void;
}

export type PackedRecord = readonly [number: number, at: number, events: string];

export interface PackedFeed {
  /** The number of the last record of the feed or, if that is not known, of those read. */
  readonly end: number;
  readonly records: readonly PackedRecord[];
}

/** What a watch needs of the platform. */
export interface Timers {
  setTimer(delayMs: number, run: () => void, keepsAlive: boolean): { cancel(): void };
}

export interface WatchOptions {
  readonly timers: Timers;
  /** Reads the records after a number. After -1: no records, only where the feed ends. */
  readonly readFeed: (after: number, max: number) => Promise<PackedFeed>;
  readonly listen: (ears: Ears) => Listener;
  /** Reads the number of a route as the records of the feed have it; decimal by default. */
  readonly readRoute?: (text: string) => number;
  /**
   * The time between two looks while not listening; 1 s by default. It decides how late a job of another process is
   * seen then.
   */
  readonly unheardLookMs?: number;
  /** How many watches this process has on partitions of one store: each makes its notes more rarely by this factor. */
  readonly watches?: () => number;
}

export interface Watch {
  add(listener: (hint: Hint) => void): Unwatch;
  /** Hands out the hints about a call of this process itself. */
  emitOwn(hints: Hints): void;
  close(): Promise<void>;
}

export function openWatch(options: WatchOptions): Watch {
  const { timers, readFeed, listen, readRoute, unheardLookMs = slowMs.unheard, watches = () => 1 } = options;
  const watchers = new Set<(hint: Hint) => void>();
  let listener: Listener | null = null;
  let slow: { cancel(): void } | null = null;
  let soon: { cancel(): void } | null = null;
  /** The number of the last feed record whose hints are out; null before the first look. */
  let seen: number | null = null;
  let isLooking = false;
  /**
   * Whether another read is needed: something requested one, and the look in progress may have read too early or may
   * fail.
   */
  let mustReadAgain = false;
  let isClosed = false;

  const look = async (): Promise<void> => {
    if (isLooking || watchers.size === 0 || isClosed) return;
    isLooking = true;
    slow?.cancel();
    const isNote = !mustReadAgain && isListening();
    mustReadAgain = false;
    let isFailed = false;
    try {
      const next = isNote ? await end() : await readOthers(seen ?? (await firstSeen()));
      // A note during which another read became necessary is dropped: it may count records whose hints were not
      // received.
      if (watchers.size > 0 && !(isNote && mustReadAgain)) seen = next;
    } catch {
      // The store is away: the look is made again after the slow interval.
      isFailed = true;
      mustReadAgain ||= !isNote;
    }
    isLooking = false;
    if (watchers.size === 0 || isClosed) return;
    if (mustReadAgain && !isFailed) void look();
    else
      slow = timers.setTimer(
        isListening() && !mustReadAgain ? slowMs.note * watches() : unheardLookMs,
        () => void look(),
        false,
      );
  };

  const lookNow = (): void => {
    mustReadAgain = true;
    void look();
  };

  const isListening = (): boolean => listener?.isListening() === true;

  const end = async (): Promise<number> => (await readFeed(-1, 0)).end;

  /**
   * Where the first look begins: a little before the end of the feed, because a new listener has read the store
   * earlier, and changes may have happened since.
   */
  const firstSeen = async (): Promise<number> => Math.max(0, (await end()) - lookBackRecords);

  /** Reads the feed after `from` and hands out its hints. Answers the number of the last record read. */
  const readOthers = async (from: number): Promise<number> => {
    let after = from;
    for (let page = 0; page <= pagesMax; page++) {
      if (page === pagesMax) after = Math.max(after, (await end()) - feedPageMax);
      const { end: last, records } = await readFeed(after, feedPageMax);
      // A feed that ends before the last record seen is another feed: the store was emptied or lost writes.
      if (last < after) return last;
      const hints = emptyHints();
      for (const [number, at, events] of records) {
        hintEvents(hints, events, at, readRoute);
        after = number;
      }
      handOut(hints, watchers);
      if (records.length < feedPageMax) return after;
    }
    return after;
  };

  const lookSoon = (): void => {
    if (soon !== null) return;
    // The first look follows at once, so that jobs from a caller's own transaction are seen without delay.
    lookNow();
    const again = (): void => {
      soon = null;
      lookNow();
    };
    soon = timers.setTimer(lookGapMs, again, false);
  };

  const ears: Ears = {
    heard(hints, hasMore = false) {
      handOut(hints, watchers);
      if (hasMore && watchers.size > 0) lookSoon();
    },
    changed: lookNow,
  };

  return {
    add(watcher) {
      watchers.add(watcher);
      listener ??= listen(ears);
      if (watchers.size === 1) lookNow();
      return () => {
        if (!watchers.delete(watcher) || watchers.size > 0) return;
        slow?.cancel();
        soon?.cancel();
        soon = null;
        seen = null;
      };
    },
    emitOwn(hints) {
      if (!isEmpty(hints)) handOut(hints, watchers);
    },
    async close() {
      isClosed = true;
      watchers.clear();
      slow?.cancel();
      soon?.cancel();
      await listener?.close();
    },
  };
}
