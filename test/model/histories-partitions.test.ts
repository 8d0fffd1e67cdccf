/**
 * Random histories on SQLite in three partitions, compared answer by answer with three reference models put together in
 * the same way: gates, groups and keys over partitions. Replay and longer looks as in histories.test.ts:
 *
 *   HISTORY_SEED=<seed> HISTORY_PATH=<path> npx vitest run test/model/histories-partitions.test.ts
 */
import { describe, test } from "vitest";
import { partitionedStore } from "../../src/store/partitioned/partitioned-store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { expectSameAnswers } from "./history-runner.ts";

const historyRuns = 100;
const commandsMax = 60;
const partitions = 3;

describe("any history on SQLite in three partitions", () => {
  test("is answered as three reference models answer it", async () => {
    await expectSameAnswers(
      async (platform) => {
        const open = () => openSqliteStore({ path: ":memory:", platform });
        return partitionedStore(await Promise.all(Array.from({ length: partitions }, open)), { platform });
      },
      historyRuns,
      commandsMax,
    );
  }, 600_000);
});
