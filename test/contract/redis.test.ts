/** The store on Redis keeps the contract: an empty prefix for each case. */
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { describeStoreContract } from "./contract-suite.ts";

const shared = useSharedRedis();

describeStoreContract("Redis", ({ platform }) =>
  shared.prefixes.open((url, prefix) => openRedisStore({ url, prefix, platform, clock: "platform" })),
);
