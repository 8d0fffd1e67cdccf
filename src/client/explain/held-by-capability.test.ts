// A capability that no worker offers: how explain, lists and counts show it, and when the no-handler duty ends the job.
import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";
import type { WorkerOptions } from "../../worker/worker-settings.ts";
import { heldByCapability } from "./held-by-capability.ts";

const hour = 3_600_000;
const render = job<number, string>("render", { requires: ["eu", "gpu"] });
const other = job<number>("other");

const v = useVirtualMill({ noHandlerGrace: "2h" });

function work(options: WorkerOptions = {}) {
  return v.run(v.mill.work([handler(render, async () => "done"), handler(other, async () => 1)], options));
}

const explain = async (id: string) => (await v.run(v.mill.explain(id)))!;

describe("a job whose capabilities no worker offers", () => {
  test("is ready and held, and explain says what is missing", async () => {
    const { id } = await v.run(v.mill.enqueue(render, 1));
    expect(await explain(id)).toMatchObject({
      held: null,
      why: 'No live worker serves the queue "default".',
    });
    await v.run(v.mill.work([handler(other, async () => 1)], { capabilities: ["eu", "gpu"] }));
    expect(await explain(id)).toMatchObject({
      held: null,
      why: 'No live worker of the queue "default" has a handler for "render".',
    });
    await work();
    expect(await explain(id)).toMatchObject({
      state: "ready",
      held: { by: "capability", missing: ["eu", "gpu"] },
      why: 'No live worker of the queue "default" with a handler for "render" offers all of "eu" and "gpu", which it requires.',
      readyLikeThis: 1,
    });
    await work({ capabilities: ["eu"] });
    expect(await explain(id)).toMatchObject({
      held: { by: "capability", missing: ["gpu"] },
      why: 'No live worker of the queue "default" with a handler for "render" offers "gpu", which it requires.',
    });
    await work({ capabilities: ["gpu"] });
    expect((await explain(id)).held).toEqual({ by: "capability", missing: ["eu", "gpu"] });
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ state: "ready", requires: ["eu", "gpu"] });
  });

  test("is shown as held by lists and counts, and others are not", async () => {
    await work({ capabilities: ["eu"] });
    const held = await v.run(v.mill.enqueue(render, 1));
    await v.run(v.mill.enqueue(render, 2, { delay: "1h" }));
    const unserved = await v.run(v.mill.enqueue(other, 3, { queue: "elsewhere", requires: ["gpu"] }));
    const missing = { by: "capability", missing: ["gpu"] };
    expect((await v.run(v.mill.jobs.get(held.id)))?.held).toEqual(missing);
    const { jobs } = await v.run(v.mill.jobs.list());
    expect(jobs.map((each) => [each.id, each.held]).filter(([, by]) => by !== null)).toEqual([
      [held.id, missing],
    ]);
    const found: unknown[] = [];
    const walk = async (): Promise<void> => {
      for await (const each of v.mill.jobs.find({ state: "ready" })) found.push([each.id, each.held]);
    };
    await v.run(walk());
    expect(found).toEqual([
      [unserved.id, null],
      [held.id, missing],
    ]);
    expect(await v.run(v.mill.jobs.counts())).toEqual({
      default: { ready: 1, held: 1, scheduled: 1 },
      elsewhere: { ready: 1 },
    });
  });

  test("is no longer held once a worker offers them, busy or not", async () => {
    const gate = Promise.withResolvers<string>();
    await work();
    const able = { capabilities: ["gpu", "eu"], concurrency: 1 };
    await v.run(v.mill.work([handler(render, () => gate.promise)], able));
    const first = await v.run(v.mill.enqueue(render, 1));
    const { id } = await v.run(v.mill.enqueue(render, 2));
    await v.run(v.mill.enqueue(render, 3, { requires: ["ssd"] }));
    await v.advance(1000);
    expect(await explain(id)).toMatchObject({
      held: null,
      why: 'It waits for a free slot of a worker that serves the queue "default" and has a handler for "render" and offers "eu" and "gpu"; 1 like it is running.',
      readyLikeThis: 1,
    });
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 2, held: 1, running: 1 } });
    gate.resolve("now");
    expect(await v.run(first.result())).toBe("now");
  });
});

describe("the no-handler duty", () => {
  test("ends a job only if no worker offered what it requires during the whole grace", async () => {
    await work();
    const lost = await v.run(v.mill.enqueue(render, 1));
    const plain = await v.run(v.mill.enqueue(render, 2, { requires: [], delay: "1d" }));
    await v.advance(1.9 * hour);
    expect(await v.run(lost.peek())).toEqual({ status: "pending" });
    await v.advance(0.2 * hour);
    expect(await v.run(lost.peek())).toEqual({ status: "ended", state: "failed", reason: "no-handler" });
    expect(await v.run(plain.peek())).toEqual({ status: "pending" });
  });

  test("begins its grace again after an able worker was there, however long the job has waited", async () => {
    await work();
    const gate = Promise.withResolvers<string>();
    const busy = { capabilities: ["gpu", "eu"], concurrency: 1, shutdownGrace: 0, abortGrace: 0 };
    const able = await v.run(v.mill.work([handler(render, () => gate.promise)], busy));
    await v.run(v.mill.enqueue(render, 1));
    const waiting = await v.run(v.mill.enqueue(render, 2));
    await v.advance(5 * hour);
    await v.run(able.stop());
    await v.advance(1.9 * hour);
    expect(await v.run(waiting.peek())).toEqual({ status: "pending" });
    const again = await v.run(v.mill.work([handler(render, () => gate.promise)], busy));
    await v.advance(0.2 * hour);
    await v.run(again.stop());
    await v.advance(1.9 * hour);
    expect(await v.run(waiting.peek())).toEqual({ status: "pending" });
    await v.advance(0.2 * hour);
    expect(await v.run(waiting.peek())).toMatchObject({ state: "failed", reason: "no-handler" });
    gate.resolve("too late");
  });
});

test("a job without requirements is never held", () => {
  const workers = [{ queues: ["q"], names: ["n"], capabilities: [] }];
  expect(heldByCapability({ queue: "q", name: "n", state: "ready" }, workers)).toBeNull();
  expect(
    heldByCapability({ queue: "q", name: "n", requires: ["gpu"], state: "running" }, workers),
  ).toBeNull();
});
