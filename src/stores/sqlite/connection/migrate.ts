/**
 * Bringing a file to this version's tables: numbered steps, each in its own transaction under the write lock, so that
 * of two processes one migrates and the other finds it done. A file of a newer version is refused before anything is
 * written.
 */
import type { DatabaseSync } from "node:sqlite";
import { MillraceError } from "../../../model/error.ts";
import { readValue, statementsOf } from "./connection.ts";
import { migrations, schemaVersion } from "./schema.ts";

/** No input. Answer: a row when the meta table is there. */
const hasMeta = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'millrace_meta'";
const makeMeta = "CREATE TABLE IF NOT EXISTS millrace_meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID";
/** Input: name. */
const readMetaRow = "SELECT value FROM millrace_meta WHERE name = ?";
/** Inputs: name, value. */
const writeMetaRow = "INSERT OR REPLACE INTO millrace_meta (name, value) VALUES (?, ?)";

export function readMeta(database: DatabaseSync, name: string): string | number | null {
  return readValue<string | number>(statementsOf(database), readMetaRow, name);
}

export function writeMeta(database: DatabaseSync, name: string, value: string | number): void {
  statementsOf(database)(writeMetaRow).run(name, value);
}

/** 0 for a file without Millrace's tables. Throws for a newer one. */
export function readSchemaVersion(database: DatabaseSync, path: string): number {
  if (database.prepare(hasMeta).get() === undefined) return 0;
  const version = Number(readMeta(database, "schema_version") ?? 0);
  if (version > schemaVersion) {
    const sentence = `${path} has the tables of a newer Millrace (version ${version}, this one knows ${schemaVersion}). Upgrade this process.`;
    throw new MillraceError("schema-newer", sentence);
  }
  return version;
}

/** Throws SQLite's own busy error while another process holds the lock: the caller waits and comes again. */
export function migrate(database: DatabaseSync, path: string): void {
  for (const { version, sql } of migrations) {
    if (readSchemaVersion(database, path) >= version) continue;
    inWriteTransaction(database, () => {
      // Somebody may have been faster between the look and the lock.
      if (readSchemaVersion(database, path) >= version) return;
      database.exec(`${makeMeta};${sql}`);
      writeMeta(database, "schema_version", version);
    });
  }
}

export function inWriteTransaction<T>(database: DatabaseSync, run: () => T): T {
  database.exec("BEGIN IMMEDIATE");
  try {
    const answer = run();
    database.exec("COMMIT");
    return answer;
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}
