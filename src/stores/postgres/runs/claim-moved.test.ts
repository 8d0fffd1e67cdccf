/** A claim removes exactly the rows that it leases, or nothing of it happens. */
import { expect, test } from "vitest";
import { aClaim, aJob, aRoute } from "../../../../test/support/builders.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();

test("a claim whose rows stay among the waiting is an error and leases nothing", async () => {
  const store = await openPostgresStore({ url: database.url, platform: nodePlatform, schema: "moved" });
  await store.submit([{ jobs: [aJob({ id: "a" }), aJob({ id: "b" })] }]);
  await database.query(`CREATE FUNCTION moved.keep() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RETURN CASE WHEN old.id = 'b' THEN NULL ELSE old END; END $$`);
  await database.query(
    "CREATE TRIGGER keep BEFORE DELETE ON moved.waiting FOR EACH ROW EXECUTE FUNCTION moved.keep()",
  );
  const claim = aClaim({ offers: [{ routes: [aRoute()], max: 10 }] });
  await expect(store.claim(claim)).rejects.toMatchObject({ code: "store-corrupt", cause: { code: "MR004" } });
  expect(await database.query("SELECT 1 FROM moved.leased")).toEqual([]);
  await database.query("DROP TRIGGER keep ON moved.waiting");
  expect((await store.claim(claim)).jobs.map(({ id }) => id)).toEqual(["a", "b"]);
  await store.close();
});
