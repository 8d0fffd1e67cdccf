/**
 * Random histories on Redis, compared with the reference model answer by answer. Replay and longer looks as in
 * histories.test.ts:
 *
 *   HISTORY_SEED=<seed> HISTORY_PATH=<path> npx vitest run test/model/histories-redis.test.ts
 */
import { describe, test } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { expectSameAnswers } from "./history-runner.ts";

const historyRuns = 100;
const commandsMax = 50;

describe("any history on Redis", () => {
  const shared = useSharedRedis();

  test("is answered as the reference model answers it", async () => {
    await expectSameAnswers(
      (platform) =>
        shared.prefixes.open((url, prefix) => openRedisStore({ url, prefix, platform, clock: "platform" })),
      historyRuns,
      commandsMax,
    );
  }, 600_000);
});
