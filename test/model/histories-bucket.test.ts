/**
 * Random histories on a bucket in memory, compared with the reference model answer by answer. After each of them the
 * store is restored from its bucket and must equal the local copy. Replay and longer looks as in histories.test.ts:
 *
 *   HISTORY_SEED=<seed> HISTORY_PATH=<path> npx vitest run test/model/histories-bucket.test.ts
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, test } from "vitest";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import { openCompared } from "../support/compared-bucket.ts";
import { expectSameFlows } from "./flow-histories.ts";
import { expectSameAnswers } from "./history-runner.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-histories-bucket-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const open: Parameters<typeof expectSameAnswers>[0] = (platform) => {
  const bucket = new MemoryBucket();
  return openCompared(() => bucket.open(), platform, folder);
};

describe("any history on a bucket", () => {
  test("is answered as the reference model answers it", async () => {
    await expectSameAnswers(open, 40, 60);
  }, 600_000);

  test("of flows is answered as the reference model answers it", async () => {
    await expectSameFlows(open, 20);
  }, 600_000);
});
