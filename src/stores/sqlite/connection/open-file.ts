/**
 * Opening the file: everything that can be wrong with it is found before anything is written to it. Then the
 * connection is set up, and the durability that was asked for is checked against what SQLite really gives.
 */
import { accessSync, closeSync, constants, openSync, readSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { MillraceError } from "../../../model/error.ts";
import { statementsOf } from "./connection.ts";
import { isBusy, storeError } from "./errors.ts";

/** Plain, because it crosses to the store's thread. */
export interface FileSettings {
  /** Absolute, or ":memory:". */
  readonly path: string;
  /** Logged: the file is a copy of what a log elsewhere keeps, and belongs to this connection alone. */
  readonly durability: "strict" | "relaxed" | "logged";
  /** How long SQLite itself may sleep for a lock: longer in a thread of its own. */
  readonly lockSleepMs: number;
}

export const memoryPath = ":memory:";

/** How long a call in the caller's thread may sleep inside SQLite: shorter than anybody would notice. */
export const inlineSleepMs = 3;
/** In a thread of its own sleeping harms nobody, but the clock that came with the calls must not get old. */
export const threadSleepMs = 50;

const header = "SQLite format 3\0";

/** Refuses what cannot be a store, by looking only. */
export function checkFile(given: string): string {
  const path = resolve(given);
  const folder = dirname(path);
  const refuse = (code: MillraceError["code"], sentence: string): never => {
    throw new MillraceError(code, sentence);
  };
  if (statOf(folder)?.isDirectory() !== true)
    refuse("store-unavailable", `The folder ${folder} does not exist. Make it first, or name another file.`);
  const file = statOf(path);
  if (file !== null && !file.isFile())
    refuse("store-unavailable", `${path} is not a file. Name a file for the store.`);
  for (const place of file === null ? [folder] : [path, folder]) {
    const advice = "Give this process write permission to the file and its folder.";
    if (!mayWrite(place)) refuse("store-read-only", `${place} cannot be written. ${advice}`);
  }
  if (file !== null && file.size > 0 && readStart(path) !== header) {
    const advice = "Name another file; this one was left as it is.";
    refuse("not-a-store", `${path} is not a SQLite database. ${advice}`);
  }
  return path;
}

function statOf(path: string) {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function readStart(path: string): string {
  const file = openSync(path, "r");
  try {
    const start = Buffer.alloc(header.length);
    return start.toString("latin1", 0, readSync(file, start, 0, header.length, 0));
  } finally {
    closeSync(file);
  }
}

/** Opens the file without writing to it. */
export function openDatabase(settings: FileSettings): DatabaseSync {
  try {
    const database = new DatabaseSync(settings.path, {
      timeout: settings.lockSleepMs,
      enableForeignKeyConstraints: false,
    });
    try {
      database.exec("PRAGMA schema_version");
      return database;
    } catch (error) {
      // Of a new file that another process makes at this moment nothing can be read: who asks for more waits for it.
      if (isBusy(error)) return database;
      database.close();
      throw error;
    }
  } catch (error) {
    throw storeError(error, settings.path);
  }
}

/**
 * Pages of 4 KiB in the write-ahead log before it is written back to the file. From 500 to 16,000 the cost per job is
 * the same within the noise of 20 %, so it is small: a checkpoint is what blocks longest.
 */
const checkpointPages = 1000;
const cacheKiB = 32_768;
/** A log that a large transaction blew up is cut back to this at the next checkpoint. */
const logBytesMax = 64 * 2 ** 20;

/** SQLite's own numbers: OFF, NORMAL and FULL. */
const synchronousOf = { logged: 0, relaxed: 1, strict: 2 } as const;

/** Sets the connection up. A busy file throws SQLite's own busy error: the caller waits and comes again. */
export function configure(database: DatabaseSync, settings: FileSettings): void {
  const statements = statementsOf(database);
  const ask = (pragma: string): unknown => (statements(`PRAGMA ${pragma}`).get() as unknown[])[0];
  if (settings.path !== memoryPath) {
    // Before the write-ahead log, so that its index stays in this process and no second one can open the file.
    if (settings.durability === "logged") database.exec("PRAGMA locking_mode = EXCLUSIVE");
    const mode = ask("journal_mode = WAL");
    if (mode !== "wal") {
      const sentence = `${settings.path} cannot have a write-ahead log (SQLite answered ${String(mode)}), which a store needs. Put it on a local disk.`;
      throw new MillraceError("durability-refused", sentence);
    }
    const wanted = synchronousOf[settings.durability];
    database.exec(`PRAGMA synchronous = ${wanted}`);
    if (ask("synchronous") !== wanted) {
      throw new MillraceError(
        "durability-refused",
        `SQLite does not give ${settings.durability} durability for ${settings.path}.`,
      );
    }
  }
  // Whoever reads the tail of the write-ahead log says when it may be cut.
  const checkpoint = settings.durability === "logged" ? 0 : checkpointPages;
  database.exec(`PRAGMA wal_autocheckpoint = ${checkpoint}; PRAGMA journal_size_limit = ${logBytesMax};
    PRAGMA cache_size = -${cacheKiB}; PRAGMA temp_store = MEMORY;`);
}
