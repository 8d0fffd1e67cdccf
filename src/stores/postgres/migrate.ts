/**
 * Bringing a schema to this version's tables and functions: numbered steps, each in its own transaction under an
 * advisory lock, so that of ten processes one migrates and nine find it done, and a killed one leaves nothing
 * half-made. A step only adds: functions of older versions stay, so that older workers run on. A schema of a newer
 * version is refused before anything is written.
 */
import { MillraceError } from "../../model/error.ts";
import type { Database } from "./database.ts";
import { rawTypes } from "./statement.ts";
import type { PgClient } from "./driver.ts";
import { sqlState } from "./errors.ts";
import { tablesSql } from "./schema.ts";
import { functionsSql } from "./sql/all-functions.ts";

interface Migration {
  readonly version: number;
  readonly sql: (schema: string) => string;
}

/** Days whose first jobs end before retention has run once would stay in the rest for ever. */
const firstDaysSql = (s: string): string => `SELECT ${s}.make_partitions_v1(${s}.begin_v1(NULL, NULL));`;

const migrations: readonly Migration[] = [
  { version: 1, sql: (schema) => tablesSql(schema) + functionsSql(schema) + firstDaysSql(schema) },
];

export const schemaVersion = 1;

export interface MigrateOptions {
  /** Unquoted. */
  readonly schema: string;
  readonly where: string;
  /** How long to wait for another process's migration. */
  readonly waitMs: number;
}

export const quoted = (schema: string): string => `"${schema}"`;

export async function migrate(database: Database, options: MigrateOptions): Promise<void> {
  const { schema, where } = options;
  if (checkVersion(await readVersion(database, schema), where) === schemaVersion) return;
  await database.session(async (client) => {
    for (const migration of migrations) await migrateTo(client, migration, options);
  });
}

/** 0 for a schema without Millrace's tables. */
export async function readVersion(database: Database, schema: string): Promise<number> {
  if ((await database.read(metaText(schema), [])).length === 0) return 0;
  return Number((await database.read(versionText(schema), []))[0]?.[0] ?? 0);
}

/**
 * Read from the catalogue: behind a wait for a lock, to_regclass may still answer from what this session knew before.
 */
const metaText = (schema: string): string =>
  `SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '${schema}' AND c.relname = 'meta'`;
const schemaText = (schema: string): string =>
  `SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = '${schema}'`;

const versionText = (schema: string): string =>
  `SELECT value FROM ${quoted(schema)}.meta WHERE name = 'schema_version'`;

/** Throws for a newer one. */
function checkVersion(version: number, where: string): number {
  if (version > schemaVersion) {
    const sentence = `${where} has the tables of a newer Millrace (version ${version}, this one knows ${schemaVersion}). Upgrade this process.`;
    throw new MillraceError("schema-newer", sentence);
  }
  return version;
}

async function migrateTo(
  client: PgClient,
  { version, sql }: Migration,
  options: MigrateOptions,
): Promise<void> {
  const { schema, where, waitMs } = options;
  const name = quoted(schema);
  const value = async (text: string): Promise<string | null> => {
    const { rows } = await client.query({ text, values: [], rowMode: "array", types: rawTypes });
    return (rows[0] as (string | null)[] | undefined)?.[0] ?? null;
  };
  await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await client.query(`SET LOCAL lock_timeout = ${Math.max(1, Math.floor(waitMs))}`);
    try {
      await client.query(
        `SELECT pg_advisory_xact_lock(hashtextextended('millrace migration of ${schema}', 0))`,
      );
    } catch (cause) {
      if (sqlState(cause) !== "55P03") throw cause;
      const sentence = `Another process is migrating ${where} and did not finish within ${waitMs} ms. Open it again later.`;
      throw new MillraceError("migration-running", sentence, { cause });
    }
    const hasMeta = (await value(metaText(schema))) !== null;
    const current = hasMeta ? checkVersion(Number(await value(versionText(schema))), where) : 0;
    if (current < version) {
      if ((await value(schemaText(schema))) === null) await client.query(`CREATE SCHEMA ${name}`);
      await client.query(sql(name));
      await client.query(
        `INSERT INTO ${name}.meta VALUES ('schema_version', '${version}') ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
      );
    }
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}
