/**
 * Random histories on Redis in three partitions, compared answer by answer with three reference models put together in
 * the same way. Replay and longer looks as in histories.test.ts:
 *
 *   HISTORY_SEED=<seed> HISTORY_PATH=<path> npx vitest run test/model/histories-redis-partitions.test.ts
 */
import { describe, test } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { expectSameAnswers } from "./history-runner.ts";

const historyRuns = 60;
const commandsMax = 50;
const partitions = 3;

describe("any history on Redis in three partitions", () => {
  const shared = useSharedRedis();

  test("is answered as three reference models answer it", async () => {
    await expectSameAnswers(
      (platform) =>
        shared.prefixes.open((url, prefix) =>
          openRedisStore({ url, prefix, platform, clock: "platform", partitions }),
        ),
      historyRuns,
      commandsMax,
    );
  }, 600_000);
});
