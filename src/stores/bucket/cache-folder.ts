/**
 * The folder of a local copy: a new one for each opening, because a copy is worth nothing to the next one unless both
 * sides agree on every page. What a killed process left is removed: SQLite's lock on its file tells whether anybody
 * still uses it, also between containers that share the folder.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";

const prefix = "millrace-bucket-";
/** A younger folder may belong to a process that has not opened its file yet. */
const youngMs = 60 * 60_000;

export function makeCacheFolder(given: string | null, platform: Platform): string {
  const parent = given ?? platform.temporaryFolder;
  try {
    mkdirSync(parent, { recursive: true });
    removeLeft(parent);
    return mkdtempSync(join(parent, prefix));
  } catch (cause) {
    const sentence = `The folder ${parent} for the local copy of the bucket cannot be used. Make it writable, or name another one.`;
    throw new MillraceError("store-unavailable", sentence, { cause });
  }
}

function removeLeft(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(prefix)) continue;
    const folder = join(parent, name);
    try {
      const newest = Math.max(
        ...["", "store.db", "store.db-wal"].map((file) => changedAt(join(folder, file))),
      );
      if (changedAt(parent) - newest < youngMs || isUsed(join(folder, "store.db"))) continue;
      rmSync(folder, { recursive: true, force: true });
    } catch {
      // Somebody else's, or removed meanwhile.
      continue;
    }
  }
}

function changedAt(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function isUsed(path: string): boolean {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec("BEGIN EXCLUSIVE; ROLLBACK");
    return false;
  } catch {
    return true;
  } finally {
    database.close();
  }
}
