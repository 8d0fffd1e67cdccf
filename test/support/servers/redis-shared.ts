/**
 * Prefixes for the tests on the one Redis server that all test files of a run share (shared-server.ts).
 * MILLRACE_TEST_REDIS names another server to use instead.
 */
import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import type { Store } from "../../../src/store/store.ts";
import { sharedServerUrl } from "./shared-server.ts";

export async function redisUrl(): Promise<string> {
  return process.env["MILLRACE_TEST_REDIS"] ?? (await sharedServerUrl("redis"));
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
