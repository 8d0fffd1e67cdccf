/**
 * The simulation on a real Postgres with two clients, as two machines would have: few seeds, half of them with one call
 * at a time, half with calls that meet at the server, where no invariant of one order holds. MILLRACE_SEED and
 * MILLRACE_SEEDS as in run-seed.ts.
 */
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import type { Store } from "../../src/store/store.ts";
import { SchemaPool } from "../support/servers/postgres-shared.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { describeFlowCrashes } from "./flow-crash-suite.ts";
import { describeRealSimulation } from "./real-suite.ts";
import type { RealSubject } from "./real-suite.ts";
import { describeRunCrashes } from "./run-crash-suite.ts";

const schemas = new SchemaPool(useTestDatabase());

const open: RealSubject["open"] = async (platform) => {
  const clients: Store[] = [];
  const first = await schemas.open(async (place) => {
    const openHere = (): Promise<Store> => openPostgresStore({ ...place, platform, clock: "platform" });
    clients.push(await openHere());
    return openHere();
  });
  return [first, ...clients];
};

describeRealSimulation({ title: "Postgres", seeds: 6, open });
describeFlowCrashes({ title: "Postgres", open, crashes: 2 });
describeRunCrashes({ title: "Postgres", open, crashes: 1 });
