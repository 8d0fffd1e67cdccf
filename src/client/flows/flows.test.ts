// Flows from end to end: edges and joins, failure policies, results, parts, cancel and replay.
import { describe, expect, test } from "vitest";
import { flowsOn, join, statesOf, step, Steps } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { flow } from "../../engine/flows/flow.ts";
import type { Flow } from "../../engine/flows/flow.ts";
import { handler } from "../../worker/handler.ts";

const v = useVirtualMill();

const { begin, ended, toEnd } = flowsOn(v);

describe("edges and joins", () => {
  test("a node runs after all nodes before it, and the flow's result is that of its last nodes", async () => {
    const given = flow("diamond");
    const first = given.add("first", step, "1");
    const [left, right] = [
      given.add("left", step, "2", { after: first }),
      given.add("right", step, "3", { after: "first" }),
    ];
    given.add("last", join, { parts: [left.result, right.result] });
    const [run, { ran }] = await begin(given);
    expect(await v.run(run.result())).toEqual({ last: "2+3" });
    expect([ran[0], ran.slice(1, 3).toSorted(), ran[3]]).toEqual(["1", ["2", "3"], "join"]);
    expect(await v.run(run.view())).toMatchObject({
      state: "completed",
      counts: { total: 4, live: 0, completed: 4 },
    });
  });

  test("a join of any fires once, and cancels the others if asked to", async () => {
    const given = flow("any");
    const parents = ["hold", "a", "fail"].map((input) => given.add(`p ${input}`, step, input));
    given.add("once", step, "once", { after: parents, join: "any", cancelRest: true });
    const { state, nodes, ran } = await toEnd(given);
    expect(nodes).toMatchObject({ "p hold": "cancelled", "p a": "completed", once: "completed" });
    expect(ran.filter((input) => input === "once")).toHaveLength(1);
    expect(state).toBe("failed");
  });

  test("a quorum is met by its number, and is impossible as soon as too many have failed", async () => {
    const given = flow("quorum");
    const inputs = ["a", "b", "fail", "hold"];
    const parents = inputs.map((input) => given.add(`p ${input}`, step, input));
    given.add("two", step, "two", { after: parents, join: 2 });
    given.add("four", step, "four", { after: parents, join: 4 });
    const [run, steps] = await begin(given);
    await v.advance(1000);
    // One parent still runs, but both joins are decided.
    expect(await v.run(statesOf(run))).toMatchObject({
      "p hold": "running",
      two: "completed",
      four: "skipped",
    });
    steps.letGo();
    expect(await ended(run)).toBe("failed");
  });

  test("nodes come after a failure, or after any end", async () => {
    const given = flow("conditions");
    const bad = given.add("bad", step, "fail");
    const good = given.add("good", step, "good");
    given.add("on bad", step, "x", { afterFailureOf: bad });
    given.add("on good", step, "y", { afterFailureOf: good });
    given.add("anyway", step, "z", { always: [bad, good] });
    const { nodes } = await toEnd(given);
    expect(nodes).toEqual({
      ...{ bad: "failed", good: "completed" },
      ...{ "on bad": "completed", "on good": "skipped", anyway: "completed" },
    });
  });
});

describe("failure policies", () => {
  function withFailure(): Flow {
    const given = flow("policies");
    const bad = given.add("bad", step, "fail");
    const next = given.add("next", step, "next", { after: bad });
    given.add("further", step, "further", { after: next });
    given.add("beside", step, "hold");
    return given;
  }

  test("isolate skips the nodes that depend on a failure, at any depth, and the flow fails", async () => {
    const [run, steps] = await begin(withFailure());
    await v.advance(1000);
    expect(await v.run(statesOf(run))).toEqual({
      ...{ bad: "failed", next: "skipped", further: "skipped", beside: "running" },
    });
    steps.letGo();
    await expect(v.run(run.result())).rejects.toMatchObject({
      code: "flow-failed",
      message: expect.stringContaining("bad retries-exhausted, Error: fail does not work"),
    });
  });

  test("fail-fast cancels the other nodes", async () => {
    const { state, nodes } = await toEnd(withFailure(), { failureMode: "fail-fast" });
    expect([state, nodes["beside"]]).toEqual(["failed", "cancelled"]);
  });

  test("collect completes the flow, however many nodes failed", async () => {
    const [run, steps] = await begin(withFailure(), { failureMode: "collect" });
    await v.advance(100);
    steps.letGo();
    expect(await v.run(run.result())).toMatchObject({ beside: "hold" });
    expect(await v.run(run.counts())).toMatchObject({ completed: 1, failed: 1, skipped: 2, live: 0 });
  });
});

describe("growth", () => {
  test("a handler adds nodes as it completes, and other nodes wait for them", async () => {
    const crawl = job<number, number>("crawl", { retry: { attempts: 2, backoff: 0 } });
    const given = flow("site");
    given.add("end", step, "end", { after: given.add("0", crawl, 0) });
    const steps = new Steps();
    await v.run(steps.work(v.mill));
    const crawled: number[] = [];
    const handle = handler(crawl, async ({ input, attempt, flow: own }) => {
      crawled.push(input);
      if (input < 3) own?.add(String(input + 1), crawl, input + 1, { before: "end" });
      if (attempt === 1) throw new Error("once more");
      return input;
    });
    await v.run(v.mill.work([handle]));
    const run = await v.run(v.mill.submit(given));
    expect(await v.run(run.result())).toMatchObject({ end: "end" });
    expect(crawled).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
    expect(await v.run(run.counts())).toMatchObject({ total: 5, completed: 5 });
  });
});

test("if two handlers add a node of the same name, one fails, and no node waits for the one it added", async () => {
  const adds = job<string>("adds", { retry: { attempts: 2, backoff: 0 } });
  const given = flow("both");
  for (const name of ["a", "b"]) given.add(name, adds, name);
  const steps = new Steps();
  await v.run(steps.work(v.mill));
  let begun = 0;
  const handle = handler(adds, async ({ input, flow: own, signal }) => {
    own?.add("same", step, input);
    begun += 1;
    while (begun < 2 && !signal.aborted) await Promise.resolve();
  });
  await v.run(v.mill.work([handle]));
  const run = await v.run(v.mill.submit(given));
  expect(await ended(run)).toBe("failed");
  expect(await v.run(run.counts())).toMatchObject({ total: 3, live: 0, completed: 2, failed: 1 });
  const failed = (await v.run(run.nodes())).find(({ state }) => state === "failed");
  expect(failed).toMatchObject({ reason: "retries-exhausted", error: { name: "MillraceError" } });
});

test("adding a node before one that no longer waits fails the job that adds it", async () => {
  const adds = job<string>("adds", { retry: { attempts: 1 } });
  const given = flow("late");
  given.add("g", adds, "", { after: given.add("done", step, "done") });
  const steps = new Steps();
  await v.run(steps.work(v.mill));
  const handle = handler(adds, async ({ flow: own }) => void own?.add("x", step, "x", { before: "done" }));
  await v.run(v.mill.work([handle]));
  const run = await v.run(v.mill.submit(given));
  expect(await ended(run)).toBe("failed");
  expect((await v.run(run.nodes())).find(({ name }) => name === "g")?.error?.message).toMatch(/completed/);
});

test("on four partitions a flow lies in one of them, and works as on a single one", async () => {
  await v.reopen({}, 4);
  const given = flow("spread");
  const bad = given.add("bad", step, "fail");
  given.map("pages", step, ["a", "b", "hold"], { after: bad });
  given.race("race", [step.with("x"), step.with("hold")]);
  const [run, steps] = await begin(given);
  expect(await ended(run)).toBe("failed");
  steps.failing.clear();
  await v.run(run.retry());
  await v.advance(500);
  steps.letGo();
  expect(await v.run(run.result())).toEqual({ pages: ["a", "b", "hold"], race: ["x"] });
  expect((await v.run(v.mill.flows.list())).flows.map(({ id }) => id)).toEqual([run.id]);
});

describe("cancel", () => {
  function running(): Flow {
    const given = flow("cancel");
    const first = given.add("first", step, "hold");
    given.add("second", step, "second", { after: first });
    given.map("pages", step, ["hold", "hold"], { after: first });
    given.add("late", step, "late", { delay: "1h" });
    return given;
  }

  test("cancels what waits and what runs, and the flow ends as cancelled", async () => {
    const [run] = await begin(running());
    await v.advance(100);
    await v.run(run.cancel({ reason: "not needed" }));
    await expect(v.run(run.result())).rejects.toMatchObject({ code: "job-cancelled" });
    expect(await v.run(run.view())).toMatchObject({ state: "cancelled", reason: "not needed" });
    expect(new Set(Object.values(await v.run(statesOf(run))))).toEqual(new Set(["cancelled"]));
  });

  test("of pending nodes only, lets running nodes end", async () => {
    const [run, steps] = await begin(running());
    await v.advance(100);
    expect(await v.run(run.cancel({ pendingOnly: true }))).toMatchObject({
      state: "running",
      isClosing: true,
    });
    expect(await v.run(statesOf(run))).toMatchObject({
      first: "running",
      second: "cancelled",
      late: "cancelled",
    });
    steps.letGo();
    expect(await ended(run)).toBe("cancelled");
    expect(await v.run(statesOf(run))).toMatchObject({ first: "completed" });
  });
});

describe("replay", () => {
  function chained(): Flow {
    const given = flow("replay");
    const first = given.add("first", step, "1");
    const second = given.add("second", step, "fail", { after: first });
    const beside = given.add("beside", step, "b", { after: first });
    given.add("third", step, "3", { after: [second, beside] });
    return given;
  }

  test("of failed nodes brings back the nodes they skipped, and no node that completed", async () => {
    const [run, steps] = await begin(chained());
    expect(await ended(run)).toBe("failed");
    steps.failing.clear();
    steps.ran.length = 0;
    expect(await v.run(run.retry())).toEqual({ runs: 1, waits: 1 });
    expect(await v.run(run.result())).toEqual({ third: "3" });
    expect(steps.ran).toEqual(["fail", "3"]);
    expect(await v.run(run.counts())).toMatchObject({ total: 4, completed: 4, failed: 0, skipped: 0 });
  });

  test("from a node runs the nodes after it only if asked to", async () => {
    const [run, steps] = await begin(chained());
    steps.failing.clear();
    expect(await ended(run)).toBe("completed");
    steps.ran.length = 0;
    expect(await v.run(run.retry({ nodes: "first" }))).toEqual({ runs: 1, waits: 0 });
    expect(await ended(run)).toBe("completed");
    expect(steps.ran).toEqual(["1"]);
    steps.ran.length = 0;
    expect(await v.run(run.retry({ nodes: ["beside"], withRest: true }))).toEqual({ runs: 1, waits: 1 });
    expect(await ended(run)).toBe("completed");
    expect(steps.ran).toEqual(["b", "3"]);
  });

  test("of the whole runs everything in order", async () => {
    const [run, steps] = await begin(chained());
    steps.failing.clear();
    expect(await ended(run)).toBe("completed");
    steps.ran.length = 0;
    expect(await v.run(run.retry({ nodes: "all" }))).toEqual({ runs: 1, waits: 3 });
    expect(await ended(run)).toBe("completed");
    expect([steps.ran[0], steps.ran.length, steps.ran.at(-1)]).toEqual(["1", 4, "3"]);
  });

  test("keeps the order and the cap of those that run again", async () => {
    const given = flow("capped");
    const inputs = Array.from({ length: 20 }, () => "fail");
    given.map("pages", step, inputs, { concurrency: 3, tolerate: 20 });
    given.add("after", step, "fail", { always: given.add("before", step, "fail") });
    const [run, steps] = await begin(given);
    await v.run(run.result().catch(() => undefined));
    steps.failing.clear();
    steps.most = 0;
    steps.ran.length = 0;
    expect(await v.run(run.retry())).toEqual({ runs: 21, waits: 1 });
    expect(await ended(run)).toBe("completed");
    expect(steps.ran).toHaveLength(22);
    // Three of the map, and one of the two others.
    expect(steps.most).toBeLessThanOrEqual(4);
  });

  test("of a cancelled flow runs the cancelled nodes", async () => {
    const given = flow("cancelled");
    given.add("second", step, "2", { after: given.add("first", step, "hold") });
    const [run, steps] = await begin(given);
    await v.advance(100);
    await v.run(run.cancel());
    expect(await ended(run)).toBe("cancelled");
    await v.run(run.retry());
    await v.advance(100);
    steps.letGo();
    expect(await v.run(run.result())).toEqual({ second: "2" });
  });

  test("is refused for a node that has not ended, and for one that does not exist", async () => {
    const [run] = await begin(flowOf("hold"));
    await v.advance(100);
    await expect(v.run(run.retry({ nodes: "n" }))).rejects.toMatchObject({ code: "job-changed" });
    await expect(v.run(run.retry({ nodes: "x" }))).rejects.toMatchObject({ code: "job-not-found" });
    await v.run(run.cancel({ pendingOnly: true }));
    await expect(v.run(run.retry())).rejects.toMatchObject({ code: "flow-closed" });
    await expect(v.run(v.mill.flows.retry("nobody"))).rejects.toMatchObject({ code: "flow-not-found" });
  });
});

const flowOf = (input: string): Flow => {
  const given = flow("one");
  given.add("n", step, input);
  return given;
};
