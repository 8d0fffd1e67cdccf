/**
 * What the doctor shows an operator of the server and the schema: the settings on which promises depend, missing
 * tables, indexes and functions, dead rows that claims must walk over, and open transactions that keep those rows from
 * being cleared. It only reads, so it also examines a database that has no tables of Millrace yet.
 */
import type { Platform } from "../../../platform/platform.ts";
import { openDatabase } from "./database.ts";
import type { Database, Value } from "./database.ts";
import { loadDriver } from "./driver.ts";
import { openListener } from "./listener.ts";
import { quoted, readVersion, schemaVersion } from "./migrate.ts";
import { checkSchema, readStoreUrl } from "./store-url.ts";
import type { StoreUrl } from "./store-url.ts";
import { tablesSql } from "./schema.sql.ts";
import { triggersSql } from "../journal/slip.sql.ts";
import { functionsSql } from "../functions/all-functions.sql.ts";
import { sql } from "../../../store/sql.ts";

export interface TableCondition {
  readonly name: string;
  readonly liveRows: number;
  readonly deadRows: number;
  readonly bytes: number;
}

export interface OpenTransaction {
  readonly pid: number;
  readonly user: string;
  readonly application: string;
  readonly state: string;
  readonly ageMs: number;
  /** The beginning of its last statement. */
  readonly query: string;
}

export interface PostgresCondition {
  readonly server: string;
  readonly schema: string;
  /** 0 if there are no tables of Millrace. */
  readonly schemaVersion: number;
  /** The version to which this Millrace migrates a schema. */
  readonly knownVersion: number;
  readonly settings: Readonly<Record<SettingName, string>>;
  readonly connections: { readonly open: number; readonly max: number };
  /** "index waiting_ready", "function claim_v1". */
  readonly missing: readonly string[];
  readonly tables: readonly TableCondition[];
  /** Whether a NOTIFY arrives at the address for listening; null if there is no such address. */
  readonly hears: boolean | null;
  /** Open transactions older than `olderThanMs`, the oldest first. */
  readonly transactions: readonly OpenTransaction[];
}

const settingNames = [
  "fsync",
  "full_page_writes",
  "synchronous_commit",
  "autovacuum",
  "track_counts",
] as const;
type SettingName = (typeof settingNames)[number];

export interface ExamineOptions {
  readonly url: string;
  readonly platform: Platform;
  /** Only transactions that have been open for longer are shown. */
  readonly olderThanMs: number;
}

const name = "millrace doctor";
const callTimeoutMs = 30_000;
const hearMaxMs = 2000;
const transactionsMax = 5;
const queryLengthMax = 80;

export async function examinePostgres(options: ExamineOptions): Promise<PostgresCondition> {
  return look(options, async (database, { schema, listenUrl }) => {
    const version = await readVersion(database, schema);
    return {
      ...(await readServer(database)),
      schema,
      schemaVersion: version,
      knownVersion: schemaVersion,
      missing: version === schemaVersion ? await findMissing(database, schema) : [],
      tables: await readTables(database, schema),
      hears: listenUrl === null ? null : await hearsItself(database, options.platform, listenUrl),
      transactions: await readTransactions(database, options.olderThanMs),
    };
  });
}

export async function readPostgresVersion(
  options: Omit<ExamineOptions, "olderThanMs">,
): Promise<{ schema: string; from: number; to: number }> {
  return look(options, async (database, { schema }) => ({
    schema,
    from: await readVersion(database, schema),
    to: schemaVersion,
  }));
}

async function look<Answer>(
  { url, platform }: Omit<ExamineOptions, "olderThanMs">,
  use: (database: Database, place: Pick<StoreUrl, "listenUrl"> & { schema: string }) => Promise<Answer>,
): Promise<Answer> {
  const named = readStoreUrl(url);
  const schema = checkSchema(named.schema);
  const driver = await loadDriver();
  const database = openDatabase({ driver, url: named.url, poolMax: 1, name, platform, callTimeoutMs });
  try {
    return await use(database, { schema, listenUrl: named.listenUrl });
  } finally {
    await database.close();
  }
}

/** Rows as objects: the names of the columns are those of the fields. */
async function readObjects<Each>(database: Database, text: string, values: Value[] = []): Promise<Each[]> {
  const rows = await database.read(`SELECT to_json(answer) FROM (${text}) answer`, values);
  return rows.map(([json]) => JSON.parse(json as string) as Each);
}

type Server = Pick<PostgresCondition, "server" | "settings" | "connections">;

async function readServer(database: Database): Promise<Server> {
  const settings = settingNames.map((name) => `'${name}', current_setting('${name}')`).join(", ");
  const text = sql`
    SELECT current_setting('server_version') AS server, json_build_object(${settings}) AS settings,
      json_build_object('open', (SELECT sum(numbackends) FROM pg_catalog.pg_stat_database),
        'max', current_setting('max_connections')::int4) AS connections`;
  return (await readObjects<Server>(database, text))[0] as Server;
}

/**
 * Compares what the migrations create, read from their own text, with the catalogue. An index that is not valid counts
 * as missing.
 */
async function findMissing(database: Database, schema: string): Promise<readonly string[]> {
  const made = /\bCREATE (?:UNIQUE |UNLOGGED |CONSTRAINT )?(TABLE|INDEX|FUNCTION|TRIGGER) @?\.?(\w+)/g;
  const expected = [...(tablesSql + functionsSql + triggersSql).matchAll(made)].map(
    ([, kind = "", name = ""]) => `${kind.toLowerCase()} ${name}`,
  );
  const text = sql`
    SELECT 'table ' || c.relname FROM pg_catalog.pg_class c
      WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p')
    UNION ALL SELECT 'index ' || c.relname
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
      WHERE c.relnamespace = $1::regnamespace AND i.indisvalid
    UNION ALL SELECT 'function ' || p.proname FROM pg_catalog.pg_proc p WHERE p.pronamespace = $1::regnamespace
    UNION ALL SELECT 'trigger ' || t.tgname
      FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
      WHERE c.relnamespace = $1::regnamespace AND t.tgenabled <> 'D'`;
  const there = new Set((await database.read(text, [quoted(schema)])).map(([name]) => name));
  return expected.filter((name) => !there.has(name));
}

async function hearsItself(
  database: Database,
  platform: Platform,
  listenUrl: string | undefined,
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const listener = openListener({
    platform,
    channel: "millrace_doctor",
    connect: () => database.connect(name, listenUrl),
    notify: (to, payload) => database.read("SELECT pg_notify($1, $2)", [to, payload]),
    heard: () => undefined,
    changed: () => resolve(true),
  });
  const timer = platform.setTimer(hearMaxMs, () => resolve(false));
  const hears = await promise;
  timer.cancel();
  await listener.close();
  return hears;
}

function readTables(database: Database, schema: string): Promise<readonly TableCondition[]> {
  const text = sql`
    SELECT relname AS name, n_live_tup AS "liveRows", n_dead_tup AS "deadRows",
      pg_catalog.pg_total_relation_size(relid) AS bytes
    FROM pg_catalog.pg_stat_user_tables WHERE schemaname = $1 ORDER BY relname`;
  return readObjects(database, text, [schema]);
}

/**
 * Transactions of this database only: those of other databases hold nothing back here. Prepared transactions are
 * included, which stay open without any session.
 */
function readTransactions(database: Database, olderThanMs: number): Promise<readonly OpenTransaction[]> {
  const ageMs = (since: string): string => `(extract(epoch FROM clock_timestamp() - ${since}) * 1000)::int8`;
  const text = sql`
    SELECT * FROM (
      SELECT pid, coalesce(usename, '') AS user, coalesce(application_name, '') AS application,
        coalesce(state, '') AS state, ${ageMs("xact_start")} AS "ageMs",
        coalesce(left(query, ${queryLengthMax}), '') AS query
        FROM pg_catalog.pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
          AND backend_type = 'client backend'
      UNION ALL SELECT 0, owner, gid, 'prepared', ${ageMs("prepared")}, 'PREPARE TRANSACTION'
        FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()) t
    WHERE "ageMs" >= $1 ORDER BY "ageMs" DESC LIMIT ${transactionsMax}`;
  return readObjects(database, text, [olderThanMs]);
}
