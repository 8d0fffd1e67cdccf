/** A place on every kind of real store, which several processes of a test can open: each on connections of its own. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { nodePlatform } from "../../../src/platform/node-platform.ts";
import type { Platform } from "../../../src/platform/platform.ts";
import type { Store } from "../../../src/store/store.ts";
import { openPostgresStore } from "../../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../../src/stores/redis/redis-store.ts";
import { openSqliteStore } from "../../../src/stores/sqlite/sqlite-store.ts";
import { useTestDatabase } from "./use-postgres.ts";
import { useSharedRedis } from "./use-redis.ts";

/** Gives a new, empty place; each call of what it gives opens that place once more. */
export type Place = () => () => Promise<Store>;

/** @param given.clock "platform" for stores whose time is that of the platform. */
export function usePlaces(
  given: { platform?: Platform; clock?: "platform" } = {},
): [title: string, place: Place][] {
  const { platform = nodePlatform, clock } = given;
  const timing = clock === undefined ? { platform } : { platform, clock };
  const folder = mkdtempSync(join(tmpdir(), "millrace-places-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const database = useTestDatabase();
  const redis = useSharedRedis();
  let count = 0;
  const onRedis =
    (partitions: { partitions?: number } = {}): Place =>
    () => {
      const { url } = redis.prefixes;
      const prefix = redis.prefixes.next();
      return () => openRedisStore({ url, prefix, ...timing, ...partitions });
    };
  return [
    [
      "sqlite",
      () => {
        const path = join(folder, `place-${++count}.db`);
        return () => openSqliteStore({ path, platform });
      },
    ],
    [
      "Postgres",
      () => {
        const schema = `place_${++count}`;
        return () => openPostgresStore({ url: database.url, schema, ...timing, poolMax: 4 });
      },
    ],
    ["Redis", onRedis()],
    ["Redis in four partitions", onRedis({ partitions: 4 })],
  ];
}
