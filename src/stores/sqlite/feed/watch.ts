/**
 * Hints for those who watch. The store's own calls give hints at once. Changes by other processes and by the caller's
 * own connections are read from the feed: when the wake file changes (wake-file.ts), and, because a file watch may miss
 * something, after a slow read of SQLite's data version.
 *
 * Works only while somebody watches, and never keeps the process alive.
 */
import type { Platform, Timer } from "../../../platform/platform.ts";
import { emptyHints, handOut, emitHints } from "../../../store/watch/hints.ts";
import { hintEvents } from "../../../store/packing/packed-events.ts";
import type { Hint, Unwatch } from "../../../store/store.ts";
import type { WakeFile } from "./wake-file.ts";
import type { Executor } from "../connection/executor.ts";
import type { CommitOutcome } from "../connection/commit.ts";
import type { News } from "../jobs/read.ts";
import type { StoreClock } from "../../../store/store-clock.ts";

/**
 * Seldom if there are file events: whoever must not miss a hint has a slow read of its own, and an idle worker stays
 * below two reads per second. More often without them.
 */
const slowLookMs = { withEvents: 30_000, alone: 1000 };
/** The least time between two looks: other processes in a drain wake this one hundreds of times a second. */
const lookGapMs = 4;
const feedPageMax = 200;

export interface Watch {
  add(listener: (hint: Hint) => void): Unwatch;
  /** What a commit of this store's own has emitted. */
  emitOwn(commit: CommitOutcome): void;
  close(): void;
}

export interface WatchOptions {
  readonly platform: Platform;
  readonly clock: StoreClock;
  /** Null for a store in memory: nobody else can change it. */
  readonly wakeFile: WakeFile | null;
  readonly executor: () => Executor;
}

export function openWatch({ platform, clock, wakeFile, executor }: WatchOptions): Watch {
  const listeners = new Set<(hint: Hint) => void>();
  /** Records of this store's own calls behind `seen`, whose hints are out too. */
  const own = new Set<number>();
  let unlisten: (() => void) | null = null;
  let slow: Timer | null = null;
  let soon: Timer | null = null;
  let version: number | null = null;
  /** The last feed record whose hints are out; null before the first look. */
  let seen: number | null = null;
  /** The sum of the versions of all gates, as far as their hints are out. */
  let gates = 0;
  let lookedUs = Number.NEGATIVE_INFINITY;
  let isLooking = false;
  /** A wake came during a look, which may have missed its reason. */
  let isWoken = false;
  let isClosed = false;

  const start = (): void => {
    if (wakeFile === null || isClosed) return;
    unlisten = wakeFile.listen(lookSoon);
    void look();
  };

  const stop = (): void => {
    unlisten?.();
    slow?.cancel();
    soon?.cancel();
    unlisten = slow = soon = null;
    seen = null;
    own.clear();
  };

  const lookSoon = (): void => {
    if (isLooking) isWoken = true;
    if (isLooking || soon !== null) return;
    const waitMs = lookGapMs - (platform.monotonicUs() - lookedUs) / 1000;
    if (waitMs <= 0) return void look();
    const lookNow = (): void => {
      soon = null;
      void look();
    };
    soon = platform.setTimer(Math.ceil(waitMs), lookNow, false);
  };

  const look = async (): Promise<void> => {
    if (isLooking || listeners.size === 0 || isClosed) return;
    isLooking = true;
    isWoken = false;
    lookedUs = platform.monotonicUs();
    slow?.cancel();
    try {
      await readNews();
    } catch {
      // A busy or failing store: the slow look comes again.
      version = null;
    } finally {
      isLooking = false;
      if (listeners.size > 0 && !isClosed) {
        const delayMs = unlisten === null ? slowLookMs.alone : slowLookMs.withEvents;
        slow = platform.setTimer(delayMs, () => void look(), false);
        if (isWoken) lookSoon();
      }
    }
  };

  const readNews = async (): Promise<void> => {
    for (;;) {
      const asked = { version, after: seen, gates, max: feedPageMax };
      const news = (await executor().call("readNews", asked)) as News;
      const hints = emptyHints();
      for (const [number, , body] of news.records)
        if (!own.delete(number)) hintEvents(hints, body, clock.now());
      for (const route of news.woken) hints.routes.add(route);
      seen = news.end;
      gates = news.gates;
      handOut(hints, listeners);
      if (news.records.length === feedPageMax) continue;
      version = news.version;
      own.clear();
      return;
    }
  };

  return {
    add(listener) {
      listeners.add(listener);
      if (listeners.size === 1) start();
      return () => {
        if (listeners.delete(listener) && listeners.size === 0) stop();
      };
    },
    emitOwn({ hints, emitted }) {
      // Other processes read the events in the feed, and what may pass a gate by the versions of the gates.
      if (emitted.length > 0 || hints.some(({ kind }) => kind === "ready")) wakeFile?.wake();
      if (listeners.size === 0) return;
      if (wakeFile !== null && seen !== null) {
        for (const number of emitted) {
          if (number === seen + 1) seen = number;
          else own.add(number);
        }
      }
      emitHints(hints, listeners);
    },
    close() {
      isClosed = true;
      listeners.clear();
      stop();
    },
  };
}
