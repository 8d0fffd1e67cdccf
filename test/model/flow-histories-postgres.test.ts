/** Random flows on Postgres, compared with the reference model answer by answer; replay as in histories.test.ts. */
import { test } from "vitest";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { SchemaPool } from "../support/servers/postgres-shared.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { expectSameFlows } from "./flow-histories.ts";

const database = useTestDatabase();
const historyRuns = 25;

test("any history of flows on Postgres is answered as the reference model answers it", async () => {
  const schemas = new SchemaPool(database);
  await expectSameFlows(
    (platform) =>
      schemas.openCounted((place) => openPostgresStore({ ...place, platform, clock: "platform" })),
    historyRuns,
  );
}, 600_000);
