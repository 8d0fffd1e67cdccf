/**
 * A real pgbouncer in transaction mode in front of a server: the one on this machine, else installed from Debian's
 * packages where the tests run as root; where it may not be, the reason is told so that the run can name what it leaves
 * out. It runs as `nobody` when started by root, because it refuses root as Postgres does.
 */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { freePort } from "./free-port.ts";
import { until } from "./until.ts";

export type PgbouncerBinary = { readonly path: string } | { readonly missing: string };

const isRoot = process.getuid?.() === 0;
const nobody = { uid: 65_534, gid: 65_534 };
const installMaxMs = 60_000;

export function findPgbouncer(): PgbouncerBinary {
  const found = onThisMachine();
  if (found !== null) return { path: found };
  if (!existsSync("/etc/debian_version")) return { missing: "pgbouncer is not installed" };
  if (!isRoot) return { missing: "pgbouncer is not installed, and only root may install it" };
  const steps = [installArgs, ["update"], installArgs];
  for (const args of steps) {
    // Runlevel 1: the package's own service is not started.
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
    spawnSync("apt-get", args, { env, stdio: "ignore", timeout: installMaxMs });
    const installed = onThisMachine();
    if (installed !== null) return { path: installed };
  }
  return { missing: "pgbouncer is not installed, and apt-get could not install it" };
}

const installArgs = "install -y -q --no-install-recommends -o DPkg::Lock::Timeout=20 pgbouncer".split(" ");

function onThisMachine(): string | null {
  const folders = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin"];
  return folders.map((folder) => join(folder, "pgbouncer")).find((path) => existsSync(path)) ?? null;
}

export interface Pgbouncer {
  /** The same database, through the pooler. */
  readonly url: string;
  stop(): Promise<void>;
}

/** `poolSize`: server connections that all its clients share. */
export async function startPgbouncer(path: string, url: string, poolSize: number): Promise<Pgbouncer> {
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
    await until("pgbouncer answers", () => child.exitCode === null && answers(pooled), 15_000);
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
