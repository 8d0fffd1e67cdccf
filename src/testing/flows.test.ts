// Flows in tests of applications: one drain brings them to their end.
import { afterEach, expect, test } from "vitest";
import { flow } from "../engine/flows/flow.ts";
import type { Flow } from "../engine/flows/flow.ts";
import { job } from "../engine/submit/job-definition.ts";
import { handler } from "../worker/handler.ts";
import { testMillrace } from "./index.ts";
import type { TestMillrace } from "./index.ts";

const step = job<string, string>("step", { retry: { attempts: 1 } });
const list = job<readonly string[], readonly string[]>("list");

let t: TestMillrace;
afterEach(() => t.close());

async function drained(build: (given: Flow) => void): Promise<Awaited<ReturnType<TestMillrace["submit"]>>> {
  t = await testMillrace({
    handlers: [
      handler(step, async ({ input }) => {
        if (input === "fail") throw new Error("as asked");
        return input;
      }),
      handler(list, async ({ input }) => input),
    ],
  });
  const given = flow("given");
  build(given);
  const run = await t.submit(given);
  await t.drain();
  return run;
}

test("one drain ends a flow with a failed node, and all that is lost with it", async () => {
  const run = await drained((given) => {
    given.chain("chain", [step.with("fail"), step.with("2"), step.with("3"), step.with("4")]);
    given.add("rescue", step, "5", { afterFailureOf: "chain 1" });
    given.add("after", step, "6", { always: "chain 4" });
    given.group("pair", [step.with("7")], { after: "chain 2" });
    given.add("last", step, "8", { always: "pair" });
  });
  expect(await run.view()).toMatchObject({ state: "failed", counts: { live: 0, failed: 1, completed: 3 } });
  await expect(run.result()).rejects.toMatchObject({ code: "flow-failed" });
});

test("result() of a flow or a job that nobody drains says so, and waits for a drain that comes later", async () => {
  const run = await drained((given) => void given.add("first", step, "1"));
  const own = flow("own");
  own.add("first", step, "2");
  const [job, more, late] = [
    await t.enqueue(step, "3"),
    await t.enqueueMany([step.with("4")]),
    await t.submit(own),
  ];
  const undrained = { code: "wait-timeout", message: expect.stringContaining("t.drain()") };
  await Promise.all(
    [job, more[0], late].map((waiting) => expect(waiting.result()).rejects.toMatchObject(undrained)),
  );
  const waits = Promise.all([job.result(), more[0].result(), late.result(), run.result()]);
  await t.drain();
  expect(await waits).toEqual(["3", "4", { first: "2" }, { first: "1" }]);
});

test("one drain ends maps, empty ones and ones with a cap too", async () => {
  const run = await drained((given) => {
    const items = given.add("items", list, ["a", "b", "c"]);
    const none = given.add("none", list, []);
    given.map("each", step, items.result, { concurrency: 1 });
    given.map("empty", step, none.result);
    given.add("after", step, "after", { after: given.map("known", step, [], { after: "empty" }) });
  });
  expect(await run.view()).toMatchObject({ state: "completed", counts: { live: 0 } });
  expect(await run.result()).toEqual({ each: ["a", "b", "c"], after: "after" });
});

test("one drain ends a race, a flow inside the flow and one that fails fast", async () => {
  const run = await drained((given) => {
    const inner = flow("inner", { failureMode: "fail-fast" });
    inner.add("bad", step, "fail");
    inner.add("late", step, "late", { delay: "1h" });
    const race = given.race("race", [step.with("1"), step.with("2")]);
    given.add("last", step, "last", { always: [given.sub("inner", inner), race] });
  });
  expect(await run.view()).toMatchObject({ state: "failed", counts: { live: 0, completed: 2, failed: 1 } });
});
