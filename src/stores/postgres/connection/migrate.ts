/**
 * Brings a schema to the tables and functions of this version. The steps are numbered, and each is one transaction
 * under an advisory lock: of ten processes one migrates and nine find it done, and a killed process leaves nothing half
 * done. A step only adds: functions of older versions stay, so older workers go on. A schema of a newer version is
 * refused before anything is written.
 */
import { MillraceError } from "../../../model/error.ts";
import type { Database, Row } from "./database.ts";
import { lockNotAvailable, sqlState } from "./errors.ts";
import { inSchema, tablesSql } from "./schema.sql.ts";
import { triggersSql } from "../journal/slip.sql.ts";
import { functionsSql } from "../functions/all-functions.sql.ts";
import { sql } from "../../../store/sql.ts";

interface Migration {
  readonly version: number;
  readonly text: string;
}

/**
 * The first days get their partitions here. Without one, a day whose first jobs end before retention has run once would
 * stay in the default partition for ever.
 */
const firstDaysSql = "SELECT @make_partitions_v1(@begin_v1(NULL, NULL));";

const migrations: readonly Migration[] = [
  { version: 1, text: [tablesSql, functionsSql, triggersSql, firstDaysSql].join("\n\n") },
];

export const schemaVersion = 1;

export const quoted = (schema: string): string => `"${schema}"`;

interface Asked {
  readonly read: (text: string) => Promise<Row[]>;
}

/** `schema` is unquoted. `waitMs`: how long to wait for another process's migration. */
export async function migrate(database: Database, schema: string, waitMs: number): Promise<void> {
  const { where } = database;
  if (checkVersion(await readVersion(database, schema), where) === schemaVersion) return;
  await database.session(async (run) => {
    for (const migration of migrations) await migrateTo(run, migration, { schema, where, waitMs });
  });
}

/**
 * 0 for a schema without Millrace's tables. It is read from the catalogue, because after a wait for a lock to_regclass
 * may still answer from this session's cache.
 */
export async function readVersion({ read }: Asked, schema: string): Promise<number> {
  const [meta] =
    await read(sql`SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '${schema}' AND c.relname = 'meta'`);
  if (meta === undefined) return 0;
  const [version] = await read(`SELECT value FROM ${quoted(schema)}.meta WHERE name = 'schema_version'`);
  return Number(version?.[0] ?? 0);
}

/** Throws for a schema of a newer version. */
function checkVersion(version: number, where: string): number {
  if (version > schemaVersion) {
    const sentence = `${where} has the tables of a newer Millrace (version ${version}, this one knows ${schemaVersion}). Upgrade this process.`;
    throw new MillraceError("schema-newer", sentence);
  }
  return version;
}

async function migrateTo(
  run: Asked["read"],
  { version, text }: Migration,
  { schema, where, waitMs }: { readonly schema: string; readonly where: string; readonly waitMs: number },
): Promise<void> {
  const name = quoted(schema);
  await run("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await run(`SET LOCAL lock_timeout = ${Math.max(1, Math.floor(waitMs))}`);
    try {
      await run(`SELECT pg_advisory_xact_lock(hashtextextended('millrace migration of ${schema}', 0))`);
    } catch (cause) {
      if (sqlState(cause) !== lockNotAvailable) throw cause;
      const sentence = `Another process is migrating ${where} and did not finish within ${waitMs} ms. Open it again later.`;
      throw new MillraceError("migration-running", sentence, { cause });
    }
    if (checkVersion(await readVersion({ read: run }, schema), where) < version) {
      const [found] = await run(`SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = '${schema}'`);
      if (found === undefined) await run(`CREATE SCHEMA ${name}`);
      await run(inSchema(text, name));
      await run(
        sql`
          INSERT INTO ${name}.meta VALUES ('schema_version', '${version}')
          ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
      );
    }
    await run("COMMIT");
  } catch (error) {
    await run("ROLLBACK").catch(() => undefined);
    throw error;
  }
}
