/**
 * Hints for those who watch: from this store's own calls at once; from other processes as the library publishes them inside its functions; and,
 * because a message may be lost, by a slow look at the feed.
 */
import type { Platform, Timer } from "../../platform/platform.ts";
import type { Hint, Unwatch } from "../../store/store.ts";
import { addFeedHints, emptyHints, hintsOf, isEmpty, readMessage } from "./events.ts";
import type { Hints } from "./events.ts";
import type { Listener } from "./listener.ts";

const slowLookMs = { listening: 5000, deaf: 1000 };
const feedPageMax = 200;
/** Behind by more than this, the rest is skipped: hints may be lost. */
const pagesMax = 10;

export interface Watch {
  add(listener: (hint: Hint) => void): Unwatch;
  /** What a call of this store's own has to tell. */
  tellOwn(hints: Hints): void;
  close(): void;
}

type PackedRecord = readonly [number: number, at: number, events: string];

export interface WatchOptions {
  readonly platform: Platform;
  /** Whose own messages are not heard twice. */
  readonly sender: string;
  readonly readFeed: (
    after: number,
    max: number,
  ) => Promise<{ end: number; records: readonly PackedRecord[] }>;
  readonly listen: (heard: (message: string) => void, began: () => void) => Listener;
}

export function openWatch({ platform, sender, readFeed, listen }: WatchOptions): Watch {
  const listeners = new Set<(hint: Hint) => void>();
  let listener: Listener | null = null;
  let slow: Timer | null = null;
  let seen: number | null = null;
  let isLooking = false;
  let isClosed = false;

  const emit = (hints: Hints): void => {
    for (const hint of hintsOf(hints)) for (const each of listeners) hand(each, hint);
  };

  const look = async (): Promise<void> => {
    if (isLooking || listeners.size === 0 || isClosed) return;
    isLooking = true;
    slow?.cancel();
    try {
      if (seen === null) seen = (await readFeed(-1, 0)).end;
      else seen = await readOthers(seen);
    } catch {
      // A store that is away: the slow look comes again.
    } finally {
      isLooking = false;
      if (listeners.size > 0 && !isClosed) {
        const delayMs = listener?.isListening() === true ? slowLookMs.listening : slowLookMs.deaf;
        slow = platform.setTimer(delayMs, () => void look(), false);
      }
    }
  };

  /** Answers how far the feed was read. */
  const readOthers = async (from: number): Promise<number> => {
    let after = from;
    for (let page = 0; page < pagesMax; page++) {
      const { end, records } = await readFeed(after, feedPageMax);
      // A feed that ends before what was seen is another one: the server was flushed or lost writes.
      if (end < after) return end;
      const hints = emptyHints();
      for (const [number, at, events] of records) {
        addFeedHints(hints, events, at);
        after = number;
      }
      emit(hints);
      if (records.length < feedPageMax) return after;
    }
    return (await readFeed(-1, 0)).end;
  };

  const heard = (message: string): void => {
    if (listeners.size === 0) return;
    const { sender: by, hints } = readMessage(message);
    if (by !== sender) emit(hints);
  };

  return {
    add(each) {
      listeners.add(each);
      listener ??= listen(heard, () => void look());
      if (listeners.size === 1) void look();
      return () => {
        if (!listeners.delete(each) || listeners.size > 0) return;
        slow?.cancel();
        seen = null;
      };
    },
    tellOwn(hints) {
      if (!isClosed && listeners.size > 0 && !isEmpty(hints)) emit(hints);
    },
    close() {
      isClosed = true;
      listeners.clear();
      slow?.cancel();
      listener?.close();
    },
  };
}

/** A listener that throws harms neither the call that made the hint nor the other listeners. */
function hand(listener: (hint: Hint) => void, hint: Hint): void {
  try {
    listener(hint);
  } catch {
    return;
  }
}
