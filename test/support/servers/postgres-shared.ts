/**
 * Databases for the tests, each on the one server of its version that all test files of a run share (shared-server.ts).
 * MILLRACE_TEST_POSTGRES names another server to use instead of the one from npm.
 */
import { randomBytes } from "node:crypto";
import pg from "pg";
import type { Store } from "../../../src/store/store.ts";
import { withCountedSeqs } from "../counted-seqs.ts";
import { installedBinaries, npmBinaries } from "./postgres-server.ts";
import { sharedServerUrl } from "./shared-server.ts";
import { until } from "../until.ts";

export interface PostgresSource {
  readonly title: string;
  readonly kind: "npm" | "installed" | "named";
}

/** The servers that this machine can test on. */
export function postgresSources(): PostgresSource[] {
  if (process.env["MILLRACE_TEST_POSTGRES"] !== undefined)
    return [{ title: "the server named by MILLRACE_TEST_POSTGRES", kind: "named" }];
  const installed = installedBinaries();
  const sources: PostgresSource[] = [{ title: `Postgres ${npmBinaries().version}`, kind: "npm" }];
  if (installed !== null) sources.push({ title: `Postgres ${installed.version}`, kind: "installed" });
  return sources;
}

async function serverUrl(kind: PostgresSource["kind"]): Promise<string> {
  if (kind === "named") return process.env["MILLRACE_TEST_POSTGRES"] as string;
  return sharedServerUrl(`postgres-${kind}`);
}

export interface TestDatabase {
  readonly url: string;
  /** For stores that need no connections of their own. */
  readonly pool: pg.Pool;
  query(text: string, values?: readonly unknown[]): Promise<Record<string, unknown>[]>;
  drop(): Promise<void>;
}

/** For those who do not end it. */
export type LentDatabase = Omit<TestDatabase, "drop">;

/** As many as the claimers that a test lets work at once. */
const poolMax = 8;

/** A database of its own for a test file. */
export async function createTestDatabase({ kind }: PostgresSource): Promise<TestDatabase> {
  const server = new URL(await serverUrl(kind));
  const name = `millrace_test_${randomBytes(6).toString("hex")}`;
  await once(server.href, `CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const pool = new pg.Pool({
    connectionString: url.href,
    max: poolMax,
    allowExitOnIdle: true,
    idleTimeoutMillis: 0,
  });
  pool.on("error", () => undefined);
  return {
    url: url.href,
    pool,
    query: async (text, values) => {
      const { rows } = await (values === undefined ? pool.query(text) : pool.query(text, [...values]));
      return rows as Record<string, unknown>[];
    },
    drop: async () => {
      await pool.end();
      await once(server.href, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}

async function once(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

/**
 * Schemas of one database that are used again and again, by the same few connections: emptying a schema is ten times
 * faster than making one, and a new connection compiles every function that it calls.
 */
export class SchemaPool {
  readonly #database: LentDatabase;
  readonly #free: string[] = [];
  #made = 0;

  constructor(database: LentDatabase) {
    this.#database = database;
  }

  /** A store on an empty schema; closing it gives the schema back. */
  async open(openStore: OpenInSchema): Promise<Store> {
    const { store } = await this.#open(openStore);
    return store;
  }

  /**
   * The same for suites that compare seqs with those of the reference model, by calls that come one after the other.
   */
  async openCounted(openStore: OpenInSchema): Promise<Store> {
    const { store, schema } = await this.#open(openStore);
    return withCountedSeqs(store, async (above) =>
      (await this.#database.query(seqsSql(schema, above))).map(({ seq }) => Number(seq)),
    );
  }

  async #open(openStore: OpenInSchema): Promise<{ readonly store: Store; readonly schema: string }> {
    const schema = this.#free.pop() ?? `case_${++this.#made}`;
    const opened = await openStore({ pool: this.#database.pool, schema });
    const close = async (): Promise<void> => {
      await opened.close();
      // A connection that was cut leaves its statement to the server, which may still be at it: emptying would
      // deadlock.
      await until("no statement is at work in the schema", async () => {
        const [row] = await this.#database.query(atWorkSql(schema));
        return row === undefined;
      });
      await this.#database.query(emptySql(schema));
      this.#free.push(schema);
    };
    return { store: { ...opened, close }, schema };
  }
}

type OpenInSchema = (place: { readonly pool: pg.Pool; readonly schema: string }) => Promise<Store>;

const atWorkSql = (schema: string): string =>
  `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
    AND strpos(query, '${schema}.') > 0 LIMIT 1`;

const seqsSql = (schema: string, above: number): string =>
  ["waiting", "leased", "history"]
    .map((table) => `SELECT seq FROM ${schema}.${table} WHERE seq > ${above}`)
    .join(" UNION ALL ");

const tables = [
  ...[
    "waiting",
    "leased",
    "history",
    "payload",
    "uniq",
    "tag",
    "journal",
    "entry",
    "slip",
    "doc",
    "doc_floor",
    "feed",
  ],
  ...[
    "route",
    "gate",
    "gate_use",
    "lane",
    "lane_turn",
    "lane_change",
    "state_count",
    "lane_scope",
    "permit",
    "key_clock",
    "unreadable",
  ],
];
const sequences = "job_seq feed_id".split(" ");

const emptySql = (schema: string): string =>
  [
    ...tables.map((table) => `DELETE FROM ${schema}.${table}`),
    ...sequences.map((sequence) => `SELECT setval('${schema}.${sequence}', 1, false)`),
  ].join(";");
