/**
 * All keys flushed under open stores, by an administrator's mistake: what was there is gone, and that is said; what
 * comes afterwards is run by the right handlers, and nobody is silent.
 */
import { expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { JobDefinition } from "../../src/engine/submit/job-definition.ts";
import { handler } from "../../src/worker/handler.ts";
import { aClaim, aJob, aRoute } from "../support/builders.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";
import { auditAll } from "../support/walk.ts";
import { millOn } from "../support/mill-on.ts";
import { hangMs } from "../support/hang-ms.ts";

const redis = useOwnRedis();

async function openMill(): Promise<Millrace> {
  const store = await redis.open();
  return redis.closeLater(millOn(store));
}

const [one, two, three] = ["one", "two", "three"].map((name) => job<string, string>(name)) as [
  JobDefinition<string, string, string>,
  JobDefinition<string, string, string>,
  JobDefinition<string, string, string>,
];

test("after a flush a worker runs new jobs by their own handlers, whatever comes first", async () => {
  const worker = await openMill();
  const producer = await openMill();
  const echo =
    (name: string) =>
    async ({ input }: { readonly input: string }) =>
      `${name} ran ${input}`;
  await worker.work([handler(one, echo("one")), handler(two, echo("two")), handler(three, echo("three"))]);
  const run = async (definition: typeof one, input: string): Promise<string> =>
    (await producer.enqueue(definition, input)).result({ timeout: hangMs });
  expect(await run(one, "a")).toBe("one ran a");
  expect(await run(two, "b")).toBe("two ran b");
  for (const order of [
    [three, two, one],
    [two, three, one],
  ]) {
    await redis.admin.flushall();
    for (const definition of order) expect(await run(definition, "x")).toBe(`${definition.name} ran x`);
  }
});

test("a store that was open before the flush claims, names and counts what others submit afterwards", async () => {
  const [old, other] = [await redis.open(), await redis.open()];
  await old.submit([{ jobs: [aJob({ id: "a", queue: "first" }), aJob({ id: "b", queue: "second" })] }]);
  const { epoch } = await old.describe();
  await redis.admin.flushall();
  await other.submit([{ jobs: [aJob({ id: "c", queue: "third" }), aJob({ id: "d", queue: "first" })] }]);

  const routes = ["first", "second", "third"].map((queue) => aRoute({ queue }));
  const { jobs } = await old.claim(aClaim({ offers: [{ routes, max: 5 }] }));
  expect(jobs.map(({ id, route }) => [id, route])).toEqual([
    ["c", aRoute({ queue: "third" })],
    ["d", aRoute({ queue: "first" })],
  ]);
  expect((await old.readJobs(["a", "c", "d"])).map((each) => each?.queue)).toEqual([
    undefined,
    "third",
    "first",
  ]);
  expect((await old.countJobs()).map(({ queue }) => queue).toSorted()).toEqual(["first", "third"]);
  expect((await old.readRoutes()).map(({ queue }) => queue).toSorted()).toEqual(["first", "third"]);
  expect((await old.describe()).epoch).toBeGreaterThanOrEqual(epoch);
  expect(await auditAll(old)).toEqual({});
});
