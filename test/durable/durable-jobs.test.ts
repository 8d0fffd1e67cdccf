// Durable jobs through client, engine and worker, over SQLite on virtual time.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { handler, job, RetryAfter, StepFailed, Unrecoverable, WaitTimedOut } from "../../src/index.ts";
import type { HandlerMiddleware } from "../../src/index.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";
import { deferred } from "../support/virtual/virtual-mill.ts";

const v = useVirtualMill();

const order = job("order", {
  input: z.object({ id: z.string() }),
  signals: { paid: z.object({ ref: z.string() }), note: z.string() },
  durable: { version: 1 },
  retry: { attempts: 3, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

const view = (id: string) => v.run(v.mill.jobs.get(id));
const stateOf = async (id: string): Promise<string | undefined> => (await view(id))?.state;

describe("a run", () => {
  test("records each step once, sleeps without a lease and returns what its handler returns", async () => {
    const ran: string[] = [];
    await v.run(
      v.mill.work([
        handler(order, async ({ input, step }) => {
          const a = await step.run("a", () => (ran.push("a"), `${input.id}1`));
          await step.sleep("nap", "1h");
          return step.run("b", () => (ran.push("b"), `${a}2`));
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.advance(1000);
    expect(await view(handle.id)).toMatchObject({ state: "scheduled", attempt: 0 });
    expect(await v.run(handle.result())).toBe("x12");
    expect(ran).toEqual(["a", "b"]);
    expect(await view(handle.id)).toMatchObject({ state: "completed", attempt: 1 });
  });

  test("waits for a signal without a slot, and goes on when it comes", async () => {
    await v.run(
      v.mill.work(
        [
          handler(order, async ({ input, step }) => {
            const { value, source } = await step.waitFor("paid");
            return `${input.id} ${value.ref} ${source}`;
          }),
        ],
        { concurrency: 1 },
      ),
    );
    const handles = await v.run(v.mill.enqueueMany([order.with({ id: "x" }), order.with({ id: "y" })]));
    const [x, y] = handles as [(typeof handles)[0], (typeof handles)[0]];
    await v.advance(1000);
    expect([await stateOf(x.id), await stateOf(y.id)]).toEqual(["suspended", "suspended"]);
    const options = { key: "event 1", source: "ann" };
    expect(await v.run(v.mill.signal(order, y.id, "paid", { ref: "r1" }, options))).toEqual({
      kind: "delivered",
    });
    expect(await v.run(y.result())).toBe("y r1 ann");
    expect(await v.run(v.mill.signal(y.id, "paid", { ref: "r1" }, options))).toEqual({ kind: "duplicate" });
    expect(await v.run(v.mill.signal(y.id, "paid", { ref: "r2" }))).toEqual({
      kind: "refused",
      reason: "finished",
    });
    expect(await stateOf(x.id)).toBe("suspended");
  });

  test("takes a signal that came before its wait, and one that comes while a step runs", async () => {
    const { promise, resolve } = deferred();
    await v.run(
      v.mill.work([
        handler(order, async ({ step }) => {
          const slow = step.run("slow", () => promise);
          const early = await step.waitFor("note");
          const late = await step.waitFor("note");
          await slow;
          return early.value + late.value;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }, { delay: "1s" }));
    expect(await v.run(v.mill.signal(handle.id, "note", "early"))).toEqual({ kind: "buffered" });
    await v.advance(5000);
    expect(await stateOf(handle.id)).toBe("running");
    expect(await v.run(v.mill.signal(handle.id, "note", "late"))).toEqual({ kind: "buffered" });
    await v.advance(1000);
    resolve();
    expect(await v.run(handle.result())).toBe("earlylate");
  });

  test("goes on by itself when the time of a wait is over, neither early nor as an expired job", async () => {
    await v.run(
      v.mill.work([
        handler(order, async ({ step }) => {
          const answer = await step.waitFor("paid", { timeout: "3h", onTimeout: "return" });
          return [answer.kind, step.now().getTime()];
        }),
      ]),
    );
    const begin = v.platform.time.now;
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }, { ttl: "1h" }));
    const [kind, at] = (await v.run(handle.result())) as [string, number];
    expect(kind).toBe("timed-out");
    expect(at - begin).toBeGreaterThanOrEqual(3 * 3_600_000);
    expect(at - begin).toBeLessThan(3 * 3_600_000 + 10_000);
  });

  test("fails on a wait that timed out, at once and with the reason step-failed", async () => {
    await v.run(
      v.mill.work([
        handler(order, async ({ step }) => (await step.waitFor("paid", { timeout: "1h" })).value.ref),
      ]),
    );
    const { id } = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.advance(4_000_000);
    expect(await view(id)).toMatchObject({ state: "failed", reason: "step-failed" });
    expect((await view(id))?.attempts.at(-1)?.error?.name).toBe(new WaitTimedOut("paid").name);
  });

  test("tries a step again by itself, and a handler's own error as any job's", async () => {
    const tries: number[] = [];
    let throws = 2;
    await v.run(
      v.mill.work([
        handler(order, async ({ step, attempt }) => {
          await step.run(
            "flaky",
            ({ attempt: of }) => {
              tries.push(of);
              if (of < 3) throw new RetryAfter("10s");
            },
            { retry: { attempts: 5 } },
          );
          if (throws-- > 0) throw new Error("of the handler");
          return attempt;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    expect(await v.run(handle.result())).toBe(3);
    expect(tries).toEqual([1, 2, 3]);
  });

  test("fails when a step has failed for good; the error is that of the step", async () => {
    let runs = 0;
    await v.run(
      v.mill.work([
        handler(order, async ({ step }) => {
          runs += 1;
          await step.run("never", () => {
            throw new Unrecoverable("no card");
          });
        }),
      ]),
    );
    const { id } = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.advance(60_000);
    const failed = await view(id);
    expect(failed).toMatchObject({ state: "failed", reason: "step-failed" });
    expect(failed?.attempts.at(-1)?.error).toMatchObject({
      name: new StepFailed("never#1", null).name,
      cause: { message: "no card" },
    });
    expect(runs).toBe(1);
  });

  test("begins a new round by continueWith: another input, an empty journal, and signals that nobody took", async () => {
    const pages = job("pages", {
      input: z.object({ page: z.number() }),
      durable: { version: 1 },
      signals: { stop: z.string() },
    });
    const keys: string[] = [];
    await v.run(
      v.mill.work([
        handler(pages, async ({ input, step, idempotencyKey }) => {
          keys.push(idempotencyKey);
          const key = await step.run("page", (context) => context.idempotencyKey);
          if (input.page < 3) step.continueWith({ page: input.page + 1 });
          return [key, (await step.waitFor("stop")).value];
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(pages, { page: 1 }, { delay: "1s" }));
    await v.run(v.mill.signal(pages, handle.id, "stop", "now"));
    expect(await v.run(handle.result())).toEqual([`${handle.id}:2:page#1`, "now"]);
    expect(new Set(keys).size).toBe(3);
  });

  test.each([
    ["is undone and fails if it continues while steps have undos", {}, "failed", ["book", "unbook"]],
    ["may say that its undos are to be forgotten", { dropUndos: true }, "completed", ["book", "book"]],
  ] as const)("%s", async (_title, options, state, expected) => {
    const saga = job("saga", { input: z.number(), durable: { version: 1 }, retry: { attempts: 1 } });
    const log: string[] = [];
    await v.run(
      v.mill.work([
        handler(saga, async ({ input, step }) => {
          await step.run("book", () => void log.push("book"), { undo: () => log.push("unbook") });
          if (input === 1) step.continueWith(2, options);
        }),
      ]),
    );
    const { id } = await v.run(v.mill.enqueue(saga, 1));
    await v.advance(5000);
    const ended = await view(id);
    expect(ended?.state).toBe(state);
    expect(ended?.attempts.at(-1)?.error?.code).toBe(state === "failed" ? "undos-open" : undefined);
    expect(log).toEqual(expected);
  });

  test("keeps its input once steps of it are recorded; before its first life it may be edited", async () => {
    const seen: string[] = [];
    const handle = await v.run(v.mill.enqueue(order, { id: "typo" }, { delay: "1m" }));
    await v.run(v.mill.signal(handle.id, "note", "early"));
    await v.run(v.mill.jobs.edit(handle.id, { input: { id: "x" } }));
    await v.run(
      v.mill.work([
        handler(order, async ({ input, step }) => {
          seen.push(await step.run("a", () => input.id));
          await step.sleep("nap", "1h");
          await step.waitFor("paid");
        }),
      ]),
    );
    for (const [ms, state] of [
      [61_000, "scheduled"],
      [3_600_000, "suspended"],
    ] as const) {
      await v.advance(ms);
      expect(await stateOf(handle.id)).toBe(state);
      const { jobs } = v.mill;
      const input = { id: "y" };
      await expect(v.run(jobs.edit(handle.id, { input }))).rejects.toMatchObject({ code: "run-begun" });
      await expect(v.run(jobs.runNow(handle.id, { input }))).rejects.toMatchObject({ code: "run-begun" });
    }
    await v.run(v.mill.jobs.cancel(handle.id));
    await v.run(v.mill.jobs.retry(handle.id, { input: { id: "y" } }));
    await v.advance(1000);
    expect(seen).toEqual(["x", "x", "y"]);
  });

  test("enqueues another job once", async () => {
    const ran: string[] = [];
    const other = job<string>("other");
    await v.run(
      v.mill.work([
        handler(other, ({ input }) => void ran.push(input)),
        handler(order, async ({ step }) => {
          const id = await step.enqueue(other, "hello");
          await step.sleep("nap", "1m");
          return id;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    const id = (await v.run(handle.result())) as string;
    expect(await stateOf(id)).toBe("completed");
    expect(ran).toEqual(["hello"]);
  });

  test("invokes another job and gets its result", async () => {
    const double = job<number, number>("double");
    await v.run(
      v.mill.work([
        handler(double, ({ input }) => input * 2),
        handler(order, async ({ step }) => step.invoke(double, 21)),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    expect(await v.run(handle.result())).toBe(42);
  });
});

describe("around a run", () => {
  test("middleware is unwound at each rest, and log lines of a replay are silent", async () => {
    const seen: string[] = [];
    const middleware: HandlerMiddleware = async (_context, next) => {
      seen.push("in");
      const outcome = await next();
      seen.push(outcome instanceof Error ? outcome.name : String(outcome));
      return outcome;
    };
    await v.run(
      v.mill.work(
        [
          handler(order, async ({ step, log, progress }) => {
            log.info("begins");
            progress(0.5);
            await step.run("a", () => 1);
            log.info("slept");
            await step.sleep("nap", "1h");
            log.info("awake");
            return "done";
          }),
        ],
        { middleware: [middleware] },
      ),
    );
    const handle = await v.run(v.mill.enqueue(order, { id: "x" }));
    await v.run(handle.result());
    expect(seen).toEqual(["in", "Suspended", "in", "done"]);
    const lines = await v.run(v.mill.jobs.logs(handle.id));
    expect(lines.map(({ message }) => message)).toEqual(["begins", "slept", "awake"]);
  });

  test("what a plain handler does with its end is refused by name", async () => {
    const refused: string[] = [];
    await v.run(
      v.mill.work([
        handler(order, async (context) => {
          for (const name of ["enqueue", "kv", "whenFailed", "flow", "completeIn"])
            try {
              void (context as never)[name];
            } catch (error) {
              refused.push(`${name} ${(error as { code: string }).code}`);
            }
        }),
      ]),
    );
    await v.run((await v.run(v.mill.enqueue(order, { id: "x" }))).result());
    expect(refused).toEqual(
      ["enqueue", "kv", "whenFailed", "flow", "completeIn"].map((name) => `${name} not-in-runs`),
    );
  });

  test.each<[what: string, call: (id: string) => Promise<unknown>, code: string]>([
    ["an unknown job", () => v.mill.signal("no-such-job", "paid", {}), "job-not-found"],
    ["an unknown signal", (id) => v.mill.signal(id, "payed", {}), "unknown-signal"],
    ["a value of the wrong shape", (id) => v.mill.signal(id, "paid", { ref: 1 }), "invalid-input"],
    [
      "another job",
      (id) =>
        v.mill.signal(job("other", { durable: { version: 1 } }) as typeof order, id, "paid", { ref: "" }),
      "other-job",
    ],
    [
      "an unknown option",
      (id) => v.mill.signal(id, "paid", { ref: "" }, { kee: "" } as never),
      "invalid-option",
    ],
  ])("a signal with %s is refused", async (_what, call, code) => {
    const { id } = await v.run(v.mill.enqueue(order, { id: "x" }));
    await expect(v.run(call(id))).rejects.toMatchObject({ code });
  });

  test("a signal to a plain job is refused, and so is one more than the buffer holds", async () => {
    const plain = await v.run(v.mill.enqueue(job("plain"), 1));
    await expect(v.run(v.mill.signal(plain.id, "paid", {}))).rejects.toMatchObject({ code: "not-durable" });
    const { id } = await v.run(v.mill.enqueue(order, { id: "x" }));
    const sent = await v.run(
      Promise.all(Array.from({ length: 1001 }, (_, at) => v.mill.signal(id, "note", String(at)))),
    );
    expect(sent.filter(({ kind }) => kind === "buffered").length).toBe(1000);
    expect(sent.filter(({ kind }) => kind === "refused")).toEqual([
      { kind: "refused", reason: "buffer-full" },
    ]);
  });
});
