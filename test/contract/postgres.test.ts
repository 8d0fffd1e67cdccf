/** The store on Postgres keeps the contract, on every version that is at hand: an empty schema for each case. */
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { postgresSources, SchemaPool } from "../support/servers/postgres-shared.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { describeStoreContract } from "./contract-suite.ts";

const skips = {
  "calls made at once in one flush are each answered as if they had come one after the other":
    "calls made at once run on several connections, and nothing but their commits orders them",
};

for (const source of postgresSources()) {
  const database = useTestDatabase(source);
  const schemas = new SchemaPool(database);

  describeStoreContract(
    source.title,
    ({ platform }) =>
      schemas.openCounted((place) => openPostgresStore({ ...place, platform, clock: "platform" })),
    skips,
  );
}
