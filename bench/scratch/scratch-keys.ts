/**
 * Places on one Redis server that the bench starts for itself, each under a prefix of its own: every system works on
 * the same server with the same settings. Its append-only file lies on the disk of the repository, like the files of
 * the other stores. A server of the caller's own is used instead when MILLRACE_BENCH_REDIS names it.
 */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { startRedis } from "../../test/support/servers/redis-server.ts";
import type { RedisServer } from "../../test/support/servers/redis-server.ts";
import { waitMs } from "../measure/clock.ts";
import type { Scratch } from "./scratch.ts";

const cacheFolder = fileURLToPath(new URL("../../node_modules/.cache/millrace-bench", import.meta.url));

/**
 * What differs from the server's defaults, beside the append-only file. No rewrite of that file falls into a
 * measurement.
 */
const serverSettings = [
  ["appendonly", "yes"],
  ["appendfsync", "everysec"],
  ["auto-aof-rewrite-percentage", "0"],
] as const;

/** A key of a place begins with its prefix, in Millrace's case behind a brace. */
const walk = `
  local page = redis.call("SCAN", ARGV[1], "MATCH", ARGV[2] .. ":*", "COUNT", 5000)
  for _, key in ipairs(page[2]) do
    if ARGV[3] == "" then redis.call("UNLINK", key)
    else redis.call("COPY", key, ARGV[3] .. string.sub(key, #ARGV[2] + 1)) end
  end
  return page[1]`;

export class ScratchKeys implements Scratch {
  readonly #folder = join(cacheFolder, String(process.pid));
  #server: RedisServer | null = null;
  #url = process.env["MILLRACE_BENCH_REDIS"] ?? "";
  #client: Redis | null = null;
  #made = 0;

  async open(): Promise<void> {
    if (this.#url === "") {
      mkdirSync(this.#folder, { recursive: true });
      this.#server = await startRedis({ settings: [...serverSettings, ["dir", this.#folder]] });
      this.#url = this.#server.url;
    }
    this.#client = new Redis(this.#url);
    // Its commands tell what went wrong; without a listener a server that stops would end the process.
    this.#client.on("error", () => undefined);
  }

  async fresh(): Promise<string> {
    this.#made += 1;
    return `${this.#url}?prefix=bench-${process.pid}-${this.#made}`;
  }

  async filled(): Promise<void> {}

  async copyOf(place: string): Promise<string> {
    const copy = await this.fresh();
    for (const brace of ["", "{"]) await this.#walk(brace + prefixOf(place), brace + prefixOf(copy));
    return copy;
  }

  /** Gone when this resolves: memory that is freed behind a measurement's back would cost it time. */
  async remove(place: string): Promise<void> {
    for (const brace of ["", "{"]) await this.#walk(brace + prefixOf(place), "");
    while ((await this.#figure("memory", "lazyfree_pending_objects")) > 0) await waitMs(10);
  }

  memoryBytes(): Promise<number> {
    return this.#figure("memory", "used_memory");
  }

  holdReader(): Promise<never> {
    return Promise.reject(new Error("No plan holds a reader on Redis."));
  }

  async close(): Promise<void> {
    this.#client?.disconnect();
    await this.#server?.stop();
    this.#server = null;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  abandon(): void {
    if (this.#server === null) return;
    this.#server.process.kill("SIGKILL");
    for (const folder of [this.#server.folder, this.#folder])
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  }

  async #walk(from: string, to: string): Promise<void> {
    let cursor = "0";
    do {
      cursor = (await this.#connected.eval(walk, 0, cursor, from, to)) as string;
    } while (cursor !== "0");
  }

  async #figure(section: string, name: string): Promise<number> {
    const told = await this.#connected.info(section);
    return Number(new RegExp(`^${name}:(\\d+)`, "m").exec(told)?.[1]);
  }

  get #connected(): Redis {
    if (this.#client === null) throw new Error("The bench's server was not started.");
    return this.#client;
  }
}

function prefixOf(place: string): string {
  return new URL(place).searchParams.get("prefix") ?? "";
}
