/**
 * Random histories on Redis, compared with the reference model answer by answer. Replay and longer looks as in histories.test.ts:
 *
 *   HISTORY_SEED=<seed> HISTORY_PATH=<path> npx vitest run test/model/histories-redis.test.ts
 */
import { afterAll, beforeAll, describe, test } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { redisUrl, RedisPrefixes } from "../support/redis-shared.ts";
import { expectSameAnswers } from "./history-runner.ts";

const historyRuns = 100;
const commandsMax = 50;

describe("any history on Redis", () => {
  let prefixes: RedisPrefixes;
  beforeAll(async () => {
    prefixes = new RedisPrefixes(await redisUrl());
  }, 180_000);
  afterAll(() => prefixes.close());

  test("is answered as the reference model answers it", async () => {
    await expectSameAnswers(
      (platform) =>
        prefixes.open((url, prefix) => openRedisStore({ url, prefix, platform, clock: "platform" })),
      historyRuns,
      commandsMax,
    );
  }, 600_000);
});
