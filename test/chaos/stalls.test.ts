/**
 * Stalls of SQLite (a stranger holds the file's write lock) and of Redis (its server stands still), and of workers on
 * both.
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
import { useOwnRedis } from "../support/servers/use-redis.ts";
import { runStallSuite, stallMs, stopWorkers } from "./stall-suite.ts";
import type { StallSubject } from "./stall-suite.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-stall-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const redis = useOwnRedis();

const onRedis = (stall: () => Promise<void>) => async (): Promise<StallSubject> => ({
  store: await openRedisStore({ url: redis.server.url, prefix: redis.prefix, platform }),
  stall,
});

const onSqlite = (stall: (path: string) => Promise<void>) => async (): Promise<StallSubject> => {
  const path = join(mkdtempSync(join(folder, "file-")), "jobs.db");
  return { store: await openSqliteStore({ path, platform }), stall: () => stall(path) };
};

runStallSuite({
  "a write lock of another program on the SQLite file": onSqlite(async (path) => {
    const stranger = new DatabaseSync(path);
    stranger.exec("PRAGMA busy_timeout = 5000; BEGIN IMMEDIATE");
    await sleep(stallMs);
    stranger.exec("COMMIT");
    stranger.close();
  }),
  "a process with workers on SQLite that stood still": onSqlite(stopWorkers),
  "a Redis server that stood still": onRedis(async () => {
    redis.server.process.kill("SIGSTOP");
    await sleep(stallMs);
    redis.server.process.kill("SIGCONT");
  }),
  "a process with workers on Redis that stood still": onRedis(stopWorkers),
});
