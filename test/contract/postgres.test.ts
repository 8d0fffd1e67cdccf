/** The store on Postgres keeps the contract, on every version that is at hand: an empty schema for each case. */
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { postgresSources, SchemaPool } from "../support/postgres-shared.ts";
import { useTestDatabase } from "../support/use-postgres.ts";
import { stateCodes } from "../../src/model/job-state.ts";
import { describeBlockedHolder } from "./blocked-holder-suite.ts";
import { describeStoreContract } from "./contract-suite.ts";

const { blocked } = stateCodes;

const skips = {
  "calls made at once in one turn are each answered as if they had come one after the other":
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

  describeBlockedHolder(source.title, async ({ platform }) => {
    let schema = "";
    const store = await schemas.open((place) => {
      ({ schema } = place);
      return openPostgresStore({ ...place, platform, clock: "platform" });
    });
    const block = async (id: string): Promise<void> => {
      const [waiting] = await database.query(`SELECT route, state FROM ${schema}.waiting WHERE id = $1`, [
        id,
      ]);
      const { route, state } = waiting!;
      await database.query(`UPDATE ${schema}.waiting SET state = ${blocked} WHERE id = $1`, [id]);
      await database.query(`INSERT INTO ${schema}.tally VALUES ($1, $2, -1), ($1, ${blocked}, 1)`, [
        route,
        state,
      ]);
    };
    return { store, block };
  });
}
