/** Processes killed and frozen on one Redis server. */
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { RedisPrefixes, redisUrl } from "../support/redis-shared.ts";
import { describeKills } from "./kill-suite.ts";

describeKills({
  title: "processes on one Redis server",
  isSerial: true,
  joinsEvents: true,
  jobs: 700,
  faultsMs: 6000,
  open: async () => {
    const prefixes = new RedisPrefixes(await redisUrl());
    const prefix = prefixes.next();
    const url = `${prefixes.url}?prefix=${prefix}`;
    return {
      store: await openRedisStore({ url, platform: nodePlatform }),
      url,
      async remove() {
        await prefixes.clear(prefix);
        prefixes.close();
      },
    };
  },
});
