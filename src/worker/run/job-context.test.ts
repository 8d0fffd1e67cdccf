import { describe, expect, test } from "vitest";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { silentLogger } from "../../engine/log/logger.ts";
import type { LogFields } from "../../engine/log/logger.ts";
import { handler } from "../handler.ts";
import type { JobContext } from "./job-context.ts";

const v = useVirtualMill();
const plain = job<{ n: number }, number>("plain", { retry: { attempts: 3, backoff: "1s" } });
const next = job<string, number>("next");

describe("the idempotency key", () => {
  test("is the same for every attempt of a round, and another one in the next round", async () => {
    const keys: string[] = [];
    const fences: string[] = [];
    await v.run(
      v.mill.work([
        handler(plain, ({ idempotencyKey, fence }) => {
          keys.push(idempotencyKey);
          fences.push(fence.key);
          throw new Error("card machine away");
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(keys).toEqual([`${handle.id}:1`, `${handle.id}:1`, `${handle.id}:1`]);
    await v.run(v.mill.jobs.retry(handle.id, { resetAttempts: false }));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(keys.at(-1)).toBe(`${handle.id}:1`);
    await v.run(v.mill.jobs.retry(handle.id));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    await v.run(v.mill.jobs.retry(handle.id));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect([keys.length, new Set(keys).size, keys.at(-1)]).toEqual([10, 3, `${handle.id}:3`]);
    expect(new Set(fences).size).toBe(10);
  });

  test("stays through a completion: only a replay opens a round", async () => {
    const keys: string[] = [];
    await v.run(
      v.mill.work([handler(plain, ({ idempotencyKey, input }) => (keys.push(idempotencyKey), input.n))]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await v.run(handle.result());
    await v.run(v.mill.jobs.retry(handle.id));
    await v.run(handle.result());
    expect(keys).toEqual([`${handle.id}:1`, `${handle.id}:2`]);
  });
});

test("an effect refuses options that only a call of its own has", async () => {
  const refusals: unknown[] = [];
  await v.run(
    v.mill.work([
      handler(plain, ({ kv }) => {
        for (const act of [
          () => kv.put("k", 1, { timeout: "1s" } as object),
          () => kv.delete("k", { ttl: "1s" } as object),
        ])
          try {
            act();
          } catch (error) {
            refusals.push(error);
          }
        return 1;
      }),
    ]),
  );
  await v.run(v.mill.call(plain, { n: 1 }));
  expect(refusals).toMatchObject([
    { code: "invalid-option", message: expect.stringContaining('"timeout"') },
    { code: "invalid-option", message: expect.stringContaining('"ttl"') },
  ]);
});

test("a handler knows its job's queue and age, and on which worker and host it runs", async () => {
  const seen = deferred<unknown>();
  await v.run(
    v.mill.work(
      [
        handler(plain, ({ queue, createdAt, worker, host, name }) => {
          seen.resolve({ queue, createdAt, worker, host, name });
          return 1;
        }),
      ],
      { queues: ["elsewhere"], label: "w" },
    ),
  );
  const enqueuedAt = new Date(v.platform.time.now);
  await v.run(v.mill.enqueue(plain, { n: 1 }, { queue: "elsewhere" }));
  expect(await v.run(seen.promise)).toEqual({
    queue: "elsewhere",
    createdAt: enqueuedAt,
    worker: expect.stringMatching(/^w-[0-9a-f]{8}$/),
    host: v.platform.hostName,
    name: "plain",
  });
});

describe("effects", () => {
  test("on a context whose handler has returned are refused, with an error line that names job and call", async () => {
    const lines: LogFields[] = [];
    await v.reopen({ log: { ...silentLogger, error: (_message, fields) => void lines.push(fields ?? {}) } });
    const kept = deferred<JobContext>();
    await v.run(
      v.mill.work([
        handler(plain, (context) => {
          kept.resolve(context);
          return context.input.n;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    const context = await v.run(kept.promise);
    const { enqueue, kv, whenFailed } = context;
    await v.run(handle.result());
    const late = [
      () => enqueue(next, "x"),
      () => kv.put("key", 1),
      () => kv.delete("key"),
      () => whenFailed.enqueue(next, "x"),
      () => context.enqueue(next, "x"),
    ];
    for (const call of late) expect(call).toThrow(expect.objectContaining({ code: "lease-lost" }));
    expect(lines.map(({ call }) => call)).toEqual([
      ...[
        'enqueue("next")',
        'kv.put("key")',
        'kv.delete("key")',
        'whenFailed.enqueue("next")',
        'enqueue("next")',
      ],
    ]);
    expect(lines).toEqual(lines.map(() => expect.objectContaining({ id: handle.id, name: "plain" })));
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { completed: 1 } });
  });

  test.each([1, 4])(
    "a follow-up answers the id it gets, on a store of %i partitions too",
    async (partitions) => {
      await v.reopen({}, partitions);
      const ids: string[] = [];
      await v.run(
        v.mill.work([
          handler(plain, ({ enqueue }) => {
            ids.push(enqueue(next, "four"));
            return 1;
          }),
          handler(next, async ({ input }) => input.length),
        ]),
      );
      const many = await v.run(Promise.all([1, 2, 3, 4, 5].map((n) => v.mill.enqueue(plain, { n }))));
      await v.run(Promise.all(many.map((handle) => handle.result())));
      expect(new Set(ids).size).toBe(5);
      for (const id of ids) expect(await v.run(v.mill.handle(next, id).result())).toBe(4);
    },
  );
});

describe("times", () => {
  test("of every attempt are kept: how long it waited and how long it ran", async () => {
    let runs = 0;
    await v.run(
      v.mill.work([
        handler(plain, async () => {
          await new Promise<void>((resolve) => void v.platform.setTimer(250, resolve));
          if (runs++ === 0) throw new Error("first");
          return 1;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await v.run(handle.result());
    const view = await v.run(v.mill.jobs.get(handle.id));
    expect(view!.attempts).toMatchObject([
      { attempt: 1, outcome: "failed", ranMs: 250, waitedMs: expect.any(Number) },
      { attempt: 2, outcome: "completed", ranMs: 250, waitedMs: expect.any(Number), at: view!.endedAt },
    ]);
    expect(view!.failures).toHaveLength(1);
  });

  test("of a job that completes at once are kept as three numbers", async () => {
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }, { delay: "1m" }));
    await v.advance(90_000);
    await v.run(v.mill.work([handler(plain, async ({ input }) => input.n)], { label: "w" }));
    await v.run(handle.result());
    const [record] = await v.run(v.store.readJobs([handle.id]));
    expect(record!.attempts).toMatch(/^1 \d+ 0$/);
    const [attempt] = (await v.run(v.mill.jobs.get(handle.id)))!.attempts;
    expect(attempt).toMatchObject({ outcome: "completed", ranMs: 0, worker: expect.stringMatching(/^w-/) });
    expect(attempt!.waitedMs).toBeGreaterThanOrEqual(30_000);
    const waitedUs = Number(record!.attempts!.split(" ")[1]);
    expect(attempt!.waitedMs).toBe(waitedUs / 1000);
  });
});

describe("the limits of a context", () => {
  const printer = limit("printer", { concurrency: 1 });

  test("give permits for a part of the work, whose wait ends with the attempt", async () => {
    await using held = await v.run(v.mill.limits.acquire(printer));
    const errors: unknown[] = [];
    const print = handler(plain, async ({ limits, input }) => {
      await using permit = await limits.acquire("printer", { wait: "1h" }).catch((error: unknown) => {
        errors.push(error);
        throw error;
      });
      return permit.weight + input.n;
    });
    await v.run(v.mill.work([print]));
    const aborted = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await v.advance(1000);
    await v.run(v.mill.jobs.cancel(aborted.id));
    await expect(v.run(aborted.result())).rejects.toMatchObject({ code: "job-cancelled" });
    expect(errors).toMatchObject([{ code: "aborted", cause: { reason: "cancel" } }]);
    await v.run(held.release());
    const printed = await v.run(v.mill.enqueue(plain, { n: 1 }));
    expect(await v.run(printed.result())).toBe(2);
    expect(await v.run(v.mill.limits.state("printer"))).toMatchObject({ held: 0 });
  });

  test("throttle one without an end of the attempt, and refuse what mill.limits refuses", async () => {
    await v.run(v.mill.limits.define(printer));
    const codes: string[] = [];
    const calls = handler(plain, async ({ limits }) => {
      await limits.throttle("printer", { retryAfter: "20s" });
      const refused = (error: { code: string }) => void codes.push(error.code);
      await limits.throttle("printr").catch(refused);
      await limits.acquire("printer", { weigth: 1 } as never).catch(refused);
      await limits.acquire("printer", { signal: 5 } as never).catch(refused);
      return 1;
    });
    await v.run(v.mill.work([calls]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    expect(await v.run(handle.result())).toBe(1);
    const { coolingUntil } = await v.run(v.mill.limits.state("printer"));
    expect(coolingUntil!.getTime()).toBeGreaterThan(v.platform.now() + 19_000);
    expect(codes).toEqual(["unknown-limit", "invalid-option", "invalid-option"]);
  });
});
