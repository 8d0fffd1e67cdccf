/**
 * A real pgbouncer in transaction mode in front of a server, run by the binary that is installed
 * (scripts/test-programs.ts). It runs as `nobody` when started by root, because it refuses root as Postgres does.
 */
import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { find, testPrograms } from "../../../scripts/test-programs.ts";
import { freePort } from "./free-port.ts";
import { until } from "../until.ts";

const isRoot = process.getuid?.() === 0;
const nobody = { uid: 65_534, gid: 65_534 };

export interface Pgbouncer {
  /** The same database, through the pooler. */
  readonly url: string;
  stop(): Promise<void>;
}

/** `poolSize`: server connections that all its clients share. */
export async function startPgbouncer(url: string, poolSize: number): Promise<Pgbouncer> {
  const path = find(testPrograms.pgbouncer);
  const { hostname, port: serverPort, username, pathname } = new URL(url);
  const folder = mkdtempSync(join(tmpdir(), "millrace-pgbouncer-"));
  chmodSync(folder, 0o755);
  const port = await freePort();
  const config = join(folder, "pgbouncer.ini");
  const server = `host=${hostname} port=${serverPort || "5432"} user=${username}`;
  const settings = [
    "[databases]",
    `* = ${server}`,
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    `listen_port = ${port}`,
    "unix_socket_dir =",
    "auth_type = any",
    "pool_mode = transaction",
    `default_pool_size = ${poolSize}`,
    "max_client_conn = 200",
  ];
  writeFileSync(config, `${settings.join("\n")}\n`, { mode: 0o644 });
  const as = isRoot ? nobody : {};
  const child = spawn(path, [config], { ...as, cwd: folder, env: {}, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-2000)));
  const exited = new Promise<void>((resolve) => void child.once("exit", () => resolve()));
  const pooled = new URL(`postgres://${username}@127.0.0.1:${port}${pathname}`).href;
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exited;
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await until("pgbouncer answers", () => child.exitCode === null && answers(pooled));
  } catch (cause) {
    await stop();
    throw new Error(`pgbouncer did not start: ${said}`, { cause });
  }
  return { url: pooled, stop };
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
