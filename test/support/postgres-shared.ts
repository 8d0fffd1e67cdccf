/**
 * One Postgres server of each version for all test files of a run, however many workers run them: the first that needs it starts a keeper process,
 * the others wait for its word. The keeper stops the server when the run's main process is gone, killed or not.
 *
 * MILLRACE_TEST_POSTGRES names another server to use instead of the one from npm.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { Store } from "../../src/store/store.ts";
import { installedBinaries, npmBinaries } from "./postgres-server.ts";

export type ServerKind = "npm" | "installed";

export interface PostgresSource {
  readonly title: string;
  readonly kind: ServerKind | "named";
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

const startMaxMs = 90_000;
const lookMs = 40;

async function serverUrl(kind: PostgresSource["kind"]): Promise<string> {
  if (kind === "named") return process.env["MILLRACE_TEST_POSTGRES"] as string;
  const folder = join(tmpdir(), `millrace-pg-run-${process.ppid}`);
  mkdirSync(folder, { recursive: true });
  const said = join(folder, `${kind}.said`);
  if (isFirst(join(folder, `${kind}.lock`))) {
    const keeper = join(import.meta.dirname, "postgres-keeper.ts");
    spawn(process.execPath, [keeper, kind, said, String(process.ppid)], {
      detached: true,
      stdio: "ignore",
    }).unref();
  }
  for (let waitedMs = 0; !existsSync(said); waitedMs += lookMs) {
    if (waitedMs > startMaxMs)
      throw new Error(`no Postgres server (${kind}) was started within ${startMaxMs} ms`);
    await new Promise((resolve) => void setTimeout(resolve, lookMs));
  }
  const word = readFileSync(said, "utf8");
  if (!word.startsWith("postgres://")) throw new Error(word);
  return word;
}

function isFirst(lock: string): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    return false;
  }
}

export interface TestDatabase {
  readonly url: string;
  query(text: string, values?: readonly unknown[]): Promise<Record<string, unknown>[]>;
  drop(): Promise<void>;
}

/** A database of its own for a test file. */
export async function createTestDatabase({ kind }: PostgresSource): Promise<TestDatabase> {
  const server = new URL(await serverUrl(kind));
  const name = `millrace_test_${randomBytes(6).toString("hex")}`;
  await once(server.href, `CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const pool = new pg.Pool({ connectionString: url.href, max: 2, allowExitOnIdle: true });
  pool.on("error", () => undefined);
  return {
    url: url.href,
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

/** Schemas of one database that are used again and again: emptying one is ten times faster than making one. */
export class SchemaPool {
  readonly #database: TestDatabase;
  readonly #free: string[] = [];
  #made = 0;

  constructor(database: TestDatabase) {
    this.#database = database;
  }

  /** A store on an empty schema; closing it gives the schema back. */
  async open(openStore: (url: string, schema: string) => Promise<Store>): Promise<Store> {
    const schema = this.#free.pop() ?? `case_${++this.#made}`;
    const store = await openStore(this.#database.url, schema);
    return {
      ...store,
      close: async () => {
        await store.close();
        await this.#database.query(emptySql(schema));
        this.#free.push(schema);
      },
    };
  }
}

const tables = "waiting leased history payload uniq tag trail doc tally feed route".split(" ");
const sequences = "job_seq feed_id".split(" ");

const emptySql = (schema: string): string =>
  [
    ...tables.map((table) => `DELETE FROM ${schema}.${table}`),
    ...sequences.map((sequence) => `SELECT setval('${schema}.${sequence}', 1, false)`),
  ].join(";");
