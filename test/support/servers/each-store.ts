/** A store of each kind, empty and closed after its case: what holds on one store has to hold on all of them. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { nodePlatform } from "../../../src/platform/node-platform.ts";
import { partitionedStore } from "../../../src/store/partitioned/partitioned-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { openPostgresStore } from "../../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../../src/stores/redis/redis-store.ts";
import { openSqliteStore } from "../../../src/stores/sqlite/sqlite-store.ts";
import { useTestDatabase } from "./use-postgres.ts";
import { useSharedRedis } from "./use-redis.ts";

/** By the title of the store; call it once in a file, outside of its cases. */
export function eachStore(): readonly (readonly [title: string, open: () => Promise<Store>])[] {
  const folder = mkdtempSync(join(tmpdir(), "millrace-each-store-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const database = useTestDatabase();
  const redis = useSharedRedis();
  const platform = nodePlatform;
  let places = 0;
  const sqlite = (): Promise<Store> => openSqliteStore({ path: join(folder, `${++places}.db`), platform });
  const onRedis = (partitions: number): Promise<Store> =>
    openRedisStore({ url: redis.prefixes.url, prefix: redis.prefixes.next(), partitions, platform });
  return [
    ["SQLite", sqlite],
    [
      "SQLite in four partitions",
      async () => partitionedStore(await Promise.all([1, 2, 3, 4].map(sqlite)), { platform }),
    ],
    ["Postgres", () => openPostgresStore({ url: database.url, schema: `each_${++places}`, platform })],
    ["Redis", () => onRedis(1)],
    ["Redis in four partitions", () => onRedis(4)],
  ];
}
