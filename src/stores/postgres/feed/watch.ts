/**
 * How processes on one database wake each other. Hints of this process's calls go to its own watchers at once, and to
 * the other processes by NOTIFY. Hints of the others come in over the listening connection or, later, from the feed.
 *
 *  calls ─► emit ─┬─► watch ─► own watchers          listener ─► watch ─► own watchers
 *                 └─► announcer ─► NOTIFY ─► the others' listeners
 */
import type { Platform } from "../../../platform/platform.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import type { Hint, Unwatch } from "../../../store/store.ts";
import { openWatch } from "../../../store/watch/watch.ts";
import type { Listener, WatchOptions } from "../../../store/watch/watch.ts";
import { openAnnouncer, readPayload } from "./announce.ts";
import type { Ride } from "./announce.ts";
import type { Database } from "../connection/database.ts";
import type { PgListener } from "../connection/driver.ts";
import { openListener } from "../connection/listener.ts";

/**
 * The time between two looks at the feed while not listening. An idle worker also asks once a second, and both together
 * stay below three queries per second.
 */
const unheardLookMs = 600;

/** A hint need not survive a crash, so its transaction does not wait for the disk. */
const notifyText = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";

export interface WakeOptions {
  readonly platform: Platform;
  readonly database: Database;
  readonly channel: string;
  readonly readFeed: WatchOptions["readFeed"];
  /** The connection that listens; null for none. */
  readonly connect: (() => PgListener) | null;
}

export interface Wake {
  add(watcher: (hint: Hint) => void): Unwatch;
  /** Sends the hint only to the other processes. */
  readonly announceTaken: (routes: readonly number[], sentUs: number) => void;
  /** Hands out hints. `isAnnounced`: the call itself has notified the other processes. */
  readonly emit: (hints: Hints, isAnnounced?: boolean) => void;
  readonly ride: () => Ride | null;
  close(): Promise<void>;
}

export function openWake({ platform, database, channel, readFeed, connect }: WakeOptions): Wake {
  const sender = Buffer.from(platform.randomBytes(9)).toString("base64url");
  const notify = (to: string, payload: string): Promise<unknown> => database.read(notifyText, [to, payload]);
  const announcer = openAnnouncer({ platform, sender, notify: (payload) => notify(channel, payload) });
  const watch = openWatch({
    timers: platform,
    unheardLookMs,
    readFeed,
    listen: ({ heard, changed }) => {
      if (connect === null) return nowhere;
      return openListener({
        platform,
        channel,
        connect,
        notify,
        heard(payload) {
          const { by, hints, hasMore } = readPayload(payload);
          if (by !== sender) heard(hints, hasMore);
        },
        changed,
      });
    },
  });
  return {
    add: (watcher) => watch.add(watcher),
    emit(hints, isAnnounced = false) {
      watch.emitOwn(hints);
      if (!isAnnounced) announcer.emit(hints);
    },
    announceTaken: (routes, sentUs) => announcer.announceTaken(routes, sentUs),
    ride: () => announcer.ride(),
    async close() {
      await announcer.close();
      await watch.close();
    },
  };
}

const nowhere: Listener = { isListening: () => false, close: () => undefined };
