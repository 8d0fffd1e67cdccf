/** Random flows on Redis, compared with the reference model answer by answer; replay as in histories.test.ts. */
import { test } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { expectSameFlows } from "./flow-histories.ts";

const shared = useSharedRedis();

test("any history of flows on Redis is answered as the reference model answers it", async () => {
  await expectSameFlows(
    (platform) =>
      shared.prefixes.open((url, prefix) => openRedisStore({ url, prefix, platform, clock: "platform" })),
    100,
  );
}, 600_000);
