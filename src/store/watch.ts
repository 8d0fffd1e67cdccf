/**
 * Hints for those who watch a store that several processes share: from this process's own calls at once; from other processes through the
 * store's listening connection, or, while that is deaf, by looks at the feed.
 *
 *  own call ──► tellOwn ───────────────┐
 *  message ──► listener ──► heard ─────┼──► those who watch
 *  feed ──► look (while deaf; once when hearing began again; soon, when a message says that there is more than it tells)
 *
 * While messages come in, the feed is not read: what it tells was heard, and reading it all again would hold up the calls that jobs wait for. A
 * message that is lost all the same is made good by the slow polls of those who watch.
 *
 * Works only while somebody watches, and never keeps the process alive.
 */
import { emptyHints, handOut, isEmpty } from "./hints.ts";
import type { Hints } from "./hints.ts";
import { hintEvents } from "./packed-events.ts";
import type { Hint, Unwatch } from "./store.ts";

/** Between two looks while deaf or after one that failed, and between two notes of how far the feed has come while listening. */
const slowMs = { note: 5000, deaf: 1000 };
/** Between two looks that messages ask for. */
const lookGapMs = 100;
const feedPageMax = 200;
/** Behind by more than this, all but the newest page is skipped: hints may be lost, but not what a look was called for. */
const pagesMax = 10;
/** Hinted again by the first look. */
const lookBackRecords = 50;

/** The one connection per process on which others' hints come in. */
export interface Listener {
  /** Whether hints of others come in right now. */
  isListening(): boolean;
  close(): void | Promise<void>;
}

/** What a listener does with what it hears. */
export interface Ears {
  /** Hints of another process. `hasMore`: it had more to tell than the message holds. */
  readonly heard: (hints: Hints, hasMore?: boolean) => void;
  /** Listening began, began again or ended: what came meanwhile was not heard. */
  readonly changed: () => void;
}

export type PackedRecord = readonly [number: number, at: number, events: string];

export interface PackedFeed {
  /** The last number of the whole feed, or where that is not known of those read. */
  readonly end: number;
  readonly records: readonly PackedRecord[];
}

/** What a watch needs of the platform. */
export interface Timers {
  setTimer(delayMs: number, run: () => void, keepsAlive: boolean): { cancel(): void };
}

export interface WatchOptions {
  readonly timers: Timers;
  /** Records behind a number. Behind -1: none but the present end. */
  readonly readFeed: (after: number, max: number) => Promise<PackedFeed>;
  readonly listen: (ears: Ears) => Listener;
  /** The number of a route as the feed's records write it; decimal unless said. */
  readonly readRoute?: (text: string) => number;
  /** Between two looks while no message comes in, when they alone decide how late another process's job is seen; 1 s unless said. */
  readonly deafLookMs?: number;
  /** How many such watches one process has: each notes so much more rarely that together they ask no more than one. */
  readonly watches?: number;
}

export interface Watch {
  add(listener: (hint: Hint) => void): Unwatch;
  /** What a call of this process's own has to tell. */
  tellOwn(hints: Hints): void;
  close(): Promise<void>;
}

export function openWatch(options: WatchOptions): Watch {
  const { timers, readFeed, listen, readRoute, deafLookMs = slowMs.deaf, watches = 1 } = options;
  const watchers = new Set<(hint: Hint) => void>();
  let listener: Listener | null = null;
  let slow: { cancel(): void } | null = null;
  let soon: { cancel(): void } | null = null;
  /** The last record of the feed whose hints are out; null before the first look. */
  let seen: number | null = null;
  let isLooking = false;
  /** Something calls for a look that has not been made yet: one that is on its way may have been too early, or fails. */
  let isOwed = false;
  let isClosed = false;

  const look = async (): Promise<void> => {
    if (isLooking || watchers.size === 0 || isClosed) return;
    isLooking = true;
    slow?.cancel();
    const isNote = !isOwed && isListening();
    isOwed = false;
    let isFailed = false;
    try {
      const next = isNote ? await end() : await readOthers(seen ?? (await firstSeen()));
      // A note that was overtaken may count what was not heard.
      if (watchers.size > 0 && !(isNote && isOwed)) seen = next;
    } catch {
      // A store that is away.
      isFailed = true;
      isOwed ||= !isNote;
    }
    isLooking = false;
    if (watchers.size === 0 || isClosed) return;
    if (isOwed && !isFailed) void look();
    else
      slow = timers.setTimer(
        isListening() && !isOwed ? slowMs.note * watches : deafLookMs,
        () => void look(),
        false,
      );
  };

  const lookNow = (): void => {
    isOwed = true;
    void look();
  };

  const isListening = (): boolean => listener?.isListening() === true;

  const end = async (): Promise<number> => (await readFeed(-1, 0)).end;

  /** Whoever begins to watch has looked before, and things happen until this look arrives: so it begins a little in the past. */
  const firstSeen = async (): Promise<number> => Math.max(0, (await end()) - lookBackRecords);

  /** Answers how far the feed was read. */
  const readOthers = async (from: number): Promise<number> => {
    let after = from;
    for (let page = 0; page <= pagesMax; page++) {
      if (page === pagesMax) after = Math.max(after, (await end()) - feedPageMax);
      const { end: last, records } = await readFeed(after, feedPageMax);
      // A feed that ends before what was seen is another one: the store was emptied or lost writes.
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
    // The first look is at once, so that a commit of a caller's own transaction is seen without delay.
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
    tellOwn(hints) {
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
