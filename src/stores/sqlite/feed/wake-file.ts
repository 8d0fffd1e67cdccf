/**
 * The wake file: an empty file beside the store's (`jobs.db-wake`). A process writes to it after each commit with
 * events or ready jobs, so that other processes on the file look for them at once.
 *
 * Why not SQLite's write-ahead log? It changes before its commit can be read, so one file event would need several
 * looks at growing distances: five for a commit. And every commit changes it: registrations of workers, which have no
 * events, woke the whole fleet.
 *
 *   commit with events ──► wake ──► file event in each process on the file ──► one look (watch.ts)
 *   the caller's own transaction ──► asked at growing distances whether it is over ──► wake
 *
 * Always true: a wake comes after its commit. A lost one makes a hint late and nothing else. Wakes that follow each
 * other fast become one, and the close of the store writes the one that is pending.
 */
import { existsSync, rmSync, statSync, watch as watchFile, writeFileSync } from "node:fs";
import type { FSWatcher } from "node:fs";
import type { Platform, Timer } from "../../../platform/platform.ts";

/** The least time between two wakes of one store: a drain makes thousands of commits. */
const wakeGapMs = 4;
/** When it is asked whether a transaction of the caller is over; the last distance again and again. */
const overGapsMs = [0, 1, 4, 12, 40, 150, 500] as const;
/** A transaction that is open for longer is found by the slow reads. */
const overAsksMax = 200;

export interface WakeFile {
  wake(): void;
  /** Wakes when the transaction that is open now is over. */
  wakeAfter(connection: object, isOver: () => boolean): void;
  /** @returns a function that ends the listening; null where there are no file events. */
  listen(heard: () => void): (() => void) | null;
  /** When all connections of this store are closed. */
  close(): void;
}

export function openWakeFile(platform: Platform, path: string): WakeFile {
  const wakePath = `${path}-wake`;
  const open = new Set<object>();
  let touchedUs = Number.NEGATIVE_INFINITY;
  let pending: Timer | null = null;

  const touch = (): void => {
    pending?.cancel();
    pending = null;
    touchedUs = platform.monotonicUs();
    if (write("r+")) return;
    // It is not there yet, or the last process that left has removed it.
    write("w");
  };

  /** @returns false where it was not possible: the slow reads of the others do it then. */
  const write = (flag: "r+" | "w"): boolean => {
    try {
      writeFileSync(wakePath, "!", flag === "w" ? { flag, mode: statSync(path).mode } : { flag });
      return true;
    } catch {
      return false;
    }
  };

  const wake = (): void => {
    if (pending !== null) return;
    const waitMs = wakeGapMs - (platform.monotonicUs() - touchedUs) / 1000;
    if (waitMs <= 0) touch();
    else pending = platform.setTimer(Math.ceil(waitMs), touch, false);
  };

  const wakeAfter = (connection: object, isOver: () => boolean): void => {
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
        wake();
      };
      platform.setTimer(gapMs, look, false);
    };
    ask(0);
  };

  const listen = (heard: () => void): (() => void) | null => {
    let file: FSWatcher | null = null;
    const start = (): void => {
      try {
        if (!existsSync(wakePath)) touch();
        file = watchFile(wakePath, { persistent: false }, (event) => {
          // Another process, which was the last on the file, has removed the wake file while this one opened it.
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
    if (pending !== null || open.size > 0) touch();
    open.clear();
    // SQLite takes its log away with the last connection of all processes.
    if (!existsSync(`${path}-wal`)) rmSync(wakePath, { force: true });
  };

  return { wake, wakeAfter, listen, close };
}
