/**
 * Random histories: the same commands on the embedded store and on the reference model, compared answer by answer and
 * in the end as a whole. A failure prints fast-check's seed and path with the shortest history found; replay exactly
 * that one with
 *
 *   HISTORY_SEED=<seed> HISTORY_PATH=<path> npx vitest run test/model/histories.test.ts -t "in memory"
 *
 * and look longer with HISTORY_RUNS=10000.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { useOneThread } from "../support/one-thread.ts";
import { expectSameAnswers } from "./history-runner.ts";

const { HISTORY_SEED: seed, HISTORY_RUNS: runs } = process.env;

/**
 * Each was met at least twenty times in 300 histories when this was written: one that is missing means that the
 * commands no longer reach it.
 */
const everyKind = `
  submit created, submit existing, submit replaced, submit id-differs, submit doc-changed, repeat existing,
  settle ok, settle already, settle stale, settle gone, settle doc-changed, extend ok, extend stale, extend others,
  record ok, record stale, change ok, change changed, duty ok, put ok, put changed,
  put above, put uncountable, submit above-ceiling, settle above-ceiling, the feed promoted, the feed reclaimed,
  the feed expired, the feed replayed, the feed cancel-asked, the feed handed-back, the feed retry-scheduled, the feed deleted,
  settle arrived, entries appended, entries stale, signal ok, signal repeated, signal full, signal changed,
  journal ok, journal stale, the feed suspended, the feed resumed, the feed signalled, extend grown`
  .split(",")
  .map((kind) => kind.trim());
const historyRuns = 300;
const folder = mkdtempSync(join(tmpdir(), "millrace-histories-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("any history on sqlite is answered as the reference model answers it", () => {
  test("in memory", async () => {
    const sightings = await expectSameAnswers(
      (platform) => openSqliteStore({ path: ":memory:", platform }),
      historyRuns,
      80,
    );
    if (seed === undefined && Number(runs ?? historyRuns) >= historyRuns)
      expect(everyKind.filter((kind) => !sightings.has(kind))).toEqual([]);
  }, 600_000);

  const startThread = useOneThread();
  test("on a file, in a thread", async () => {
    let files = 0;
    const open: Parameters<typeof expectSameAnswers>[0] = (platform) =>
      openSqliteStore({ path: join(folder, `${files++}.db`), platform, executor: "thread", startThread });
    await expectSameAnswers(open, 12, 40);
  }, 600_000);
});
