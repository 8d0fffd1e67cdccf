/** millrace/testing as its users write it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { batchHandler, handler, job, limit, RetryAfter, Snooze, Unrecoverable } from "millrace";
import { testMillrace } from "millrace/testing";
import type { TestMillrace, TestMillraceOptions } from "millrace/testing";
import { hangMs } from "../../test/support/hang-ms.ts";

const greet = job("greet", {
  input: z.object({ name: z.string() }),
  result: z.object({ text: z.string() }),
  queue: "mail",
});
const audit = job<{ what: string }>("audit");

const open: TestMillrace[] = [];
async function start(options?: TestMillraceOptions): Promise<TestMillrace> {
  const t = await testMillrace(options);
  open.push(t);
  return t;
}
afterEach(async () => {
  for (const t of open.splice(0)) await t.close();
});

const greets = handler(greet, async ({ input }) => ({ text: `Hello ${input.name}` }));

describe("output", () => {
  test("is what a reader would show: frames of the last attempt, while the job waits and after its end", async () => {
    const talk = job("talk", { retry: { attempts: 2, backoff: "1m" } });
    const t = await start({
      handlers: [
        handler(talk, ({ stream, attempt }) => {
          for (const word of ["one", "two"]) stream.write(`${attempt} ${word}`);
          if (attempt === 1) throw new Error("again");
        }),
      ],
    });
    const { id } = await t.enqueue(talk, null);
    expect(await t.frames(id)).toEqual([]);
    await t.drain();
    expect(await t.frames(id)).toEqual(["1 one", "1 two"]);
    await t.clock.advance("5m");
    await t.drain();
    expect(await t.frames(id)).toEqual(["2 one", "2 two"]);
  });
});

describe("enqueue and drain", () => {
  test("a drained job is completed, with its input and its result", async () => {
    const t = await start({ handlers: [greets] });
    const handle = await t.enqueue(greet, { name: "Ada" });
    expect(t.completed(greet)).toHaveLength(0);
    expect(t.enqueued(greet)).toMatchObject([{ id: handle.id, state: "ready", input: { name: "Ada" } }]);
    expect(await t.drain()).toEqual({ ran: 1 });
    expect(t.completed(greet)).toMatchObject([{ input: { name: "Ada" }, result: { text: "Hello Ada" } }]);
    expect(await handle.result()).toEqual({ text: "Hello Ada" });
  });

  test("without handlers a test can still see what was enqueued, and drain says what is missing", async () => {
    const t = await start();
    await t.enqueueMany([greet.with({ name: "Ada" }), audit.with({ what: "login" }, { tags: ["safe"] })]);
    expect(t.enqueued(greet).map(({ input }) => input.name)).toEqual(["Ada"]);
    expect(t.jobs()).toHaveLength(2);
    expect(t.jobs(audit, "ready")[0]?.tags).toEqual(["safe"]);
    await expect(t.drain()).rejects.toMatchObject({ code: "no-handlers" });
  });

  test("a delayed job runs once the clock has reached it, not before", async () => {
    const t = await start({ handlers: [greets] });
    await t.enqueue(greet, { name: "Ada" }, { delay: "10m" });
    await t.drain();
    expect(t.completed(greet)).toHaveLength(0);
    await t.clock.advance("9m");
    await t.drain();
    expect(t.completed(greet)).toHaveLength(0);
    await t.clock.advance("1m");
    expect(t.jobs(greet, "ready")).toHaveLength(1);
    await t.drain();
    expect(t.completed(greet)).toHaveLength(1);
  });

  test("follow-ups run in the same drain, and jobs without a handler are left where they are", async () => {
    const chain = job<{ left: number }>("chain");
    const t = await start({
      handlers: [
        handler(chain, (context) => {
          if (context.input.left > 0) context.enqueue(chain, { left: context.input.left - 1 });
          else context.enqueue(audit, { what: "done" });
        }),
      ],
    });
    await t.enqueue(chain, { left: 3 });
    expect(await t.drain()).toEqual({ ran: 4 });
    expect(t.completed(chain).map(({ input }) => input.left)).toEqual([3, 2, 1, 0]);
    expect(t.jobs(audit, "ready")).toHaveLength(1);
  });

  test("jobs that require what the worker does not offer are left where they are", async () => {
    const t = await start({ handlers: [greets], worker: { capabilities: ["gpu"] } });
    await t.enqueue(greet, { name: "able" }, { requires: ["gpu"] });
    await t.enqueue(greet, { name: "unable" }, { requires: ["gpu", "eu"] });
    expect(await t.drain()).toEqual({ ran: 1 });
    expect(t.jobs(greet, "ready")).toMatchObject([{ input: { name: "unable" }, requires: ["eu", "gpu"] }]);
  });

  test("a thousand jobs drain in one go", async () => {
    const t = await start({ handlers: [greets] });
    await t.enqueueMany(Array.from({ length: 1000 }, (_, index) => greet.with({ name: `n${index}` })));
    // The limit is one of real time, and so many jobs may take long on a busy machine.
    expect(await t.drain({ timeout: hangMs })).toEqual({ ran: 1000 });
    expect(t.completed(greet)).toHaveLength(1000);
  });

  test("a handler may wait for the real world: drain waits with it", async () => {
    const t = await start({
      handlers: [
        handler(audit, async () => {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }),
      ],
    });
    await t.enqueue(audit, { what: "slow" });
    await t.drain();
    expect(t.completed(audit)).toHaveLength(1);
  });

  test("a drain that cannot end is rejected and names the job, and the test can still be closed", async () => {
    const t = await start({
      handlers: [handler(audit, () => new Promise<void>(() => {}))],
      drainTimeout: 50,
    });
    const { id } = await t.enqueue(audit, { what: "stuck" });
    await expect(t.drain()).rejects.toMatchObject({
      code: "wait-timeout",
      message: expect.stringContaining(id) as unknown,
    });
    await t.close();
  });

  test("a batch that waits to fill starts without the clock being moved by hand", async () => {
    const sizes: number[] = [];
    const t = await start({
      handlers: [batchHandler(audit, { size: 10, wait: "1s" }, async (jobs) => void sizes.push(jobs.length))],
    });
    await t.enqueueMany([audit.with({ what: "a" }), audit.with({ what: "b" })]);
    await t.drain();
    expect(sizes).toEqual([2]);
    expect(t.completed(audit)).toHaveLength(2);
  });
});

describe("failures and retries", () => {
  test("a failed attempt is tried again when the clock has passed its backoff, and its errors are kept", async () => {
    let calls = 0;
    const t = await start({
      handlers: [
        handler(greet, () => {
          calls += 1;
          if (calls < 3) throw new Error(`no ${calls}`);
          return { text: "at last" };
        }),
      ],
    });
    await t.enqueue(greet, { name: "Ada" }, { retry: { attempts: 3, backoff: "1m" } });
    await t.drain();
    expect(t.jobs(greet, "scheduled")[0]?.errors).toEqual(["Error: no 1"]);
    await t.clock.advance("1m");
    await t.drain();
    await t.clock.advance("1m");
    await t.drain();
    expect(t.completed(greet)).toMatchObject([
      { result: { text: "at last" }, errors: ["Error: no 1", "Error: no 2"], attempt: 3 },
    ]);
  });

  test("control outcomes act as they do in production", async () => {
    const steer = job<{ how: string }>("steer");
    let snoozes = 0;
    const t = await start({
      handlers: [
        handler(steer, ({ input, attempt }) => {
          if (input.how === "unrecoverable") throw new Unrecoverable("never");
          if (input.how === "later" && attempt === 1) throw new RetryAfter("5m");
          if (input.how === "snooze" && snoozes++ === 0) return new Snooze("1h");
          return undefined;
        }),
      ],
    });
    for (const how of ["unrecoverable", "later", "snooze"]) await t.enqueue(steer, { how });
    await t.drain();
    expect(t.failed(steer)).toMatchObject([{ reason: "unrecoverable", errors: ["Unrecoverable: never"] }]);
    await t.clock.advance("1h");
    await t.drain();
    expect(t.completed(steer).map(({ input, attempt }) => [input.how, attempt])).toEqual([
      ["later", 2],
      ["snooze", 1],
    ]);
  });

  test("a timeout is tested by moving the clock while the drain runs", async () => {
    const t = await start({
      handlers: [
        handler(audit, ({ signal }) => {
          return new Promise<void>((_resolve, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason as Error));
          });
        }),
      ],
    });
    await t.enqueue(audit, { what: "hang" }, { timeout: "30s", retry: { attempts: 1 } });
    const draining = t.drain();
    await t.clock.advance("31s");
    await draining;
    expect(t.failed(audit)).toMatchObject([{ failures: [{ outcome: "timed-out" }] }]);
  });

  test("deadlines and times to live expire by the test's clock", async () => {
    const t = await start({ handlers: [greets] });
    await t.enqueue(greet, { name: "late" }, { ttl: "1m" });
    await t.clock.advance("2m");
    await t.drain();
    expect(t.jobs(greet, "expired")).toMatchObject([{ reason: "time-to-live" }]);
  });
});

describe("inline mode", () => {
  test("enqueue runs the handler and what follows from it before it returns", async () => {
    const t = await start({
      mode: "inline",
      handlers: [
        handler(greet, (context) => {
          context.enqueue(audit, { what: context.input.name });
          return { text: "hi" };
        }),
        handler(audit, () => undefined),
      ],
    });
    const handle = await t.enqueue(greet, { name: "Ada" });
    expect(await handle.peek()).toEqual({ status: "value", value: { text: "hi" } });
    expect(t.completed(audit)).toHaveLength(1);
  });

  test("a failing handler fails its job, not the enqueue", async () => {
    const t = await start({
      mode: "inline",
      handlers: [
        handler(audit, () => {
          throw new Unrecoverable("broken");
        }),
      ],
    });
    await t.enqueue(audit, { what: "x" });
    expect(t.failed(audit)[0]?.errors).toEqual(["Unrecoverable: broken"]);
  });
});

describe("the clock and the close", () => {
  test("the clock stands still until it is moved, and a long way costs little", async () => {
    const t = await start({ handlers: [greets], startAt: 1_000_000 });
    expect(t.clock.now()).toBe(1_000_000);
    await t.enqueue(greet, { name: "Ada" }, { delay: "60d" });
    await t.clock.advance("1w");
    expect(t.clock.now()).toBe(1_000_000 + 7 * 86_400_000);
    await t.clock.advance("59d");
    await t.drain();
    expect(t.completed(greet)).toHaveLength(1);
  });

  test("what the real Millrace does is seen too, also a deletion", async () => {
    const t = await start();
    const { id } = await t.enqueue(greet, { name: "Ada" }, { delay: "1h" });
    expect(await t.mill.jobs.cancel(id)).toBe("cancelled");
    expect(t.jobs(greet, "cancelled")).toHaveLength(1);
    await t.mill.jobs.delete(id);
    expect(t.jobs(greet)).toHaveLength(0);
    expect(t.enqueued(greet)).toHaveLength(1);
  });

  test("no real timer is left behind, and a closed one refuses work", async () => {
    // In a process of its own: Vitest has timers too, and they ring when they please.
    const script = `import { handler, job } from "millrace";
      import { testMillrace } from "millrace/testing";
      const waits = handler(job("waits"), () => new Promise((resolve) => setTimeout(resolve, 20)));
      const t = await testMillrace({ handlers: [waits] });
      await t.enqueue(waits.definition, {});
      await t.drain();
      await t.enqueue(waits.definition, {}, { delay: "1h" });
      await t.close();
      await t.close();
      const timers = process.getActiveResourcesInfo().filter((resource) => resource === "Timeout");
      const code = await t.enqueue(waits.definition, {}).catch((error) => error.code);
      console.log(JSON.stringify({ completed: t.completed(waits.definition).length, timers, code }));`;
    const flags = ["--conditions=millrace-source", "--input-type=module", "--eval"];
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, script], {
      cwd: import.meta.dirname,
    });
    expect(JSON.parse(stdout)).toEqual({ completed: 1, timers: [], code: "closed" });
  });

  test("handlers of a drain take permits of a limit, which are no jobs of the test", async () => {
    const one = limit("one", { concurrency: 1 });
    let [held, most] = [0, 0];
    const takes = handler(audit, async () => {
      await using _permit = await t.mill.limits.acquire(one);
      most = Math.max(most, ++held);
      await new Promise((resolve) => setImmediate(resolve));
      held -= 1;
    });
    const t = await start({ handlers: [takes] });
    await t.enqueueMany(Array.from({ length: 5 }, (_, n) => audit.with({ what: String(n) })));
    expect(await t.drain()).toEqual({ ran: 5 });
    expect([t.completed(audit).length, t.jobs().length, most]).toEqual([5, 5, 1]);
    await expect(t.mill.limits.acquire("one", { wait: 0 })).resolves.toMatchObject({ limit: "one" });
  });

  test("what a pause or a rate holds back stays, without a moved clock, until it may run", async () => {
    const rated = job<number>("rated", { limits: [limit("slow", { rate: { max: 1, per: "1m" } })] });
    const t = await start({ handlers: [greets, handler(rated, () => {})] });
    const beganAt = t.clock.now();
    await t.mill.queues.pause("mail");
    await t.enqueue(greet, { name: "a" });
    await t.enqueueMany([rated.with(1), rated.with(2)]);
    expect(await t.drain()).toEqual({ ran: 1 });
    expect(t.clock.now()).toEqual(beganAt);
    await t.clock.advance("1m");
    expect(await t.drain()).toEqual({ ran: 1 });
    await t.mill.queues.resume("mail");
    expect(await t.drain()).toEqual({ ran: 1 });
    expect([t.completed(greet).length, t.completed(rated).length]).toEqual([1, 2]);
  });

  test("two tests side by side do not see each other, and the same seed mints the same ids", async () => {
    const [one, two] = [await start({ seed: 1 }), await start({ seed: 1 })];
    const [first, second] = [
      await one.enqueue(greet, { name: "a" }),
      await two.enqueue(greet, { name: "b" }),
    ];
    expect(first.id).toBe(second.id);
    expect(one.enqueued(greet)[0]?.input.name).toBe("a");
    expect(two.enqueued(greet)[0]?.input.name).toBe("b");
  });

  test("what a test cannot choose is refused", async () => {
    await expect(testMillrace({ duties: false } as never)).rejects.toMatchObject({ code: "invalid-option" });
    await expect(testMillrace({ mode: "magic" } as never)).rejects.toMatchObject({ code: "invalid-option" });
    await expect(testMillrace({ colour: "red" } as never)).rejects.toMatchObject({ code: "invalid-option" });
  });
});
