/**
 * Hints for those who watch: from this store's own calls at once, and from other processes and the caller's own
 * connections by looking at the file. A change of the write-ahead log wakes the look; behind it stands a slow read of
 * SQLite's data version, because a file watch may miss things. What others did is then read from the feed.
 *
 * Works only while somebody watches, and never keeps the process alive.
 */
import { watch as watchFile } from "node:fs";
import type { FSWatcher } from "node:fs";
import type { Platform, Timer } from "../../platform/platform.ts";
import { emptyHints, handOut, tellHints } from "../../store/hints.ts";
import { hintEvents } from "../../store/packed-events.ts";
import type { Hint, Unwatch } from "../../store/store.ts";
import type { Executor } from "./executor.ts";
import type { CommitOutcome } from "./commit.ts";
import type { News } from "./read.ts";
import type { StoreClock } from "../../store/store-clock.ts";

/**
 * Behind file events rarely: who must not miss a hint has a slow read of its own, and an idle worker stays below two
 * reads per second; without them oftener.
 */
const slowLookMs = { behindEvents: 10_000, alone: 1000 };
/**
 * After a change of the log, looks at these distances until nothing more is found. The first event of a commit comes
 * before its sync to the disk, and what ends the commit is a write to shared memory that no file watch reports.
 */
const lookGapsMs = [4, 12, 40, 150] as const;
const feedPageMax = 200;

export interface Watch {
  add(listener: (hint: Hint) => void): Unwatch;
  /** What a commit of this store's own has to tell. */
  tellOwn(commit: CommitOutcome): void;
  close(): void;
}

export interface WatchOptions {
  readonly platform: Platform;
  readonly clock: StoreClock;
  /** Null for a store in memory: nobody else can change it. */
  readonly logPath: string | null;
  readonly executor: () => Executor;
}

export function openWatch({ platform, clock, logPath, executor }: WatchOptions): Watch {
  const listeners = new Set<(hint: Hint) => void>();
  /** Records of this store's own calls behind `seen`, whose hints are out too. */
  const own = new Set<number>();
  let file: FSWatcher | null = null;
  let slow: Timer | null = null;
  let soon: Timer | null = null;
  let version: number | null = null;
  /** The last feed record whose hints are out; null before the first look. */
  let seen: number | null = null;
  /** The sum of the versions of all gates, as far as their hints are out. */
  let gates = 0;
  let gap = 0;
  let isLooking = false;
  let isClosed = false;

  const start = (): void => {
    if (logPath === null || isClosed) return;
    try {
      file = watchFile(logPath, { persistent: false }, lookSoon);
      file.on("error", () => {
        file?.close();
        file = null;
      });
    } catch {
      // Without file events the slow look alone does it.
      file = null;
    }
    void look();
  };

  const stop = (): void => {
    file?.close();
    slow?.cancel();
    soon?.cancel();
    file = slow = soon = null;
    seen = null;
    own.clear();
  };

  const lookSoon = (): void => {
    if (soon !== null && gap === 0) return;
    soon?.cancel();
    gap = 0;
    lookAfterGap();
  };

  const lookAfterGap = (): void => {
    const delayMs = lookGapsMs[gap];
    if (delayMs === undefined) return;
    soon = platform.setTimer(
      delayMs,
      () => {
        soon = null;
        void look().then((hasFound) => {
          if (soon !== null || listeners.size === 0) return;
          gap = hasFound ? 0 : gap + 1;
          lookAfterGap();
        });
      },
      false,
    );
  };

  /** Answers whether somebody else has changed the file. */
  const look = async (): Promise<boolean> => {
    if (isLooking || listeners.size === 0 || isClosed) return false;
    isLooking = true;
    slow?.cancel();
    try {
      const before = version;
      await readNews();
      return version !== before;
    } catch {
      // A busy or failing store: the slow look comes again.
      version = null;
      return false;
    } finally {
      isLooking = false;
      if (listeners.size > 0 && !isClosed) {
        const delayMs = file === null ? slowLookMs.alone : slowLookMs.behindEvents;
        slow = platform.setTimer(delayMs, () => void look(), false);
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
    tellOwn({ hints, told }) {
      if (listeners.size === 0) return;
      if (logPath !== null && seen !== null) {
        for (const number of told) {
          if (number === seen + 1) seen = number;
          else own.add(number);
        }
      }
      tellHints(hints, listeners);
    },
    close() {
      isClosed = true;
      listeners.clear();
      stop();
    },
  };
}
