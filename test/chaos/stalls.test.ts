/**
 * Stalls of SQLite (a stranger holds the file's write lock) and of Redis (its server stands still; a stranger pauses
 * it).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll } from "vitest";
import { nodePlatform as platform } from "../../src/platform/node-platform.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { useOwnRedis } from "../support/use-redis.ts";
import { runStallSuite, stallMs } from "./stall-suite.ts";
import type { StallSubject } from "./stall-suite.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-stall-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const redis = useOwnRedis();

const onRedis = (stall: () => Promise<void>) => async (): Promise<StallSubject> => ({
  store: await openRedisStore({ url: redis.server.url, prefix: redis.prefix, platform }),
  stall,
});

runStallSuite({
  "a write lock of another program on the SQLite file": async () => {
    const path = join(folder, "jobs.db");
    const store = await openSqliteStore({ path, platform });
    return {
      store,
      async stall() {
        const stranger = new DatabaseSync(path);
        stranger.exec("PRAGMA busy_timeout = 5000; BEGIN IMMEDIATE");
        await sleep(stallMs);
        stranger.exec("COMMIT");
        stranger.close();
      },
    };
  },
  "a Redis server that stood still": onRedis(async () => {
    redis.server.process.kill("SIGSTOP");
    await sleep(stallMs);
    redis.server.process.kill("SIGCONT");
  }),
  "a CLIENT PAUSE of Redis": onRedis(async () => {
    await redis.admin.call("CLIENT", "PAUSE", String(stallMs), "ALL");
    await sleep(stallMs);
  }),
});
