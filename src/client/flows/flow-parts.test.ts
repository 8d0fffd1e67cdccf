// Parts of flows from end to end: maps with caps and tolerances, races, chords, chains and flows inside flows.
import { describe, expect, test } from "vitest";
import { flowsOn, join, statesOf, step } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { flow } from "../../engine/flows/flow.ts";
import { handler } from "../../worker/handler.ts";

const v = useVirtualMill();
const { begin, ended, toEnd } = flowsOn(v);

describe("parts", () => {
  test("a map makes a job of each item, runs up to its cap at once, and tolerates some failures", async () => {
    const given = flow("map");
    const items = Array.from({ length: 30 }, (_, at) => (at % 15 === 7 ? "fail" : `i${at}`));
    const pages = given.map("pages", step, items, { concurrency: 4, tolerate: 2 });
    given.add("all", join, { parts: pages.results });
    const [run, steps] = await begin(given);
    const done = items.filter((item) => item !== "fail");
    expect(await v.run(run.result())).toEqual({ all: done.join("+") });
    expect(steps.most).toBeLessThanOrEqual(4);
    expect(await v.run(run.counts())).toMatchObject({ total: 2, completed: 2 });
  });

  test("one slow item of a map holds up no other, and the others go on in the order of the list", async () => {
    const given = flow("map");
    const items = ["hold", ...Array.from({ length: 20 }, (_, at) => `i${at}`)];
    given.map("pages", step, items, { concurrency: 3 });
    const [run, steps] = await begin(given);
    await v.advance(1000);
    expect(steps.ran).toEqual(items);
    expect(steps.most).toBe(3);
    expect(await v.run(statesOf(run))).toMatchObject({ "pages.0": "running", "pages.20": "completed" });
    steps.letGo();
    expect(await ended(run)).toBe("completed");
  });

  test("an item that waits for the cap of its map says so, and cancelling it frees no slot", async () => {
    const given = flow("map");
    given.map("pages", step, Array<string>(6).fill("hold"), { concurrency: 2, tolerate: 6 });
    const [run, steps] = await begin(given);
    await v.advance(1000);
    const third = `${run.id}.pages.2`;
    expect((await v.run(v.mill.explain(third)))?.why).toMatch(
      /waits for the cap of its map: "pages" lets 2 .* at once/,
    );
    await v.run(v.mill.jobs.cancel(third));
    await v.advance(1000);
    expect(steps.ran).toHaveLength(2);
    steps.letGo();
    await v.advance(1000);
    expect(await v.run(statesOf(run))).toMatchObject({
      ...{ "pages.0": "completed", "pages.1": "completed", "pages.2": "cancelled" },
      ...{ "pages.3": "running", "pages.4": "running", "pages.5": "blocked" },
    });
    await v.run(run.cancel());
    expect(await ended(run)).toBe("cancelled");
  });

  test("a node that an item adds to its map does not count toward the cap, and may come after an item that waits for it", async () => {
    const given = flow("map");
    const grow = job<number>("grow", { retry: { attempts: 1 } });
    given.map("pages", grow, [0, 1, 2, 3], { concurrency: 1 });
    const ran: string[] = [];
    const added = handler(step, async ({ input }) => (ran.push(input), input));
    const items = handler(grow, async ({ input, flow: own }) => {
      ran.push(String(input));
      if (input === 0) own?.add("behind", step, "behind", { after: "3" });
    });
    await v.run(v.mill.work([added, items]));
    const run = await v.run(v.mill.submit(given));
    expect(await ended(run)).toBe("completed");
    expect(ran).toEqual(["0", "1", "2", "3", "behind"]);
  });

  test("a map above its tolerance fails, and its other items are cancelled", async () => {
    const given = flow("map");
    const items = ["fail", "fail", ...Array.from({ length: 20 }, () => "hold")];
    given.map("pages", step, items, { tolerate: 1 });
    const { state, nodes } = await toEnd(given);
    expect(state).toBe("failed");
    expect(nodes).toMatchObject({ pages: "failed", "pages.0": "failed", "pages.21": "cancelled" });
  });

  test("a map over an empty list completes, and one over something else fails", async () => {
    const given = flow("map");
    const none = given.map("none", step, []);
    given.add("after none", join, { parts: none.results });
    const text = given.add("text", step, "text");
    given.map("wrong", step, text.result as never);
    const { nodes } = await toEnd(given);
    expect(nodes).toMatchObject({ "after none": "completed", "wrong.each": "failed", wrong: "failed" });
  });

  test("a race is decided by the first, and the others are cancelled", async () => {
    const given = flow("race");
    const quotes = given.race("quotes", [step.with("hold"), step.with("fast"), step.with("hold")]);
    given.add("buy", join, { parts: quotes.results });
    const [run] = await begin(given);
    expect(await v.run(run.result())).toEqual({ buy: "fast" });
    await v.advance(1000);
    expect(await v.run(statesOf(run))).toMatchObject({ "quotes.0": "cancelled", "quotes.2": "cancelled" });
  });

  test("a race that can no longer be won fails", async () => {
    const given = flow("race");
    given.race("quotes", [step.with("fail"), step.with("fail"), step.with("a")], { first: 2 });
    const { state, nodes } = await toEnd(given);
    expect([state, nodes["quotes"]]).toEqual(["failed", "failed"]);
  });

  test("the result of an inner flow has the results of its last nodes by name, at any depth", async () => {
    const deep = flow("deep");
    deep.add("z", step, "z");
    const inner = flow("inner");
    inner.add("b", step, "b", { after: inner.add("a", step, "a") });
    inner.group("g", [step.with("0"), step.with("1")]);
    inner.sub("deep", deep);
    const given = flow("outer");
    const sub = given.sub<{ b: string; g: string[] }>("sub", inner);
    given.add("all", join, { parts: [sub.result.b, sub.result.g[1]!] });
    given.sub("lonely", deep);
    const { run } = await toEnd(given);
    expect(await v.run(run.result())).toEqual({ all: "b+1", lonely: { z: "z" } });
    const bare = flow("bare");
    bare.sub("sub", inner);
    const result = { sub: { b: "b", g: ["0", "1"], deep: { z: "z" } } };
    expect(await v.run((await v.run(v.mill.submit(bare))).result())).toEqual(result);
  });

  test("a map whose jobs compute a group, a limit or a unique key from their item", async () => {
    const keyed = limit("keyed", { perKey: { concurrency: 1 } });
    const tenants = job<{ tenant: string }, string>("tenants", {
      ...{ group: ({ tenant }) => tenant, limits: [keyed.use({ key: ({ tenant }) => tenant })] },
      ...{ unique: { fields: ["tenant"] }, delay: "1h" },
    });
    await v.run(v.mill.work([handler(tenants, async ({ input }) => input.tenant)]));
    const given = flow("map");
    given.map("each tenant", tenants, [{ tenant: "a" }, { tenant: "b" }], { tags: ["mine"] });
    const run = await v.run(v.mill.submit(given));
    await v.advance(10_000);
    expect(await v.run(v.mill.jobs.get(`${run.id}.each tenant.1`))).toMatchObject({ group: "b" });
    expect(await v.run(run.result())).toEqual({ "each tenant": ["a", "b"] });
  });

  test("the times of a map's options may be dates", async () => {
    const given = flow("map");
    const [runAt, deadline] = [v.platform.now() + 60_000, v.platform.now() + 120_000].map(
      (at) => new Date(at),
    );
    given.map("map", step, ["a"], { runAt: runAt!, deadline: deadline! });
    const [run] = await begin(given);
    expect(await v.run(run.result())).toEqual({ map: ["a"] });
    expect(await v.run(v.mill.jobs.get(`${run.id}.map.0`))).toMatchObject({
      dueAt: runAt,
      deadlineAt: deadline,
    });
  });

  test("a chord, a chain and a flow inside the flow", async () => {
    const inner = flow("inner");
    inner.add("two", step, "b", { after: inner.add("one", step, "a") });
    const given = flow("outer");
    const chained = given.chain("chain", [step.with("1"), step.with("2"), step.with("3")]);
    const sub = given.sub("inner", inner, { after: chained });
    given.chord("chord", [step.with("x"), step.with("y")], join, (parts) => ({ parts }), { after: sub });
    const [run, { ran }] = await begin(given);
    expect(await v.run(run.result())).toMatchObject({ "chord last": "x+y" });
    expect(ran).toEqual(["1", "2", "3", "a", "b", expect.any(String), expect.any(String), "join"]);
    expect(await v.run(statesOf(run))).toMatchObject({ inner: "completed", "inner.two": "completed" });
  });
});
