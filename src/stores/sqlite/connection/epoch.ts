/**
 * The store's epoch: the high part of every fence. It grows when acknowledged writes may have been lost, so that no
 * fence is ever given twice. Strict durability loses nothing. A relaxed opener may lose its last commits when the
 * machine stops, so each leaves a row with the machine's boot id while it is open; a row of another boot, found at
 * the next opening, raises the epoch.
 */
import type { DatabaseSync } from "node:sqlite";
import type { Platform } from "../../../platform/platform.ts";
import { inWriteTransaction, readMeta, writeMeta } from "./migrate.ts";

const unknownBoot = "unknown";
const openerPrefix = "relaxed:";

/** No input. Answer: openers that ran relaxed and were not closed, with their boot id. */
const readOpeners = "SELECT name, value FROM millrace_meta WHERE name >= 'relaxed:' AND name < 'relaxed;'";
const dropMeta = "DELETE FROM millrace_meta WHERE name = ?";

export interface Entry {
  readonly epoch: number;
  /** The row to take back at a clean close; null for a strict opener. */
  readonly opener: string | null;
}

export function enterEpoch(database: DatabaseSync, platform: Platform, isRelaxed: boolean): Entry {
  return inWriteTransaction(database, () => {
    const boot = platform.bootId() ?? unknownBoot;
    const openers = database.prepare(readOpeners).all() as { name: string; value: string }[];
    // Without a boot id a crash looks like a machine that stopped.
    const lost = openers.filter(({ value }) => value !== boot || value === unknownBoot);
    let epoch = Number(readMeta(database, "epoch") ?? 1);
    if (lost.length > 0) epoch += 1;
    writeMeta(database, "epoch", epoch);
    for (const { name } of lost) database.prepare(dropMeta).run(name);
    const opener = isRelaxed ? openerPrefix + Buffer.from(platform.randomBytes(12)).toString("hex") : null;
    if (opener !== null) writeMeta(database, opener, boot);
    return { epoch, opener };
  });
}

/** The epoch of a store whose log gives it (stores/bucket). */
export function setEpoch(database: DatabaseSync, epoch: number): Entry {
  return inWriteTransaction(database, () => {
    writeMeta(database, "epoch", epoch);
    return { epoch, opener: null };
  });
}

/**
 * Whoever sees the row gone also sees every write before it. A row that cannot be removed only costs an epoch later.
 */
export function leaveEpoch(database: DatabaseSync, opener: string | null): void {
  if (opener === null) return;
  try {
    database.prepare(dropMeta).run(opener);
  } catch {
    return;
  }
}
