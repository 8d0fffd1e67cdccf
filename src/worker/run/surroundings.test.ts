import { describe, expect, test } from "vitest";
import { z } from "zod";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { batchHandler, handler } from "../handler.ts";

const v = useVirtualMill();

const plain = job<{ n: number }, number>("plain", {
  retry: { attempts: 3, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

describe("a job is not hurt by", () => {
  test("a log line that cannot be kept: errors become records, the rest is cut", async () => {
    await v.run(
      v.mill.work([
        handler(plain, async ({ log, progress }) => {
          log.error("call failed", { error: new Error("boom") });
          log.info("odd", { fn: () => 1 });
          log.info("x".repeat(2_000_000));
          progress(0.5, "half", () => 1);
          return 1;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    expect(await v.run(handle.result())).toBe(1);
    const lines = await v.run(v.mill.jobs.logs(handle.id));
    expect(lines[0]).toMatchObject({
      message: "call failed",
      fields: { error: { name: "Error", message: "boom" } },
    });
    expect(lines.map(({ message }) => message.length)).toEqual([11, 3, 8000]);
  });

  test("a slow store: the settle does not overtake log lines and progress", async () => {
    const record = v.store.recordIfLeased.bind(v.store);
    v.store.recordIfLeased = async (writes) => {
      await new Promise<void>((resolve) => void v.platform.setTimer(20, resolve));
      return record(writes);
    };
    await v.run(
      v.mill.work([
        handler(plain, async ({ log, progress }) => {
          log.info("one");
          await new Promise<void>((resolve) => void v.platform.setTimer(3, resolve));
          log.info("two");
          progress(1);
          return 1;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await v.run(handle.result());
    expect((await v.run(v.mill.jobs.logs(handle.id))).map(({ message }) => message)).toEqual(["one", "two"]);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ progress: { value: 1 } });
  });

  test("progress that is no number: the call is refused by a code", async () => {
    const refused: unknown[] = [];
    const run = handler(plain, async ({ progress }) => {
      for (const value of [Symbol("half"), 5n, "half", undefined])
        try {
          progress(value as never);
        } catch (error) {
          refused.push((error as { code?: unknown }).code);
        }
      return 1;
    });
    await v.run(v.mill.work([run]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    expect(await v.run(handle.result())).toBe(1);
    expect(refused).toEqual(Array.from({ length: 4 }, () => "invalid-option"));
  });

  test("an enqueue of its own that is refused: that is a failed attempt like any other", async () => {
    const typed = job("typed-child", { input: z.object({ a: z.string() }) });
    await v.run(
      v.mill.work([
        handler(plain, async ({ attempt }) => {
          if (attempt < 3) await v.mill.enqueue(typed, { a: 1 } as never);
          return attempt;
        }),
      ]),
    );
    expect(await v.run((await v.run(v.mill.enqueue(plain, { n: 1 }))).result())).toBe(3);
  });

  test("effects made after its handler returned are refused, not lost silently", async () => {
    const late = Promise.withResolvers<unknown>();
    await v.run(
      v.mill.work([
        handler(plain, async (context) => {
          v.platform.setTimer(50, () => {
            try {
              late.resolve(context.enqueue(plain, { n: 2 }));
            } catch (error) {
              late.resolve(error);
            }
          });
          return 1;
        }),
      ]),
    );
    await v.run(v.mill.enqueue(plain, { n: 1 }));
    expect(await v.run(late.promise)).toMatchObject({ code: "lease-lost" });
  });
});

describe("around a handler", () => {
  test("middleware wraps each job of a batch, and one that answers by itself does not hold the others up", async () => {
    const item = job<number, number>("item");
    const sizes: number[] = [];
    await v.run(
      v.mill.work(
        [
          batchHandler(item, { size: 3, wait: 50 }, async (jobs) => {
            sizes.push(jobs.length);
            return jobs.map(({ input }) => input);
          }),
        ],
        {
          middleware: [
            async (context, next) => (context.input === 2 ? 20 : ((await next()) as number) + 100),
          ],
        },
      ),
    );
    const handles = await v.run(v.mill.enqueueMany([item.with(1), item.with(2), item.with(3)]));
    expect(await v.run(Promise.all(handles.map((handle) => handle.result())))).toEqual([101, 20, 103]);
    expect(sizes).toEqual([2]);
  });

  test("middleware that calls a batch handler a second time is answered by a call for its job alone", async () => {
    const item = job<number, number>("item");
    const calls: number[][] = [];
    await v.run(
      v.mill.work(
        [
          batchHandler(item, { size: 2, wait: 50 }, async (jobs) => {
            calls.push(jobs.map(({ input }) => input));
            return jobs.map(({ input }) => (input === 2 && calls.length === 1 ? new Error("busy") : input));
          }),
        ],
        {
          middleware: [
            async (_context, next) => {
              const outcome = await next();
              return outcome instanceof Error ? next() : outcome;
            },
          ],
        },
      ),
    );
    const handles = await v.run(v.mill.enqueueMany([item.with(1), item.with(2)]));
    expect(await v.run(Promise.all(handles.map((handle) => handle.result())))).toEqual([1, 2]);
    expect(calls).toEqual([[1, 2], [2]]);
  });

  test("a job of a batch whose input is refused fails alone, and the others are called without it", async () => {
    const typed = job("typed-item", { input: z.object({ n: z.number() }), retry: { attempts: 1 } });
    const untyped = job<unknown>("typed-item");
    const calls: number[][] = [];
    await v.run(
      v.mill.work([
        batchHandler(typed, { size: 3, wait: 50 }, async (jobs) => {
          calls.push(jobs.map(({ input }) => input.n));
        }),
      ]),
    );
    const handles = await v.run(
      v.mill.enqueueMany([{ n: 1 }, { n: "two" }, { n: 3 }].map((input) => untyped.with(input))),
    );
    await v.advance(1000);
    const views = await v.run(Promise.all(handles.map(({ id }) => v.mill.jobs.get(id))));
    expect(views.map((view) => view?.state)).toEqual(["completed", "failed", "completed"]);
    expect(views[1]).toMatchObject({ reason: "invalid-input" });
    expect(calls).toEqual([[1, 3]]);
  });

  test("a batch handler that gives back too few outcomes fails its batch", async () => {
    const item = job<number, number>("item", { retry: { attempts: 1 } });
    await v.run(v.mill.work([batchHandler(item, { size: 3, wait: 50 }, async () => [1])]));
    const handles = await v.run(v.mill.enqueueMany([item.with(1), item.with(2)]));
    for (const handle of handles)
      await expect(v.run(handle.result())).rejects.toThrow("one outcome for each");
  });

  test("middleware wraps every handler, outermost first", async () => {
    const seen: string[] = [];
    const layer = (name: string) => async (context: { name: string }, next: () => Promise<unknown>) => {
      seen.push(`${name}>${context.name}`);
      const result = await next();
      seen.push(`<${name}`);
      return result;
    };
    await v.run(
      v.mill.work([handler(plain, async () => 7)], { middleware: [layer("outer"), layer("inner")] }),
    );
    expect(await v.run((await v.run(v.mill.enqueue(plain, { n: 1 }))).result())).toBe(7);
    expect(seen).toEqual(["outer>plain", "inner>plain", "<inner", "<outer"]);
  });

  test("a worker does not claim names it has no handler for", async () => {
    await v.run(v.mill.work([handler(plain, async () => 1)]));
    const other = await v.run(v.mill.enqueue(job("other"), {}));
    await v.advance(60_000);
    expect(await v.run(v.mill.jobs.get(other.id))).toMatchObject({ state: "ready", attempt: 0 });
  });

  test("follow-ups and KV writes are applied with the completion and thrown away on a retry", async () => {
    const child = job<{ of: string }>("child");
    await v.run(
      v.mill.work([
        handler(plain, async ({ id, attempt, enqueue, kv }) => {
          enqueue(child, { of: id });
          kv.put("count", attempt);
          expect(await kv.get("count")).toBe(attempt);
          if (attempt === 1) throw new Error("once");
          return attempt;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await v.run(handle.result());
    expect(await v.run(v.mill.kv.getEntry("count"))).toMatchObject({ value: 2, version: 1 });
    expect((await v.run(v.mill.jobs.list({ name: "child" }))).jobs).toHaveLength(1);
  });

  test("effects for failure are applied only when the job ends in failed", async () => {
    const failing = job("failing", { retry: { attempts: 2, backoff: 0 } });
    await v.run(
      v.mill.work([
        handler(failing, async ({ whenFailed, kv }) => {
          kv.put("done", true);
          whenFailed.kv.put("lost", true);
          throw new Error("no");
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(failing, {}));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(await v.run(v.mill.kv.getEntry("lost"))).toMatchObject({ value: true, version: 1 });
    expect(await v.run(v.mill.kv.get("done"))).toBeUndefined();
  });

  test("a refused effect is a failed attempt, without any of its effects", async () => {
    await v.run(v.mill.kv.put("taken", 1));
    await v.run(
      v.mill.work([
        handler(plain, async ({ attempt, kv, enqueue }) => {
          enqueue(job("child"), {});
          kv.put("taken", 2, attempt === 1 ? { version: 0 } : {});
          return attempt;
        }),
      ]),
    );
    expect(await v.run((await v.run(v.mill.enqueue(plain, { n: 1 }))).result())).toBe(2);
    expect((await v.run(v.mill.jobs.list({ name: "child" }))).jobs).toHaveLength(1);
  });

  test("progress and log lines stay with the job", async () => {
    await v.run(
      v.mill.work([
        handler(plain, async ({ log, progress }) => {
          log.info("started", { part: 1 });
          progress(0.5, "half", { rows: 10 });
          log.warn("odd");
          return 1;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await v.run(handle.result());
    await v.advance(100);
    expect(await v.run(v.mill.jobs.logs(handle.id))).toMatchObject([
      { level: "info", message: "started", fields: { part: 1 } },
      { level: "warn", message: "odd" },
    ]);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      progress: { value: 0.5, message: "half", data: { rows: 10 } },
    });
  });
});
