/**
 * One Redis server for all test files of a run, however many workers run them: the first that needs it starts a keeper process, the others
 * wait for its word. The keeper stops the server when the run's main process is gone, killed or not. A test file works under prefixes of
 * its own. MILLRACE_TEST_REDIS names another server to use instead.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import type { Store } from "../../src/store/store.ts";

const startMaxMs = 150_000;
const lookMs = 40;

export async function redisUrl(): Promise<string> {
  const named = process.env["MILLRACE_TEST_REDIS"];
  if (named !== undefined) return named;
  const folder = join(tmpdir(), `millrace-redis-run-${process.ppid}`);
  mkdirSync(folder, { recursive: true });
  const said = join(folder, "said");
  if (isFirst(join(folder, "lock"))) {
    const keeper = join(import.meta.dirname, "redis-keeper.ts");
    spawn(process.execPath, [keeper, said, String(process.ppid)], {
      detached: true,
      stdio: "ignore",
    }).unref();
  }
  for (let waitedMs = 0; !existsSync(said); waitedMs += lookMs) {
    if (waitedMs > startMaxMs) throw new Error(`no Redis server was started within ${startMaxMs} ms`);
    await new Promise((resolve) => void setTimeout(resolve, lookMs));
  }
  const word = readFileSync(said, "utf8");
  if (!word.startsWith("redis://")) throw new Error(word);
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

/** Prefixes on the shared server that nobody else uses; each is emptied when its store is closed. */
export class RedisPrefixes {
  readonly url: string;
  readonly client: Redis;
  readonly #base = `test-${randomBytes(6).toString("hex")}`;
  #made = 0;

  constructor(url: string) {
    this.url = url;
    this.client = new Redis(url, { maxRetriesPerRequest: 1 });
    this.client.on("error", () => undefined);
  }

  next(): string {
    return `${this.#base}-${++this.#made}`;
  }

  /** A store under an empty prefix; closing it removes its keys. */
  async open(openStore: (url: string, prefix: string) => Promise<Store>): Promise<Store> {
    const prefix = this.next();
    const store = await openStore(this.url, prefix);
    return {
      ...store,
      close: async () => {
        await store.close();
        await this.clear(prefix);
      },
    };
  }

  async clear(prefix: string): Promise<void> {
    let cursor = "0";
    do {
      const [next, keys] = await this.client.scan(cursor, "MATCH", `{${prefix}:*`, "COUNT", 1000);
      if (keys.length > 0) await this.client.unlink(...keys);
      cursor = next;
    } while (cursor !== "0");
  }

  close(): void {
    this.client.disconnect();
  }
}
