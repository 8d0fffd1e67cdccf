/**
 * Hints for those who watch: from this store's own calls at once; from other processes by NOTIFY, whose payload carries the hints; and, because a
 * notification may be lost, by a slow look at the feed. Own hints go out to others after the answer, coalesced, outside the transaction
 * that made them: a NOTIFY inside would serialise commits.
 *
 *  payload   {"by": sender, "r": routes, "d": due in ms, "f": finished ids, "c": [[id, owner]], "more": true}   more: look at the feed
 */
import type { Platform, Timer } from "../../platform/platform.ts";
import type { Hint, Unwatch } from "../../store/store.ts";
import { addHints, emptyHints, hintDue, hintsOf, isEmpty } from "./events.ts";
import type { Hints } from "./events.ts";
import type { Listener } from "./listener.ts";

const slowLookMs = { listening: 5000, deaf: 1000 };
const lookGapMs = 100;
const sendGapMs = 15;
const feedPageMax = 200;
/** Behind by more than this, the rest is skipped: hints may be lost. */
const pagesMax = 10;
const idsMax = 250;

export interface Watch {
  add(listener: (hint: Hint) => void): Unwatch;
  /** What a call of this store's own has to tell. */
  tellOwn(hints: Hints): void;
  close(): Promise<void>;
}

export interface WatchOptions {
  readonly platform: Platform;
  /** Packed feed records behind a number: [number, time, body]. After -1: none but the present end. */
  readonly readFeed: (after: number, max: number) => Promise<(string | null)[][]>;
  readonly notify: (payload: string) => Promise<unknown>;
  readonly listen: (heard: (payload: string) => void, began: () => void) => Listener;
  /** Whether there can be anybody else. */
  readonly sender: string;
}

interface Payload {
  readonly by?: string;
  readonly r?: number[];
  readonly d?: number;
  readonly f?: string[];
  readonly c?: [id: string, owner: string][];
  readonly more?: boolean;
}

export function openWatch({ platform, readFeed, notify, listen, sender }: WatchOptions): Watch {
  const listeners = new Set<(hint: Hint) => void>();
  let listener: Listener | null = null;
  let slow: Timer | null = null;
  let soon: Timer | null = null;
  let seen: number | null = null;
  let isLooking = false;
  let isClosed = false;
  let outgoing = emptyHints();
  let isSending = false;

  const emit = (hints: Hints): void => {
    for (const hint of hintsOf(hints)) for (const each of listeners) hand(each, hint);
  };

  const look = async (): Promise<void> => {
    if (isLooking || listeners.size === 0 || isClosed) return;
    isLooking = true;
    slow?.cancel();
    try {
      if (seen === null) seen = Number((await readFeed(-1, 0))[0]?.[0] ?? 0);
      else await readOthers(seen);
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

  const readOthers = async (from: number): Promise<void> => {
    let after = from;
    for (let page = 0; page < pagesMax; page++) {
      const rows = await readFeed(after, feedPageMax);
      const hints = emptyHints();
      for (const [number, at, body] of rows) {
        addHints(hints, body ?? null, Number(at));
        after = Number(number);
      }
      seen = after;
      emit(hints);
      if (rows.length < feedPageMax) return;
    }
    seen = Number((await readFeed(-1, 0))[0]?.[0] ?? after);
  };

  const lookSoon = (): void => {
    soon ??= platform.setTimer(
      lookGapMs,
      () => {
        soon = null;
        void look();
      },
      false,
    );
  };

  const heard = (text: string): void => {
    if (listeners.size === 0) return;
    const payload = readPayload(text);
    if (payload.by === sender) return;
    const hints = emptyHints();
    for (const route of payload.r ?? []) hints.routes.add(route);
    if (payload.d !== undefined) hintDue(hints, payload.d);
    hints.finished = payload.f ?? [];
    hints.cancels = (payload.c ?? []).map(([id, owner]) => ({ id, owner }));
    emit(hints);
    if (payload.more !== true) return;
    // The first look is at once, so that a commit of a caller's own transaction is seen without delay.
    if (soon === null && !isLooking) void look();
    lookSoon();
  };

  const send = async (): Promise<void> => {
    if (isSending) return;
    isSending = true;
    while (!isEmpty(outgoing) && !isClosed) {
      const payload = writePayload(outgoing, sender);
      outgoing = emptyHints();
      // A hint that cannot be sent is lost; the slow looks of the others find what it told.
      await notify(payload).catch(() => undefined);
      await new Promise<void>((resolve) => void platform.setTimer(sendGapMs, resolve, false));
    }
    isSending = false;
  };

  return {
    add(each) {
      listeners.add(each);
      listener ??= listen(heard, () => void look());
      if (listeners.size === 1) void look();
      return () => {
        if (!listeners.delete(each) || listeners.size > 0) return;
        slow?.cancel();
        soon?.cancel();
        soon = null;
        seen = null;
      };
    },
    tellOwn(hints) {
      if (isClosed || isEmpty(hints)) return;
      if (listeners.size > 0) emit(hints);
      joinHints(outgoing, hints);
      void send();
    },
    async close() {
      isClosed = true;
      listeners.clear();
      slow?.cancel();
      soon?.cancel();
      await listener?.close();
    },
  };
}

function joinHints(all: Hints, { routes, dueInMs, finished, cancels }: Hints): void {
  for (const route of routes) all.routes.add(route);
  if (dueInMs !== null) hintDue(all, dueInMs);
  if (all.finished.length <= idsMax) all.finished.push(...finished.slice(0, idsMax + 1));
  if (all.cancels.length <= idsMax) all.cancels.push(...cancels.slice(0, idsMax + 1));
}

function writePayload({ routes, dueInMs, finished, cancels }: Hints, sender: string): string {
  const payload = {
    by: sender,
    ...(routes.size === 0 ? {} : { r: [...routes].slice(0, idsMax) }),
    ...(dueInMs === null ? {} : { d: dueInMs }),
    ...(finished.length === 0 ? {} : { f: finished }),
    ...(cancels.length === 0 ? {} : { c: cancels.map(({ id, owner }) => [id, owner]) }),
  };
  const text = JSON.stringify(payload);
  if (finished.length <= idsMax && cancels.length <= idsMax && Buffer.byteLength(text) < 7500) return text;
  return JSON.stringify({
    by: sender,
    r: payload.r ?? [],
    ...(dueInMs === null ? {} : { d: dueInMs }),
    more: true,
  });
}

function readPayload(text: string): Payload {
  try {
    return JSON.parse(text) as Payload;
  } catch {
    // Somebody else uses the channel; the feed tells what happened.
    return { more: true };
  }
}

/** A listener that throws harms neither the call that made the hint nor the other listeners. */
function hand(listener: (hint: Hint) => void, hint: Hint): void {
  try {
    listener(hint);
  } catch {
    return;
  }
}
