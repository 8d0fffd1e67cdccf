/**
 * Random histories on Postgres, compared with the reference model answer by answer. Replay and longer looks as in
 * histories.test.ts:
 *
 *   HISTORY_SEED=<seed> HISTORY_PATH=<path> npx vitest run test/model/histories-postgres.test.ts
 */
import { describe, test } from "vitest";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { postgresSources, SchemaPool } from "../support/servers/postgres-shared.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { expectSameAnswers } from "./history-runner.ts";

const historyRuns = 40;
const commandsMax = 50;

describe.each(postgresSources())("any history on $title", (source) => {
  const database = useTestDatabase(source);

  test("is answered as the reference model answers it", async () => {
    const schemas = new SchemaPool(database);
    await expectSameAnswers(
      (platform) =>
        schemas.openCounted((place) => openPostgresStore({ ...place, platform, clock: "platform" })),
      historyRuns,
      commandsMax,
    );
  }, 600_000);
});
