/**
 * The folder of a local copy: a new one for each opening, because a copy is worth nothing to the next one unless both
 * sides agree on every page. What a killed process left is removed: a lock on a file of the folder shows whether its
 * process still lives, also between containers that share the folder. The lock is on a file of its own, because a
 * standby and a view hold none on their copy.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmdirSync, rmSync, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";

const prefix = "millrace-bucket-";
const lockFile = "lock.db";
const storeFile = "store.db";
const ownFiles: ReadonlySet<string> = new Set([
  lockFile,
  // Doctor opens its copy as a SQLite store, which has a wake file.
  ...["", "-wal", "-shm", "-journal", "-wake"].map((end) => `${storeFile}${end}`),
]);
/** A younger folder may belong to a process that has not locked it yet. */
const youngMs = 60_000;

export interface CacheFolder {
  /** Of the SQLite file. */
  readonly path: string;
  remove(): void;
}

export function makeCacheFolder(given: string | null, platform: Platform): CacheFolder {
  const parent = given ?? platform.temporaryFolder;
  let folder: string | null = null;
  try {
    mkdirSync(parent, { recursive: true });
    removeLeft(parent);
    folder = mkdtempSync(join(parent, prefix));
    const lock = lockFolder(folder);
    const made = folder;
    return {
      path: join(folder, storeFile),
      remove() {
        lock.close();
        rmSync(made, { recursive: true, force: true });
      },
    };
  } catch (cause) {
    if (folder !== null) rmSync(folder, { recursive: true, force: true });
    throw cacheError(parent, cause);
  }
}

/** What went wrong with the local copy while it was filled; an error of another kind is passed on as it is. */
export function cacheError(folder: string, cause: unknown): unknown {
  if (cause instanceof MillraceError || !(cause instanceof Error)) return cause;
  const isOfSystem = "syscall" in cause || "errcode" in cause;
  if (!isOfSystem) return cause;
  const isFull =
    ("code" in cause && (cause.code === "ENOSPC" || cause.code === "EDQUOT" || cause.code === "EFBIG")) ||
    ("errcode" in cause && Number(cause.errcode) % 256 === sqliteFull);
  const sentence = isFull
    ? `The folder ${folder} has no room left for the local copy of the bucket; nothing of this call happened. Free some space, or name another folder: bucket.cacheFolder, on the command line TMPDIR.`
    : `The folder ${folder} for the local copy of the bucket cannot be used (${cause.message}). Make it writable, or name another one: bucket.cacheFolder, on the command line TMPDIR.`;
  return new MillraceError(isFull ? "store-full" : "store-unavailable", sentence, { cause });
}

const sqliteFull = 13;

function removeLeft(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(prefix)) continue;
    const folder = join(parent, name);
    try {
      // By the clock of the file system, which may not be this machine's.
      if (changedAt(parent) - changedAt(folder) < youngMs) continue;
      const files = readdirSync(folder);
      // Anybody's folder may have such a name, a bucket itself too. A copy has a lock and nothing but its own files.
      if (!files.includes(lockFile) || !files.every((file) => ownFiles.has(file)) || isLocked(folder))
        continue;
      // The lock last: without it nobody would go on with what is left.
      for (const file of [...files.filter((each) => each !== lockFile), lockFile])
        unlinkSync(join(folder, file));
      rmdirSync(folder);
    } catch {
      // Somebody else's, or removed meanwhile.
      continue;
    }
  }
}

function changedAt(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** For the life of this process, or until it is closed. */
function lockFolder(folder: string): DatabaseSync {
  const database = new DatabaseSync(join(folder, lockFile), { timeout: 0 });
  try {
    // In memory and not beside the file: nothing is ever written, so a full disk does not matter.
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function isLocked(folder: string): boolean {
  try {
    lockFolder(folder).close();
    return false;
  } catch {
    return true;
  }
}
