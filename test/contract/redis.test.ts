/** The store on Redis keeps the contract: an empty prefix for each case. */
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { blockJob } from "../support/redis-keys.ts";
import { useSharedRedis } from "../support/use-redis.ts";
import { describeBlockedHolder } from "./blocked-holder-suite.ts";
import { describeStoreContract } from "./contract-suite.ts";

const shared = useSharedRedis();

describeStoreContract("Redis", ({ platform }) =>
  shared.prefixes.open((url, prefix) => openRedisStore({ url, prefix, platform, clock: "platform" })),
);

describeBlockedHolder("Redis", async ({ platform }) => {
  let place = "";
  const store = await shared.prefixes.open((url, prefix) => {
    place = prefix;
    return openRedisStore({ url, prefix, platform, clock: "platform" });
  });
  return { store, block: (id) => blockJob(shared.prefixes.client, place, id) };
});
