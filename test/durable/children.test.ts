// Jobs and flows that a durable run starts: their results and errors come back, and they end with their run.
import { afterEach, beforeEach, expect, test } from "vitest";
import { flow, handler, job, Millrace, Unrecoverable } from "../../src/index.ts";
import type { JobHandle } from "../../src/index.ts";
import { until } from "../support/until.ts";

const double = job<number, number>("double", { retry: { attempts: 1 } });
/** Fails, then runs until its abort, then completes. */
const patient = job<null, number>("patient", { retry: { attempts: 1 } });
const parent = job<{ what: string }, unknown>("parent", {
  durable: { version: 1 },
  retry: { attempts: 1 },
});

let mill: Millrace;
let calls = 0;

beforeEach(async () => {
  calls = 0;
  mill = await Millrace.open("sqlite::memory:", { log: false });
  await mill.work([
    handler(double, async ({ input }) => {
      calls += 1;
      if (input < 0) throw new Unrecoverable(`${input} is below zero`);
      return input * 2;
    }),
    handler(patient, async ({ signal }) => {
      calls += 1;
      if (calls === 1) throw new Unrecoverable("not the first time");
      if (calls === 2) await new Promise((_, reject) => signal.addEventListener("abort", reject));
      return calls;
    }),
    handler(parent, async ({ input, step }) => {
      switch (input.what) {
        case "one":
          return step.invoke(double, 21);
        case "fails":
          return step.invoke(double, -1).catch((error: Error) => `${error.name}: ${String(error.cause)}`);
        case "many":
          return Promise.all([1, 2, 3].map((each) => step.invoke(double, each)));
        case "flow": {
          const sums = flow("sums");
          sums.add("a", double, 1);
          sums.add("b", double, 2);
          return step.invoke(sums);
        }
        case "late":
          // The child is due in an hour: until then the run waits.
          return step.invoke(double, 1, { delay: "1h" });
        case "again":
          return step.continueWith({ what: String(await step.invoke(double, 1)) });
        case "2":
          return step.invoke(double, 2);
        case "patient":
          return step.invoke(patient, null);
        default:
          return step.enqueue(double, 5);
      }
    }),
  ]);
});
afterEach(() => mill.close());

const untilSuspended = (id: string): Promise<void> =>
  until("the run is suspended", async () => (await mill.jobs.get(id))?.state === "suspended");
const start = (what: string): Promise<JobHandle<unknown>> => mill.enqueue(parent, { what });

test("the result of an invoked job comes back, and so does its error", async () => {
  expect(await (await start("one")).result()).toBe(42);
  expect(await (await start("fails")).result()).toMatch(/^StepFailed: .*-1 is below zero/);
});

test("the next round of a run gets the result of the same call as well", async () => {
  expect(await (await start("again")).result()).toBe(4);
});

test("a retry invokes again what has failed, and what has ended with its run", async () => {
  const run = await start("patient");
  await expect(run.result()).rejects.toThrow(/not the first time/);
  await mill.jobs.retry(run.id);
  await until("its child runs", async () => calls === 2);
  await untilSuspended(run.id);
  await mill.jobs.cancel(run.id, "enough");
  await until("the child has ended with its run", async () => {
    const { jobs } = await mill.jobs.list({ name: "patient", state: "cancelled" });
    return jobs.length > 0;
  });
  await mill.jobs.retry(run.id);
  expect(await run.result()).toBe(3);
});

test("children run side by side, each once, and a flow returns the results of its last nodes", async () => {
  expect(await (await start("many")).result()).toEqual([2, 4, 6]);
  expect(calls).toBe(3);
  expect(await (await start("flow")).result()).toEqual({ a: 2, b: 4 });
});

test("a run that waits for a child holds no slot, and explain names the child", async () => {
  const run = await start("late");
  await untilSuspended(run.id);
  expect((await mill.explain(run.id))?.why).toBe('It waits for the job of "double#1".');
  const { runs } = await mill.runs.waiting();
  expect(runs.map(({ id, waits }) => [id, waits.map(({ step }) => step)])).toEqual([[run.id, ["double#1"]]]);
});

test.each(["cancel", "delete"] as const)("the children of a run end with it: %s", async (verb) => {
  const run = await start("late");
  await untilSuspended(run.id);
  await (verb === "cancel" ? mill.jobs.cancel(run.id) : mill.jobs.delete(run.id));
  await until("the child is cancelled", async () => {
    const { jobs } = await mill.jobs.list({ name: "double" });
    return jobs.length === 1 && jobs[0]?.state === "cancelled";
  });
  const { jobs } = await mill.jobs.list({ name: "double" });
  expect(jobs[0]?.reason).toBe("run-ended");
  expect(calls).toBe(0);
});

test("an enqueued job lives on without its run", async () => {
  const run = await start("enqueue");
  const id = (await run.result()) as string;
  expect(await mill.handle(double, id).result()).toBe(10);
});
