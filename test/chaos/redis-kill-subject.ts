/** A place for processes to be killed and frozen on: one Redis server, in N partitions. */
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { RedisPrefixes, redisUrl } from "../support/servers/redis-shared.ts";
import type { KillSubject } from "./kill-suite.ts";

export const openOnRedis =
  (partitions: number): KillSubject["open"] =>
  async () => {
    const prefixes = new RedisPrefixes(await redisUrl());
    const prefix = prefixes.next();
    const url = `${prefixes.url}?prefix=${prefix}&partitions=${partitions}`;
    return {
      store: await openRedisStore({ url, platform: nodePlatform }),
      url,
      async remove() {
        await prefixes.clear(prefix);
        prefixes.close();
      },
    };
  };
