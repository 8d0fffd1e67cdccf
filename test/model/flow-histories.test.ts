/**
 * Random flows on the embedded store, compared with the reference model answer by answer; replay as in
 * histories.test.ts.
 */
import { expect, test } from "vitest";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { expectSameFlows } from "./flow-histories.ts";

const { HISTORY_SEED: seed, HISTORY_RUNS: runs } = process.env;
const historyRuns = 150;
/** Each was met at least five times in 150 histories when this was written. */
const everyKind = `
  submit key-held, plain replaced, settle ok, settle already, settle flow-closed, settle doc-changed, change ok,
  change changed, the feed freed, the feed skipped, the feed replayed, the feed deleted, what is deferred deferred`
  .split(",")
  .map((kind) => kind.trim());

test("any history of flows on sqlite is answered as the reference model answers it", async () => {
  const sightings = await expectSameFlows(
    (platform) => openSqliteStore({ path: ":memory:", platform }),
    historyRuns,
  );
  if (seed === undefined && Number(runs ?? historyRuns) >= historyRuns)
    expect(everyKind.filter((kind) => !sightings.has(kind))).toEqual([]);
}, 600_000);
