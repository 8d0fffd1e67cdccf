/** Tags go in with the set of their jobs, where nothing looks for a tag that is there already. */
import { expect, test } from "vitest";
import { aJob } from "../../../../test/support/builders.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();

test("a job that names a tag twice is found by it once, also among others of its call", async () => {
  const store = await openPostgresStore({ url: database.url, platform: nodePlatform, schema: "tags" });
  const jobs = [aJob({ id: "a", tags: ["x", "y", "x"] }), aJob({ id: "b", tags: ["x", "x"] })];
  expect(await store.submit([{ jobs }])).toMatchObject([{ kind: "ok" }]);
  const found = await store.findJobs({ filter: { tag: "x" }, max: 10, scanMax: 100, cursor: null });
  expect(found.jobs.map(({ id, tags }) => [id, tags])).toEqual([
    ["b", ["x", "x"]],
    ["a", ["x", "y", "x"]],
  ]);
  await store.close();
});
