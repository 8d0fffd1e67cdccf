/**
 * A bucket store that is restored from its bucket when it is closed: the restored file must have the very rows of the
 * local one, in every table.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import type { Platform } from "../../src/platform/platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openBucketStore } from "../../src/stores/bucket/bucket-store.ts";
import type { WhenHeld } from "../../src/stores/bucket/takeover/held-bucket.ts";
import type { Objects } from "../../src/stores/bucket/objects/objects.ts";
import { Replica } from "../../src/stores/bucket/copy/replica.ts";

const pageSize = 4096;
let restored = 0;

export async function openCompared(
  open: () => Objects | Promise<Objects>,
  platform: Platform,
  cacheFolder: string,
  whenHeld: WhenHeld = "wait",
): Promise<Store> {
  return openBucketStore({
    objects: await open(),
    platform,
    cacheFolder,
    whenHeld,
    onClosed: async (path) => {
      const objects = await open();
      const copy = join(cacheFolder, `restored-${restored++}.db`);
      const replica = await Replica.restore(objects, { path: copy, pageSize });
      try {
        expect(replica.isFree).toBe(true);
        expect(rowsOf(copy)).toEqual(rowsOf(path));
      } finally {
        replica.close();
        await objects.close();
        for (const end of ["", "-wal", "-shm"]) rmSync(`${copy}${end}`, { force: true });
      }
    },
  });
}

/** Every table with all of its rows. */
export function rowsOf(path: string): Record<string, unknown[]> {
  const database = new DatabaseSync(path);
  try {
    const tables = database
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
      .all() as { name: string }[];
    return Object.fromEntries(
      tables.map(({ name }) => [name, database.prepare(`SELECT * FROM "${name}"`).all()]),
    );
  } finally {
    database.close();
  }
}
