/**
 * Databases of one run of the bench, all on one Postgres 18 that the bench starts for itself, durable as it ships:
 * every system works on the same server with the same settings. A server of the caller's own is used instead when
 * MILLRACE_BENCH_POSTGRES names it.
 */
import { existsSync, rmSync } from "node:fs";
import pg from "pg";
import { startPostgres } from "../../test/support/servers/postgres-server.ts";
import type { PostgresServer } from "../../test/support/servers/postgres-server.ts";
import type { Scratch } from "./scratch.ts";

/** What differs from the server's defaults, and what durability rests on. Said with the figures. */
export const serverSettings = [
  "fsync=on",
  "synchronous_commit=on",
  "shared_buffers=512MB",
  "max_wal_size=4GB",
  "checkpoint_timeout=15min",
  // Fifty idle processes with a pool each.
  "max_connections=1000",
  "wal_level=replica",
  "autovacuum_naptime=1min",
] as const;

export class ScratchDatabases implements Scratch {
  #server: PostgresServer | null = null;
  #url = process.env["MILLRACE_BENCH_POSTGRES"] ?? "";
  #made = 0;
  /** A template must have no other user, so databases are made one after the other. */
  #making: Promise<unknown> = Promise.resolve();

  async open(): Promise<void> {
    if (this.#url !== "") return;
    this.#server = await startPostgres({ settings: serverSettings });
    this.#url = this.#server.url;
  }

  async fresh(): Promise<string> {
    return this.#create("template0");
  }

  async filled(place: string): Promise<void> {
    await onServer(place, ["ANALYZE", "CHECKPOINT"]);
  }

  async copyOf(place: string): Promise<string> {
    return this.#create(nameOf(place));
  }

  async remove(place: string): Promise<void> {
    await onServer(this.#url, [`DROP DATABASE ${nameOf(place)} WITH (FORCE)`]);
  }

  async holdReader(place: string): Promise<{ release(): Promise<void> }> {
    const client = await connect(place);
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await client.query("SELECT count(*) FROM pg_class");
    return { release: () => client.end() };
  }

  memoryBytes(): Promise<never> {
    return Promise.reject(new Error("No plan weighs the memory of a database."));
  }

  async close(): Promise<void> {
    await this.#server?.stop();
    this.#server = null;
  }

  abandon(): void {
    if (this.#server === null) return;
    const { process: server, folder } = this.#server;
    server.kill("SIGQUIT");
    // It writes until it is gone, and nothing can be awaited here.
    for (let tries = 0; tries < 20 && existsSync(folder); tries++) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
      try {
        rmSync(folder, { recursive: true, force: true });
      } catch {
        continue;
      }
    }
  }

  /** The bytes of a template are on disk before a copy is handed out, so no measurement pays for writing them. */
  async #create(template: string): Promise<string> {
    this.#made += 1;
    const name = `bench_${process.pid}_${this.#made}`;
    const text = `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`;
    const made = this.#making.then(() => onServer(this.#url, [text, "CHECKPOINT"]));
    this.#making = made.catch(() => undefined);
    await made;
    const url = new URL(this.#url);
    url.pathname = `/${name}`;
    return url.href;
  }
}

function nameOf(place: string): string {
  return new URL(place).pathname.slice(1);
}

async function onServer(url: string, statements: readonly string[]): Promise<void> {
  const client = await connect(url);
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  // Its queries tell what went wrong; without a listener a server that stops would end the process.
  client.on("error", () => undefined);
  await client.connect();
  return client;
}
