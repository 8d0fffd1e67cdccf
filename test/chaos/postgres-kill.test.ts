/** Processes killed and frozen on one Postgres database. */
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { createTestDatabase, postgresSources } from "../support/servers/postgres-shared.ts";
import type { PostgresSource } from "../support/servers/postgres-shared.ts";
import { describeKills } from "./kill-suite.ts";

describeKills({
  title: "processes on one Postgres database",
  isSerial: false,
  jobs: 700,
  faults: 14,
  open: async () => {
    const database = await createTestDatabase(postgresSources()[0] as PostgresSource);
    const { url } = database;
    return {
      store: await openPostgresStore({ url, platform: nodePlatform, poolMax: 2 }),
      url,
      remove: () => database.drop(),
    };
  },
});
