// Runs that move from worker to worker: deploys, lost workers, versions and changed code, over SQLite on virtual time.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "../../src/index.ts";
import type { Handler, JobView, Worker } from "../../src/index.ts";
import { readAttemptLog } from "../../src/model/job/attempt-log.ts";
import { millOn } from "../support/mill-on.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";
import { deferred } from "../support/virtual/virtual-mill.ts";

const v = useVirtualMill();

const order = job("order", {
  input: z.object({ id: z.string() }),
  signals: { go: z.string() },
  durable: { version: 2 },
  retry: { attempts: 3, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

const view = async (id: string): Promise<JobView> => (await v.run(v.mill.jobs.get(id))) as JobView;
const work = (made: Handler): Promise<Worker> => v.run(v.mill.work([made], { abortGrace: "1s" }));

describe("a deploy", () => {
  test("hands a run back between two steps: ten of them use up no attempt and repeat no step", async () => {
    const ran: string[] = [];
    const steps = Array.from({ length: 12 }, (_, at) => `step ${at}`);
    const gates = new Map(steps.map((name) => [name, deferred()]));
    const made = handler(order, async ({ step, attempt }) => {
      for (const name of steps)
        await step.run(name, async () => {
          ran.push(name);
          await gates.get(name)?.promise;
        });
      return attempt;
    });
    let worker = await work(made);
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    for (const name of steps.slice(0, 10)) {
      await v.advance(1000);
      const stopping = worker.stop();
      gates.get(name)?.resolve();
      await v.run(stopping);
      expect(await view(handle.id)).toMatchObject({ state: "ready" });
      worker = await work(made);
    }
    for (const gate of gates.values()) gate.resolve();
    expect(await v.run(handle.result())).toBe(1);
    expect(ran).toEqual(steps);
  });

  test("aborts a step that does not end in time, and it runs again elsewhere", async () => {
    let tries = 0;
    const made = handler(order, async ({ step }) =>
      step.run("slow", ({ signal, attempt }) => {
        tries += 1;
        if (tries > 1) return `${tries} ${attempt}`;
        return new Promise<string>((_, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason)),
        );
      }),
    );
    const worker = await work(made);
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.advance(1000);
    expect(await v.run(worker.stop({ grace: "5s" }))).toEqual({ notStopped: 0 });
    expect(await view(handle.id)).toMatchObject({ state: "ready" });
    await work(made);
    // The abort was no failure of the step.
    expect(await v.run(handle.result())).toBe("2 1");
  });

  test("lets a run that waits go on to its rest", async () => {
    const gate = deferred();
    const made = handler(order, async ({ step }) => {
      await step.run("a", () => gate.promise);
      return (await step.waitFor("go")).value;
    });
    const worker = await work(made);
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.advance(1000);
    const stopping = worker.stop();
    gate.resolve();
    await v.run(stopping);
    expect(await view(handle.id)).toMatchObject({ state: "suspended" });
    await v.run(v.mill.signal(handle.id, "go", "now"));
    await work(made);
    expect(await v.run(handle.result())).toBe("now");
  });
});

describe("the time of an attempt", () => {
  test("counts for each stay, and a step that outlasts it is tried again with the run", async () => {
    const timed = job("timed", {
      input: z.object({}),
      signals: { go: z.string() },
      durable: { version: 1 },
      timeout: "10s",
    });
    const tries: number[] = [];
    await work(
      handler(timed, async ({ step, attempt }) => {
        await step.sleep("long", "1h");
        const { value } = await step.waitFor("go");
        await step.run("slow", ({ signal }) => {
          tries.push(attempt);
          if (tries.length > 1) return 1;
          return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        });
        return [value, attempt];
      }) as Handler,
    );
    const handle = await v.run(v.mill.enqueue(timed, {}));
    await v.advance(3_700_000);
    expect(await view(handle.id)).toMatchObject({ state: "suspended" });
    await v.run(v.mill.signal(handle.id, "go", "now"));
    expect(await v.run(handle.result())).toEqual(["now", 2]);
    expect(tries).toEqual([1, 2]);
  });
});

describe("a run of an older version", () => {
  const v1 = async ({
    step,
  }: {
    step: { waitFor(name: "go"): Promise<{ value: string }> };
  }): Promise<string> => `one ${(await step.waitFor("go")).value}`;
  const before = job("order", {
    ...{ input: z.object({ id: z.string() }), signals: { go: z.string() } },
    durable: { version: 1 },
  });

  test("goes on with the code that it began with, where a worker has it", async () => {
    const first = await work(handler(before, v1 as never));
    const old = await v.run(v.mill.enqueue(before, { id: "x" }));
    await v.advance(1000);
    await v.run(first.stop());
    await work(handler(order, async () => "two", { older: { 1: v1 as never } }));
    await v.run(v.mill.signal(old.id, "go", "now"));
    expect(await v.run(old.result())).toBe("one now");
    const fresh = await v.run(v.mill.enqueue(order, { id: "y" }));
    expect(await v.run(fresh.result())).toBe("two");
  });

  test("is handed back visibly by a worker without it, less and less often, and uses up no attempt", async () => {
    const first = await work(handler(before, v1 as never));
    const old = await v.run(v.mill.enqueue(before, { id: "x" }));
    await v.advance(1000);
    await v.run(first.stop());
    const without = await work(handler(order, async () => "two"));
    await v.run(v.mill.signal(old.id, "go", "now"));
    await v.advance(600_000);
    expect(await view(old.id)).toMatchObject({ state: "scheduled" });
    expect((await v.run(v.mill.explain(old.id)))?.why).toMatch(/version-missing.* version 1 of the handler/);
    const { attempts } = (await v.run(v.store.readJobs([old.id])))[0] as { readonly attempts: string };
    const count = readAttemptLog(attempts).handedBack?.count;
    expect(count).toBeGreaterThan(3);
    expect(count).toBeLessThan(30);
    await v.run(without.stop());
    await work(handler(order, async () => "two", { older: { 1: v1 as never } }));
    expect(await v.run(old.result())).toBe("one now");
    expect(await view(old.id)).toMatchObject({ attempt: 1 });
  });
});

describe("a run whose code has changed", () => {
  test("fails as diverged with the first difference, and goes on once the code is back", async () => {
    const right = handler(order, async ({ step }) => {
      await step.run("a", () => 1);
      return (await step.waitFor("go")).value;
    });
    const first = await work(right);
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.advance(1000);
    await v.run(first.stop());
    const wrong = await work(
      handler(order, async ({ step }) => {
        await step.sleep("a", "1s");
      }),
    );
    await v.run(v.mill.signal(handle.id, "go", "now"));
    await v.advance(5000);
    const failed = await view(handle.id);
    expect(failed).toMatchObject({ state: "failed", reason: "diverged" });
    expect(failed.attempts.at(-1)?.error?.message).toContain('step.run "a#1"');
    await v.run(wrong.stop());
    await work(right);
    await v.run(v.mill.jobs.retry(handle.id));
    expect(await v.run(handle.result())).toBe("now");
  });

  test("that never asks for a recorded step has one more try, and then has diverged", async () => {
    const first = await work(
      handler(order, async ({ step }) => {
        await step.run("a", () => 1);
        await step.waitFor("go");
      }),
    );
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.advance(1000);
    await v.run(first.stop());
    let calls = 0;
    await work(
      handler(order, async ({ step }) => {
        calls += 1;
        await step.run("b", () => 1);
      }),
    );
    await v.run(v.mill.signal(handle.id, "go", "now"));
    await v.advance(100_000);
    expect(await view(handle.id)).toMatchObject({ state: "failed", reason: "diverged" });
    expect(calls).toBe(2);
  });
});

describe("between processes", () => {
  test("a worker that hears no hints finds a signal with its renewal", async () => {
    const deaf = millOn({ ...v.store, watch: () => () => undefined }, {}, v.platform);
    const gate = deferred();
    await v.run(
      deaf.work(
        [
          handler(order, async ({ step }) => {
            const slow = step.run("slow", () => gate.promise);
            const { value } = await step.waitFor("go");
            gate.resolve();
            await slow;
            return value;
          }),
        ],
        { lease: "6s" },
      ),
    );
    const { id } = await v.run(deaf.enqueue(order, { id: "x" }));
    await v.advance(3000);
    expect((await view(id)).state).toBe("running");
    await v.run(v.mill.signal(id, "go", "now"));
    await v.advance(8000);
    expect(await view(id)).toMatchObject({ state: "completed", result: "now" });
    await v.run(deaf.close());
  });

  test("a worker that lost its lease records nothing more; the next one goes on", async () => {
    const gate = deferred();
    let isCut = false;
    const cut: typeof v.store = {
      ...v.store,
      claim: (request) => (isCut ? new Promise(() => undefined) : v.store.claim(request)),
      extendIfLeased: (request) => (isCut ? new Promise(() => undefined) : v.store.extendIfLeased(request)),
      recordIfLeased: (writes) => (isCut ? new Promise(() => undefined) : v.store.recordIfLeased(writes)),
    };
    const lost = millOn(cut, { duties: false }, v.platform);
    const ran: string[] = [];
    const made = (who: string): Handler =>
      handler(order, async ({ step }) => {
        await step.run("a", () => void ran.push(`${who} a`));
        await step.run("b", async () => {
          ran.push(`${who} b`);
          if (who === "lost") await gate.promise;
        });
        return who;
      });
    await v.run(lost.work([made("lost")], { lease: "3s" }));
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.advance(1000);
    isCut = true;
    await v.run(v.mill.work([made("next")]));
    await v.advance(10_000);
    expect(await v.run(handle.result())).toBe("next");
    isCut = false;
    gate.resolve();
    await v.advance(1000);
    expect(ran).toEqual(["lost a", "lost b", "next b"]);
    await v.run(lost.close());
  });
});
