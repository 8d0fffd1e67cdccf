// The registry of workers on virtual time: its list, desired states, and shares of totals as workers come and go.
import { describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";
import { createSeededRandom } from "../../testing/seeded-random.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { Worker } from "../../worker/worker.ts";
import type { WorkerOptions } from "../../worker/worker-settings.ts";
import type { WorkerView } from "./workers.ts";

const v = useVirtualMill();
const mail = job<number>("mail", { queue: "email" });
const quickly = handler(mail, async () => undefined);

const list = (): Promise<readonly WorkerView[]> => v.run(v.mill.workers.list());
const work = (options: WorkerOptions = {}): Promise<Worker> => v.run(v.mill.work([quickly], options));

describe("the registry", () => {
  test("lists what a worker is, what it has and what it runs since when", async () => {
    const gate = deferred();
    const slow = handler(mail, () => gate.promise);
    const worker = await v.run(
      v.mill.work([slow], { label: "mailer", queues: { email: 3 }, capabilities: ["eu"] }),
    );
    await v.run(v.mill.enqueue(mail, 1, { id: "one" }));
    await v.advance(21_000);
    const [view] = await list();
    expect(view).toMatchObject({
      ...{ id: worker.id, label: "mailer", host: "virtual", processId: 1, mode: "working" },
      ...{ queues: ["email"], names: ["mail"], capabilities: ["eu"], slots: { email: 3 }, totals: {} },
      ...{ running: 1, abandoned: 0, memoryBytes: 0, loopDelayMs: 0 },
      jobs: [{ id: "one", queue: "email", name: "mail", attempt: 1 }],
    });
    const { startedAt } = (await v.run(v.mill.jobs.get("one"))) ?? {};
    expect(view?.jobs[0]?.since).toEqual(startedAt);
    gate.resolve();
  });

  test("drops a stopped worker at once, and a dead one within five seconds", async () => {
    await work({ label: "stays" });
    const stops = await work({ label: "stops" });
    const platform = createVirtualPlatform({ time: v.platform.time, random: createSeededRandom("dies") });
    let isGone = false;
    const never = new Promise<never>(() => undefined);
    const dying = millOn(
      {
        ...v.store,
        claim: (request) => (isGone ? never : v.store.claim(request)),
        heartbeat: (request) => (isGone ? never : v.store.heartbeat(request)),
      },
      { duties: false },
      platform,
    );
    await v.run(dying.work([quickly], { label: "dies" }));
    await v.advance(10);
    expect((await list()).map(({ label }) => label)).toEqual(["dies", "stays", "stops"]);
    isGone = true;
    await v.run(stops.stop());
    expect((await list()).map(({ label }) => label)).toEqual(["dies", "stays"]);
    await v.advance(5000);
    expect((await list()).map(({ label }) => label)).toEqual(["stays"]);
    isGone = false;
    await v.run(dying.workers.list());
  });
});

test("a registration that is still on its way when its worker stops does not outlive it", async () => {
  const slowly: typeof v.store.heartbeat = async (request) => {
    await new Promise<void>((resolve) => void v.platform.setTimer(300, resolve));
    return v.store.heartbeat(request);
  };
  const mill = millOn({ ...v.store, heartbeat: slowly }, { duties: false }, v.platform);
  const worker = await v.run(mill.work([quickly]));
  await v.advance(1000);
  expect(await list()).toHaveLength(1);
  await v.run(worker.stop());
  await v.advance(1000);
  expect(await list()).toEqual([]);
});

test("the figures of duties in all processes are summed", async () => {
  await work();
  await v.run(v.mill.enqueue(mail, 1, { delay: 500 }));
  await v.advance(21_000);
  const views = await v.run(v.mill.duties.list());
  const promote = views.find(({ duty }) => duty === "promote");
  expect(promote).toMatchObject({ processes: 1, processed: 1, errors: 0, quarantined: 0, missing: [] });
  expect(promote?.passes).toBeGreaterThanOrEqual(2);
  expect(promote?.lagMs).toBeLessThan(1500);
  expect(views.map(({ duty }) => duty)).toEqual(v.mill.duties.names);
});

describe("a desired state", () => {
  test("quiet: the worker finishes its running jobs and claims nothing until a resume", async () => {
    const gate = deferred();
    const ran: number[] = [];
    const slow = handler(mail, async ({ input }) => (await gate.promise, void ran.push(input)));
    const worker = await v.run(v.mill.work([slow], { queues: { email: 1 } }));
    await v.run(v.mill.enqueue(mail, 1));
    await v.advance(10);
    const asked = await v.run(v.mill.workers.quiet(worker.id));
    expect(asked.map(({ id }) => id)).toEqual([worker.id]);
    await v.advance(2500);
    expect((await list())[0]).toMatchObject({ mode: "quiet", running: 1 });
    gate.resolve();
    await v.run(v.mill.enqueue(mail, 2));
    await v.advance(10_000);
    expect(ran).toEqual([1]);
    await v.run(v.mill.workers.resume(worker.id));
    await v.advance(2500);
    expect(ran).toEqual([1, 2]);
    expect((await list())[0]?.mode).toBe("working");
  });

  test("stopped: the worker stops with its grace, and a wait for its stop ends", async () => {
    const worker = await work({ label: "w" });
    const other = await work({ label: "other" });
    await v.run(v.mill.workers.stop("w", { grace: "1s" }));
    expect(await v.run(worker.stopped)).toEqual({ notStopped: 0 });
    expect((await list()).map(({ id }) => id)).toEqual([other.id]);
  });

  test("of an unknown worker is refused", async () => {
    await expect(v.run(v.mill.workers.quiet("nobody"))).rejects.toMatchObject({ code: "worker-not-found" });
    await expect(v.run(v.mill.workers.stop("x", { grace: "soon" as never }))).rejects.toMatchObject({
      code: "invalid-duration",
    });
  });
});

describe("a total of a queue", () => {
  const shares = async (): Promise<readonly number[]> =>
    (await list()).map(({ slots }) => slots["email"] ?? 0).toSorted((one, other) => other - one);
  const options = { queues: { email: { total: 10 } } };

  test("is shared by the workers that declare it as they come and go, and running jobs go on", async () => {
    const gate = deferred();
    let running = 0;
    const slow = handler(mail, async () => {
      running += 1;
      await gate.promise;
    });
    await v.run(v.mill.work([slow], options));
    await v.advance(3000);
    expect(await shares()).toEqual([10]);
    for (let count = 0; count < 10; count++) await v.run(v.mill.enqueue(mail, count));
    await v.advance(1200);
    expect(running).toBe(10);
    const second = await work(options);
    await work(options);
    await v.advance(4100);
    expect(await shares()).toEqual([4, 3, 3]);
    expect((await list()).map((worker) => worker.running).toSorted((one, other) => one - other)).toEqual([
      0, 0, 10,
    ]);
    await v.run(second.stop());
    await v.advance(4100);
    expect(await shares()).toEqual([5, 5]);
    gate.resolve();
  });

  test("can be changed by an operator at run time, also for workers that declared slots of their own", async () => {
    await work(options);
    await work({ queues: { email: 20 } });
    await v.advance(3000);
    expect(await shares()).toEqual([20, 10]);
    await v.run(v.mill.queues.set("email", { total: 4 }));
    await v.advance(4100);
    expect(await shares()).toEqual([2, 2]);
    await v.run(v.mill.queues.set("email", { total: null }));
    await v.advance(4100);
    expect(await shares()).toEqual([20, 10]);
  });

  test("leaves out a worker that is quiet", async () => {
    const one = await work(options);
    await work(options);
    await v.advance(3000);
    expect(await shares()).toEqual([5, 5]);
    await v.run(v.mill.workers.quiet(one.id));
    await v.advance(6300);
    const views = await list();
    expect(views.find(({ mode }) => mode === "working")?.slots).toEqual({ email: 10 });
  });

  test("gives no worker more than its bound, and its process no more than the greatest", async () => {
    await work({ queues: { email: { total: 500 } } });
    await work({ queues: { email: { total: 500 } }, slotsMax: 7 });
    await v.advance(4100);
    expect(await shares()).toEqual([57, 7]);
  });

  test.each([0, -1, 1.5, "many"])("of %s is refused", async (total) => {
    const queues = { email: { total } } as WorkerOptions["queues"] & object;
    await expect(work({ queues })).rejects.toMatchObject({ code: "invalid-option" });
    await expect(v.run(v.mill.queues.set("email", { total: total as number }))).rejects.toMatchObject({
      code: "invalid-option",
    });
  });
});

describe("the environment", () => {
  let processes = 0;
  const started = async (env: Record<string, string>, given: WorkerOptions = {}): Promise<Worker> => {
    const random = createSeededRandom(`process ${++processes}`);
    const platform = createVirtualPlatform({ time: v.platform.time, env, random });
    return v.run(millOn(v.store, { duties: false }, platform).work([quickly], given));
  };

  test("names the worker and the queues that it serves, unless its options do", async () => {
    const env = {
      MILLRACE_WORKER_PREFIX: "shop",
      MILLRACE_WORKER_VERSION: "7",
      MILLRACE_QUEUES: "email, bulk",
    };
    await started(env);
    await started({ ...env, MILLRACE_WORKER_ID: "a" }, { queues: ["email"] });
    await started(env, { label: "own" });
    await v.advance(10);
    const views = await list();
    expect(views.map(({ label }) => label.replace(/[0-9a-f]{4}$/, "hex"))).toEqual([
      "own",
      "shop-worker-7-hex",
      "shop-worker-7-a",
    ]);
    expect(views.map(({ queues }) => queues)).toEqual([["email", "bulk"], ["email", "bulk"], ["email"]]);
  });

  test("without any queue keeps a worker from starting", async () => {
    await expect(started({ MILLRACE_QUEUES: "," })).rejects.toMatchObject({ code: "no-handlers" });
    await expect(work({ queues: {} })).rejects.toMatchObject({ code: "no-handlers" });
  });
});
