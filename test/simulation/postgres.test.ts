/**
 * The simulation on a real Postgres with two clients, as two machines would have: few seeds, half of them with one call
 * at a time, half with calls that meet at the server, where no invariant of one order holds. MILLRACE_SEED and
 * MILLRACE_SEEDS as in run-seed.ts.
 */
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { SchemaPool } from "../support/postgres-shared.ts";
import { useTestDatabase } from "../support/use-postgres.ts";
import { describeRealSimulation } from "./real-suite.ts";

const schemas = new SchemaPool(useTestDatabase());

describeRealSimulation({
  title: "Postgres",
  seeds: 6,
  open: async (platform) => {
    const places: { url: string; schema: string }[] = [];
    const openOn = (url: string, schema: string): ReturnType<typeof openPostgresStore> =>
      openPostgresStore({ url, schema, platform, clock: "platform", poolMax: 4 });
    const first = await schemas.open((url, schema) => {
      places.push({ url, schema });
      return openOn(url, schema);
    });
    const [{ url, schema }] = places as [{ url: string; schema: string }];
    return [first, await openOn(url, schema)];
  },
});
