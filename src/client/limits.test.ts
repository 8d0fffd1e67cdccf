import { describe, expect, test } from "vitest";
import { millOn } from "../../test/support/mill-on.ts";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../test/support/virtual/virtual-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import { limit } from "../engine/limits/limit-definition.ts";
import { limitGateKey } from "../model/limits/gate.ts";
import { handler } from "../worker/handler.ts";

const coded = (code: string) => expect.objectContaining({ code });
const v = useVirtualMill();

/** Handlers that run until the test ends them, and how many ran at once. */
function heldOpen() {
  const ends: (() => void)[] = [];
  const seen = { running: 0, most: 0, started: 0 };
  const run = async (): Promise<void> => {
    seen.running += 1;
    seen.started += 1;
    seen.most = Math.max(seen.most, seen.running);
    const { promise, resolve } = deferred();
    ends.push(resolve);
    await promise;
    seen.running -= 1;
  };
  return { seen, run, endOne: () => ends.shift()?.() };
}

describe("a limit on how many run at once", () => {
  const slack = limit("slack", { concurrency: 2 });
  const send = job<number>("send", { limits: [slack] });

  test("holds over two workers of one store, and an end lets the next start at once", async () => {
    const { seen, run, endOne } = heldOpen();
    await v.run(v.mill.enqueueMany([1, 2, 3, 4, 5].map((n) => send.with(n))));
    for (let count = 0; count < 2; count++)
      await v.run(v.mill.work([handler(send, run)], { concurrency: 5 }));
    await v.advance(100);
    expect(seen).toMatchObject({ running: 2, started: 2 });
    endOne();
    await v.advance(10);
    expect(seen).toMatchObject({ running: 2, started: 3 });
    for (let count = 0; count < 4; count++) {
      endOne();
      await v.advance(10);
    }
    expect(seen).toEqual({ running: 0, most: 2, started: 5 });
  });

  test("shows what it holds back: in the list, in explain and in its state", async () => {
    const { run, endOne } = heldOpen();
    await v.run(v.mill.work([handler(send, run)], { concurrency: 5 }));
    const handles = await v.run(v.mill.enqueueMany([1, 2, 3].map((n) => send.with(n))));
    await v.advance(100);
    const held = { by: "limit", name: "slack", use: { held: 2, cap: 2 }, until: null };
    const { jobs } = await v.run(v.mill.jobs.list({ state: "ready" }));
    expect(jobs.map((each) => each.held)).toEqual([held]);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 1, held: 1, running: 2 } });
    expect(await v.run(v.mill.jobs.get(jobs[0]!.id))).toMatchObject({ state: "ready", held });
    expect(await v.run(v.mill.explain(jobs[0]!.id))).toMatchObject({
      ...{ state: "ready", held, why: 'The limit "slack" is full: 2 of 2 are held.', expectedAt: null },
    });
    expect(await v.run(v.mill.limits.state("slack"))).toEqual({
      ...{ name: "slack", concurrency: 2, rate: null, perKey: null, learned: null, defined: null },
      ...{ held: 2, free: 0, coolingUntil: null },
    });
    for (const _ of handles) {
      endOne();
      await v.advance(10);
    }
    expect((await v.run(v.mill.limits.list())).map(({ name, held: permits }) => [name, permits])).toEqual([
      ["slack", 0],
    ]);
  });

  test("weighs jobs, and a heavy one waits until all its permits are free", async () => {
    const { seen, run, endOne } = heldOpen();
    const heavy = job<number>("heavy", { limits: [slack.use({ weight: 2 })] });
    await v.run(v.mill.work([handler(send, run), handler(heavy, run)], { concurrency: 5 }));
    await v.run(v.mill.enqueue(send, 1));
    await v.advance(10);
    await v.run(v.mill.enqueue(heavy, 2));
    await v.advance(6000);
    expect(seen.started).toBe(1);
    endOne();
    await v.advance(10);
    expect(seen.started).toBe(2);
    expect((await v.run(v.mill.limits.state("slack"))).held).toBe(2);
    endOne();
  });

  test("given at the enqueue is learned by a worker of another process that cannot compute the route", async () => {
    const { seen, run, endOne } = heldOpen();
    const plain = job<number>("plain");
    const others = [millOn(v.store, {}, v.platform), millOn(v.store, {}, v.platform)] as const;
    await v.run(others[0].enqueue(plain, 0, { limits: [slack] }));
    await v.run(v.mill.work([handler(plain, run)], { concurrency: 5 }));
    await v.advance(10);
    expect(seen.started).toBe(1);
    await v.run(others[1].enqueue(plain, 1, { limits: [slack.use({ weight: 2 })] }));
    endOne();
    // A worker waits a moment between two reads of its routes.
    await v.advance(300);
    expect(seen.started).toBe(2);
    endOne();
  });
});

describe("a rate", () => {
  test("lets a burst start and then one per step, woken by the gate's own clock", async () => {
    const api = limit("api", { rate: { max: 60, per: "1m", burst: 2 } });
    const call = job<number>("call", { limits: [api] });
    const starts: number[] = [];
    await v.run(
      v.mill.work([handler(call, async () => void starts.push(v.platform.now()))], { concurrency: 5 }),
    );
    const begunAt = v.platform.now();
    await v.run(v.mill.enqueueMany([1, 2, 3, 4].map((n) => call.with(n))));
    const { jobs } = await v.run(v.mill.jobs.list({ state: "ready" }));
    await v.advance(3000);
    expect(starts.map((at) => Math.round((at - begunAt) / 100) * 100)).toEqual([0, 0, 1000, 2000]);
    expect(jobs.length).toBeGreaterThan(0);
  });

  test("says how long it will hold a job back", async () => {
    const api = limit("api", { rate: { max: 1, per: "1m" } });
    const call = job<number>("call", { limits: [api] });
    await v.run(v.mill.work([handler(call, async () => undefined)]));
    const [first, second] = await v.run(v.mill.enqueueMany([call.with(1), call.with(2)]));
    await v.run(first.result());
    const explained = await v.run(v.mill.explain(second.id));
    expect(explained).toMatchObject({ held: { by: "limit", name: "api", use: null } });
    expect(explained!.expectedAt!.getTime() - v.platform.now()).toBeGreaterThan(59_000);
  });
});

describe("definitions in code", () => {
  const send = (...given: Parameters<typeof limit>) => job<number>("send", { limits: [limit(...given)] });

  test("reach the store with the first enqueue, once per process", async () => {
    await v.run(v.mill.enqueue(send("slack", { concurrency: 3 }), 1));
    const made = await v.run(v.store.readGates({ keys: [limitGateKey("slack")] }));
    expect(made.gates).toMatchObject([{ cap: 3, version: 1 }]);
    await v.run(v.mill.enqueue(send("slack", { concurrency: 3 }), 1));
    const again = await v.run(v.store.readGates({ keys: [limitGateKey("slack")] }));
    expect(again.gates).toMatchObject([{ version: 1 }]);
  });

  test("are defaults: an edit holds in all processes until the code itself changes", async () => {
    await v.run(v.mill.enqueue(send("slack", { concurrency: 3 }), 1));
    const edited = await v.run(v.mill.limits.edit("slack", { concurrency: 9, rate: { max: 5, per: "1s" } }));
    expect(edited).toMatchObject({ concurrency: 9, rate: { max: 5, perMs: 1000, burst: 5 } });
    expect(edited.defined).toEqual({ concurrency: 3, rate: null });
    await v.run(millOn(v.store, {}, v.platform).enqueue(send("slack", { concurrency: 3 }), 2));
    expect(await v.run(v.mill.limits.state("slack"))).toMatchObject({ concurrency: 9 });
    await v.run(millOn(v.store, {}, v.platform).enqueue(send("slack", { concurrency: 4 }), 3));
    expect(await v.run(v.mill.limits.state("slack"))).toMatchObject({
      concurrency: 4,
      rate: null,
      defined: null,
    });
  });

  test("come back with a reset", async () => {
    await v.run(v.mill.limits.define(limit("slack", { concurrency: 3 })));
    await v.run(v.mill.limits.edit("slack", { concurrency: null }));
    await v.run(v.mill.limits.throttle("slack", { retryAfter: "1h" }));
    expect(await v.run(v.mill.limits.state("slack"))).toMatchObject({ concurrency: null, free: 0 });
    expect(await v.run(v.mill.limits.reset("slack"))).toMatchObject({
      concurrency: 3,
      coolingUntil: null,
      free: 3,
    });
  });

  test("two of one name in one process are refused before anything is written", async () => {
    await v.run(v.mill.enqueue(send("slack", { concurrency: 3 }), 1));
    await expect(v.run(v.mill.enqueue(send("slack", { concurrency: 4 }), 2))).rejects.toThrow(
      coded("limit-conflict"),
    );
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 1 } });
  });
});

describe("bad limits are refused", () => {
  const slack = limit("slack", { concurrency: 2, rate: { max: 10, per: "1s", burst: 5 } });

  test.each([
    ["a weight of 0", () => slack.use({ weight: 0 }), "invalid-option"],
    ["a weight above the cap", () => slack.use({ weight: 3 }), "invalid-option"],
    [
      "a weight above the burst",
      () => limit("r", { rate: { max: 9, per: 1, burst: 1 } }).use({ weight: 2 }),
      "invalid-option",
    ],
    ["a key that is not a name", () => slack.use({ key: "a\nb" }), "invalid-name"],
    ["a limit without a name", () => limit(""), "invalid-name"],
    ["the same limit twice", () => job("a", { limits: [slack, slack.use()] }), "invalid-option"],
    [
      "nine limits",
      () => job("a", { limits: Array.from("123456789", (name) => limit(name)) }),
      "invalid-option",
    ],
    ["a name instead of a limit", () => job("a", { limits: ["slack"] as never }), "invalid-option"],
    ["a value that is not a list", () => job("a", { limits: slack as never }), "invalid-option"],
  ])("%s", (_what, act, code) => {
    expect(act).toThrow(coded(code));
  });

  test("and so is an unknown one", async () => {
    const acts = [
      () => v.mill.limits.state("nobody"),
      () => v.mill.limits.edit("nobody", { concurrency: 1 }),
      () => v.mill.limits.reset("nobody"),
      () => v.mill.limits.throttle("nobody"),
    ];
    for (const act of acts) await expect(v.run(act())).rejects.toThrow(coded("unknown-limit"));
    await expect(v.run(v.mill.limits.define("slack" as never))).rejects.toThrow(coded("invalid-option"));
    expect(await v.run(v.mill.limits.list())).toEqual([]);
  });
});
