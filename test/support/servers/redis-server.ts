/**
 * Real Redis or Valkey servers for the tests, run by the binary that is installed (scripts/test-programs.ts). A server
 * has its own port on loopback and its own temporary folder, and writes an append-only file synced every second. One
 * server serves all test files of a run: redis-shared.ts.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { find, findAll, testPrograms } from "../../../scripts/test-programs.ts";
import { hangMs } from "../hang-ms.ts";
import { freePort } from "./free-port.ts";
import { startServer } from "./test-server.ts";
import type { TestServer } from "./test-server.ts";

export type RedisServer = TestServer;

export interface RedisServerOptions {
  readonly binary?: string;
  /** Later settings win: `["appendfsync", "always"]`. */
  readonly settings?: readonly (readonly [name: string, value: string])[];
}

export function redisBinary(): string {
  return find(testPrograms.redis);
}

/** Every kind of server that is installed: what one cannot do another may. */
export function redisBinaries(): readonly { readonly binary: string; readonly version: string }[] {
  redisBinary();
  return findAll(testPrograms.redis).map((binary) => {
    const said = spawnSync(binary, ["--version"], { encoding: "utf8" }).stdout;
    return { binary, version: `${basename(binary)} ${/ v=(\S+)/.exec(said)?.[1] ?? "?"}` };
  });
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
      if (child.exitCode !== null || waitedMs > hangMs) return fail();
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
