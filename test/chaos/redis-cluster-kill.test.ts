/** Processes killed and frozen on Redis in four partitions. */
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { RedisPrefixes, redisUrl } from "../support/redis-shared.ts";
import { describeKills } from "./kill-suite.ts";

describeKills({
  title: "processes on Redis in four partitions",
  isSerial: false,
  joinsEvents: true,
  jobs: 400,
  faultsMs: 4000,
  open: async () => {
    const prefixes = new RedisPrefixes(await redisUrl());
    const prefix = prefixes.next();
    const url = `${prefixes.url}?prefix=${prefix}&partitions=4`;
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
