/**
 * Real Redis or Valkey servers for the tests: one that is installed, else Debian's package where the run may install
 * it, else one line that says what to do. A server has its own port on loopback and its own temporary folder, and
 * writes an append-only file synced every second. One server serves all test files of a run: redis-shared.ts.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { freePort } from "./free-port.ts";
import { startServer } from "./test-server.ts";
import type { TestServer } from "./test-server.ts";

export type RedisServer = TestServer;

export interface RedisServerOptions {
  readonly binary?: string;
  /** Later settings win: `["appendfsync", "always"]`. */
  readonly settings?: readonly (readonly [name: string, value: string])[];
}

const names = ["redis-server", "valkey-server"];
const folders = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];
const aptGet = "/usr/bin/apt-get";
const installMaxMs = 120_000;
const startMaxMs = 20_000;

export const installAdvice =
  "The Redis tests need a server: install redis-server or valkey-server (Debian: apt-get install redis-server), or name one in MILLRACE_TEST_REDIS.";

/** Of each name the first that is found. */
function installedBinaries(): string[] {
  const paths = (process.env["PATH"] ?? "").split(":").filter((path) => path !== "");
  const found = names.map((name) =>
    [...paths, ...folders].map((folder) => join(folder, name)).find((path) => existsSync(path)),
  );
  return found.filter((path) => path !== undefined);
}

/** The installed server; on Debian as root it is installed first, without starting the system's service. */
export function redisBinary(): string {
  const [found] = installedBinaries();
  if (found !== undefined) return found;
  if (process.getuid?.() === 0 && existsSync(aptGet)) {
    withoutServices(() => {
      const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
      const run = (...args: string[]): boolean =>
        spawnSync(aptGet, args, { env, stdio: "ignore", timeout: installMaxMs }).status === 0;
      const install = ["install", "-y", "-qq", "--no-install-recommends", "redis-server"];
      return run(...install) || (run("update", "-qq") && run(...install));
    });
    const [installed] = installedBinaries();
    if (installed !== undefined) return installed;
  }
  throw new Error(installAdvice);
}

/** Every kind of server that is installed: what one cannot do another may. */
export function redisBinaries(): readonly { readonly binary: string; readonly version: string }[] {
  redisBinary();
  return installedBinaries().map((binary) => {
    const said = spawnSync(binary, ["--version"], { encoding: "utf8" }).stdout;
    return { binary, version: `${basename(binary)} ${/ v=(\S+)/.exec(said)?.[1] ?? "?"}` };
  });
}

/** Debian asks this file before it starts the service of a package. */
function withoutServices(run: () => unknown): void {
  const policy = "/usr/sbin/policy-rc.d";
  const isOurs = !existsSync(policy);
  if (isOurs) writeFileSync(policy, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    run();
  } finally {
    if (isOurs) rmSync(policy, { force: true });
  }
}

export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const { binary = redisBinary(), settings = [] } = options;
  const folder = mkdtempSync(join(tmpdir(), "millrace-redis-"));
  const port = await freePort();
  const given = [
    ["port", String(port)],
    ["bind", "127.0.0.1"],
    ["dir", folder],
    ["save", ""],
    ["appendonly", "yes"],
    ["appendfsync", "everysec"],
    ["daemonize", "no"],
    ["loglevel", "warning"],
    ...settings,
  ] as const;
  const args = given.flatMap(([name, value]) => [`--${name}`, value]);
  const begin = (): Promise<ChildProcess> =>
    ready(spawn(binary, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] }), port);
  const signals = { restart: "SIGTERM", stop: "SIGKILL" } as const;
  return startServer({ url: `redis://127.0.0.1:${port}`, port, folder, begin, signals });
}

/** A sentinel that alone decides, within seconds, about the primary at a port, which it calls "millrace". */
export async function startSentinel(primary: { readonly port: number }): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-sentinel-"));
  const port = await freePort();
  const file = join(folder, "sentinel.conf");
  const lines = [
    `port ${port}`,
    "bind 127.0.0.1",
    `dir ${folder}`,
    `sentinel monitor millrace 127.0.0.1 ${primary.port} 1`,
    // After it got no processor for two seconds a sentinel waits for thirty, and it promotes no replica that was cut
    // off ten times as long as this.
    "sentinel down-after-milliseconds millrace 3500",
    "sentinel failover-timeout millrace 5000",
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  const stdio = ["ignore", "pipe", "pipe"] as const;
  const begin = (): Promise<ChildProcess> =>
    ready(spawn(redisBinary(), [file, "--sentinel"], { cwd: folder, stdio: [...stdio] }), port);
  const signals = { restart: "SIGTERM", stop: "SIGKILL" } as const;
  return startServer({ url: `redis://127.0.0.1:${port}`, port, folder, begin, signals });
}

/** Ready once it answers a PING, which it refuses while it loads its files. */
function ready(child: ChildProcess, port: number): Promise<ChildProcess> {
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-4000)));
  return new Promise((resolve, reject) => {
    let waitedMs = 0;
    let isOver = false;
    const fail = (cause?: unknown): void => {
      isOver = true;
      child.kill("SIGKILL");
      reject(new Error(`The Redis server did not start: ${said}`, { cause }));
    };
    child.once("error", fail);
    const look = (): void => {
      if (isOver) return;
      if (child.exitCode !== null || waitedMs > startMaxMs) return fail();
      waitedMs += 25;
      const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
      const again = (): void => {
        socket.destroy();
        setTimeout(look, 25);
      };
      socket.once("error", again);
      socket.once("data", (answer) => {
        if (!answer.toString().startsWith("+PONG")) return again();
        socket.destroy();
        isOver = true;
        resolve(child);
      });
    };
    look();
  });
}
