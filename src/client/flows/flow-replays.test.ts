// Replays of what failed in a flow, without naming a node: what comes back with it, and what does not.
import { expect, test } from "vitest";
import { flowsOn, statesOf, step } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { flow } from "../../engine/flows/flow.ts";

const v = useVirtualMill();
const { begin, ended } = flowsOn(v);

test("in a flow that failed fast, cancelled nodes come back with the failed ones", async () => {
  const given = flow("fast", { failureMode: "fail-fast" });
  const second = given.add("second", step, "2", { after: given.add("first", step, "fail") });
  given.add("third", step, "3", { after: second });
  given.add("late", step, "late", { delay: "1h" });
  const [run, steps] = await begin(given);
  expect(await ended(run)).toBe("failed");
  expect(await v.run(statesOf(run))).toMatchObject({ third: "skipped", late: "cancelled" });
  steps.failing.clear();
  expect(await v.run(run.retry())).toEqual({ runs: 2, waits: 2 });
  expect(await v.run(run.result())).toEqual({ third: "3", late: "late" });
});

test("in a map that failed, the cancelled items come back, under its cap", async () => {
  const given = flow("lost");
  given.map("map", step, ["fail", "a", "b", "c"], { concurrency: 2 });
  const [run, steps] = await begin(given);
  expect(await ended(run)).toBe("failed");
  steps.failing.clear();
  await v.run(run.retry());
  expect(await v.run(run.result())).toEqual({ map: ["fail", "a", "b", "c"] });
  expect(steps.most).toBeLessThanOrEqual(2);
});

test("an inner flow that failed fast comes back as a whole", async () => {
  const inner = flow("inner", { failureMode: "fail-fast" });
  inner.add("bad", step, "fail");
  inner.add("beside", step, "hold");
  const given = flow("outer");
  given.add("last", step, "last", { after: given.sub("sub", inner) });
  const [run, steps] = await begin(given);
  expect(await ended(run)).toBe("failed");
  steps.failing.clear();
  await v.run(run.retry());
  await v.advance(100);
  expect(await v.run(statesOf(run))).toMatchObject({ "sub.beside": "running", last: "blocked" });
  steps.letGo();
  expect(await v.run(run.result())).toEqual({ last: "last" });
});

test("losers of a race, nodes that a join cancelled and nodes that were cancelled by hand stay as they are", async () => {
  const given = flow("mixed", { failureMode: "fail-fast" });
  given.race("race", [step.with("x"), step.with("hold")]);
  const slow = given.add("slow", step, "hold");
  const any = given.add("any", step, "any", {
    ...{ after: [given.add("quick", step, "q"), slow], join: "any", cancelRest: true },
  });
  given.add("bad", step, "fail", { after: any, delay: "1s" });
  const [run, steps] = await begin(given);
  expect(await ended(run)).toBe("failed");
  steps.failing.clear();
  expect(await v.run(run.retry())).toEqual({ runs: 1, waits: 0 });
  expect(await ended(run)).toBe("completed");
  expect(await v.run(statesOf(run))).toMatchObject({ "race.1": "cancelled", slow: "cancelled" });

  const alone = flow("alone");
  alone.add("bad", step, "fail");
  alone.add("away", step, "away", { delay: "1h" });
  const [second] = await begin(alone);
  await v.run(v.mill.jobs.cancel(`${second.id}.away`));
  expect(await ended(second)).toBe("failed");
  expect(await v.run(second.retry())).toEqual({ runs: 1, waits: 0 });
});

test("a node that was cancelled or expired before it was freed is freed or skipped by the nodes before it", async () => {
  const given = flow("cancelled");
  const first = given.add("first", step, "hold");
  given.add("good", step, "good", { after: first });
  given.add("sorry", step, "sorry", { afterFailureOf: first });
  given.add("late", step, "late", { afterFailureOf: first, deadline: "1s" });
  const [run, steps] = await begin(given);
  await v.advance(2000);
  expect(await v.run(statesOf(run))).toMatchObject({ first: "running", late: "expired" });
  await v.run(run.cancel({ pendingOnly: true }));
  steps.letGo();
  expect(await ended(run)).toBe("cancelled");
  expect(await v.run(statesOf(run))).toMatchObject({ first: "completed", sorry: "cancelled" });
  steps.ran.length = 0;
  await v.run(run.retry());
  expect(await v.run(run.result())).toEqual({ good: "good" });
  expect(await v.run(statesOf(run))).toMatchObject({ sorry: "skipped", late: "skipped" });
  expect(steps.ran).toEqual(["good"]);
});

test("a node that has expired runs again, although its deadline has passed", async () => {
  const given = flow("expired");
  given.add("n", step, "n", { delay: "1h", deadline: "1s" });
  const [run] = await begin(given);
  expect(await ended(run)).toBe("failed");
  await v.run(run.retry());
  expect(await v.run(run.result())).toEqual({ n: "n" });
});
