/** Each job of a submit keeps its own fields, and those that it shares with the other jobs of its plan. */
import { expect, test } from "vitest";
import { aJob } from "../../../../test/support/builders.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
const large = "x".repeat(2000);

test("jobs of one plan keep what they share and their own inputs, the first one's large one too, whatever is beside them", async () => {
  const store = await openPostgresStore({ url: database.url, platform: nodePlatform, schema: "alike" });
  const plan = aJob({
    id: "plan",
    policy: "p",
    meta: "m",
    tags: ["t"],
    due: { inMs: 60_000 },
    rankBase: 5,
    ttlMs: 70_000,
  });
  const inputs = [large, "1", "", large, "\u001e"];
  const jobs = inputs.map((input, at) => ({ ...plan, id: `job-${at}`, input }));
  const keyed = aJob({ id: "other", name: "other", digest: "d", input: "o" });
  expect(await store.submit([{ jobs: [keyed] }, { jobs }])).toMatchObject([{ kind: "ok" }, { kind: "ok" }]);
  const read = await store.readJobs(["other", ...jobs.map(({ id }) => id)]);
  expect(read.map((job) => [job?.name, job?.input])).toEqual([
    ["other", "o"],
    ...inputs.map((input) => [plan.name, input]),
  ]);
  for (const job of read.slice(1))
    expect(job).toMatchObject({ policy: "p", meta: "m", tags: ["t"], state: "scheduled" });
  const due = read.slice(1).map((job) => Number(job?.dueAt) - Number(job?.createdAt));
  expect(new Set(due)).toEqual(new Set([60_000]));
  await store.close();
});

test("jobs of several plans in one call keep their own", async () => {
  const store = await openPostgresStore({ url: database.url, platform: nodePlatform, schema: "unlike" });
  const jobs = [
    aJob({ id: "a", input: "1" }),
    aJob({ id: "b", input: "2", policy: "p" }),
    aJob({ id: "c", input: "3", name: "other", meta: "m" }),
    aJob({ id: "d", input: "4", due: { inMs: 60_000 } }),
  ];
  await store.submit(jobs.map((job) => ({ jobs: [job] })));
  const read = await store.readJobs(jobs.map(({ id }) => id));
  expect(read.map((job) => [job?.name, job?.policy, job?.meta, job?.state])).toEqual([
    [jobs[0]?.name, null, null, "ready"],
    [jobs[0]?.name, "p", null, "ready"],
    ["other", null, "m", "ready"],
    [jobs[0]?.name, null, null, "scheduled"],
  ]);
  await store.close();
});
