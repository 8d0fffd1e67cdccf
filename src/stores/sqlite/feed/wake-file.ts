/**
 * The bell of a file: an empty file beside it (`jobs.db-wake`) that is written to after each commit with something to
 * tell, so that the other processes on the file look at once. A file of its own, and not the write-ahead log, for two
 * reasons. The log changes before a commit can be seen, so that one event asked for looks at growing distances: five
 * of them for a commit. And it changes by every commit: notices of workers, which tell nothing, woke the whole fleet.
 *
 *   commit ──told something──► ring ──► file event in each process on the file ──► one look (watch.ts)
 *   the caller's own transaction ──► asked at growing distances whether it is over ──► ring
 *
 * Always true: a ring comes after its commit; a ring that is lost makes a hint late and nothing else. Rings in a hurry
 * become one at the end of their distance, and the close of the store rings what is still pending.
 */
import { existsSync, rmSync, statSync, watch as watchFile, writeFileSync } from "node:fs";
import type { FSWatcher } from "node:fs";
import type { Platform, Timer } from "../../../platform/platform.ts";

/** The least time between two rings of one store: a drain of thousands of commits need not tell each of them. */
const ringGapMs = 4;
/** When it is asked whether a transaction of the caller is over; the last distance again and again. */
const overGapsMs = [0, 1, 4, 12, 40, 150, 500] as const;
/** A transaction that is open for longer is found by the slow reads. */
const overAsksMax = 200;

export interface Bell {
  ring(): void;
  /** Rings when the transaction that is open now is over. */
  ringAfter(connection: object, isOver: () => boolean): void;
  /** @returns a function that ends the listening; null where there are no file events. */
  listen(heard: () => void): (() => void) | null;
  /** When all connections of this store are closed. */
  close(): void;
}

export function openBell(platform: Platform, path: string): Bell {
  const bellPath = `${path}-wake`;
  const open = new Set<object>();
  let rungUs = Number.NEGATIVE_INFINITY;
  let pending: Timer | null = null;

  const strike = (): void => {
    pending?.cancel();
    pending = null;
    rungUs = platform.monotonicUs();
    if (write("r+")) return;
    // Nobody has rung yet, or the last process that left took the bell away.
    write("w");
  };

  /** @returns false where it was not possible: the slow reads of the others do it then. */
  const write = (flag: "r+" | "w"): boolean => {
    try {
      writeFileSync(bellPath, "!", flag === "w" ? { flag, mode: statSync(path).mode } : { flag });
      return true;
    } catch {
      return false;
    }
  };

  const ring = (): void => {
    if (pending !== null) return;
    const waitMs = ringGapMs - (platform.monotonicUs() - rungUs) / 1000;
    if (waitMs <= 0) strike();
    else pending = platform.setTimer(Math.ceil(waitMs), strike, false);
  };

  const ringAfter = (connection: object, isOver: () => boolean): void => {
    if (open.has(connection)) return;
    open.add(connection);
    const isOverNow = (): boolean => {
      try {
        return isOver();
      } catch {
        // The connection was closed.
        return true;
      }
    };
    const ask = (asks: number): void => {
      const gapMs = overGapsMs[Math.min(asks, overGapsMs.length - 1)] ?? 0;
      const look = (): void => {
        if (!open.has(connection)) return;
        if (!isOverNow() && asks < overAsksMax) return ask(asks + 1);
        open.delete(connection);
        ring();
      };
      platform.setTimer(gapMs, look, false);
    };
    ask(0);
  };

  const listen = (heard: () => void): (() => void) | null => {
    let file: FSWatcher | null = null;
    const start = (): void => {
      try {
        if (!existsSync(bellPath)) strike();
        file = watchFile(bellPath, { persistent: false }, (event) => {
          // Another process that was the last on the file has taken the bell away while this one came.
          if (event === "rename") again();
          heard();
        });
        file.on("error", again);
      } catch {
        file = null;
      }
    };
    const again = (): void => {
      file?.close();
      file = null;
      start();
    };
    start();
    return file === null ? null : () => file?.close();
  };

  const close = (): void => {
    if (pending !== null || open.size > 0) strike();
    open.clear();
    // SQLite takes its log away with the last connection of all processes.
    if (!existsSync(`${path}-wal`)) rmSync(bellPath, { force: true });
  };

  return { ring, ringAfter, listen, close };
}
