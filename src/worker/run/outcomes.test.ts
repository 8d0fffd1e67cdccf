import { describe, expect, test } from "vitest";
import { z } from "zod";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { silentLogger } from "../../engine/log/logger.ts";
import { Cancel, RetryAfter, Snooze, Unrecoverable } from "../control.ts";
import { batchHandler, handler } from "../handler.ts";

const v = useVirtualMill();

const plain = job<{ n: number }, number>("plain", {
  retry: { attempts: 3, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

describe("what a handler does decides what follows", () => {
  test("a job whose handler returns is completed with its result", async () => {
    await v.run(v.mill.work([handler(plain, async ({ input }) => input.n * 2)]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 21 }));
    expect(handle.created).toBe(true);
    expect(await v.run(handle.result())).toBe(42);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      state: "completed",
      attempt: 1,
      result: 42,
      reason: null,
    });
  });

  test("a handler that answers without a promise works like any other", async () => {
    await v.run(v.mill.work([handler(plain, ({ input }) => input.n + 1)]));
    expect(await v.run((await v.run(v.mill.enqueue(plain, { n: 1 }))).result())).toBe(2);
  });

  test("a thrown error is kept with its cause chain and the job is tried again after its backoff", async () => {
    const starts: number[] = [];
    await v.run(
      v.mill.work([
        handler(plain, async ({ attempt }) => {
          starts.push(v.platform.time.now);
          if (attempt < 3) throw new Error(`try ${attempt}`, { cause: new TypeError("root") });
          return attempt;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    expect(await v.run(handle.result())).toBe(3);
    expect((starts[1] as number) - (starts[0] as number)).toBeGreaterThanOrEqual(1000);
    const view = await v.run(v.mill.jobs.get(handle.id));
    expect(
      view?.failures.map((failure) => [
        failure.attempt,
        failure.outcome,
        failure.error?.message,
        failure.error?.cause?.name,
      ]),
    ).toEqual([
      [1, "failed", "try 1", "TypeError"],
      [2, "failed", "try 2", "TypeError"],
    ]);
  });

  test("a job whose attempts are used up ends in failed as retries-exhausted", async () => {
    await v.run(v.mill.work([handler(plain, () => Promise.reject(new Error("always")))]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await expect(v.run(handle.result())).rejects.toMatchObject({
      code: "job-failed",
      message: expect.stringContaining("always"),
    });
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      state: "failed",
      reason: "retries-exhausted",
      attempt: 3,
    });
    expect(await v.run(handle.peek())).toEqual({
      status: "ended",
      state: "failed",
      reason: "retries-exhausted",
    });
  });

  test.each([
    ["undefined", undefined],
    ["a string", "text"],
    ["null", null],
    ["a frozen object", Object.freeze({ a: 1 })],
  ])("any thrown value counts: %s", async (_what, thrown) => {
    const once = job("once", { retry: { attempts: 1 } });
    await v.run(v.mill.work([handler(once, () => Promise.reject(thrown))]));
    const handle = await v.run(v.mill.enqueue(once, {}));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
  });

  test("Unrecoverable ends the job at once", async () => {
    await v.run(v.mill.work([handler(plain, () => Promise.reject(new Unrecoverable("no such user")))]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ reason: "unrecoverable", attempt: 1 });
  });

  test("RetryAfter names the time of the next attempt and counts", async () => {
    const starts: number[] = [];
    await v.run(
      v.mill.work([
        handler(plain, async ({ attempt }) => {
          starts.push(v.platform.time.now);
          if (attempt === 1) throw new RetryAfter("1h");
          return attempt;
        }),
      ]),
    );
    expect(await v.run((await v.run(v.mill.enqueue(plain, { n: 1 }))).result())).toBe(2);
    expect((starts[1] as number) - (starts[0] as number)).toBeGreaterThanOrEqual(3_600_000);
  });

  test("Snooze gives the attempt back, thrown or returned", async () => {
    let runs = 0;
    await v.run(
      v.mill.work([
        handler(plain, async ({ attempt }) => {
          runs += 1;
          if (runs === 1) throw new Snooze("10m");
          if (runs === 2) return new Snooze(0);
          return attempt;
        }),
      ]),
    );
    expect(await v.run((await v.run(v.mill.enqueue(plain, { n: 1 }))).result())).toBe(1);
    expect(runs).toBe(3);
  });

  test("Cancel ends the job as cancelled with its reason", async () => {
    await v.run(v.mill.work([handler(plain, async () => new Cancel("not wanted"))]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-cancelled" });
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      state: "cancelled",
      reason: "not wanted",
    });
  });

  test("a result that cannot be encoded ends the job at once: its side effects happen once", async () => {
    const cyclic: Record<string, unknown> = {};
    cyclic["self"] = cyclic;
    for (const result of [cyclic, () => 1, "x".repeat(2_000_000)]) {
      let runs = 0;
      const broken = job(`broken ${typeof result}`, { retry: { attempts: 3, backoff: 0 } });
      const worker = await v.run(v.mill.work([handler(broken, async () => (runs++, result))]));
      const handle = await v.run(v.mill.enqueue(broken, {}));
      await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
      expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ reason: "invalid-result", attempt: 1 });
      expect(runs).toBe(1);
      await v.run(worker.stop());
    }
  });

  test("retryIf stops at the first error that is not listed", async () => {
    const picky = job("picky", { retry: { attempts: 5, retryIf: { codes: ["ECONNRESET"] } } });
    await v.run(v.mill.work([handler(picky, () => Promise.reject(new TypeError("wrong")))]));
    const handle = await v.run(v.mill.enqueue(picky, {}));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ reason: "not-retryable", attempt: 1 });
  });

  test("a custom backoff is found by its name", async () => {
    await v.reopen({ backoffs: { slow: (failures) => failures * 60_000 } });
    const slow = job<unknown, number>("slow", { retry: { backoff: { kind: "custom", name: "slow" } } });
    const starts: number[] = [];
    await v.run(
      v.mill.work([
        handler(slow, async ({ attempt }) => {
          starts.push(v.platform.time.now);
          if (attempt === 1) throw new Error("again");
          return attempt;
        }),
      ]),
    );
    await v.run((await v.run(v.mill.enqueue(slow, {}))).result());
    expect((starts[1] as number) - (starts[0] as number)).toBeGreaterThanOrEqual(60_000);
  });

  test("a custom backoff that is not there is refused where the job is handled, and reported where it is only retried", async () => {
    const errors: string[] = [];
    await v.reopen({
      backoffs: { fine: () => 1, odd: () => -1 },
      log: { ...silentLogger, error: (message) => errors.push(message) },
    });
    const named = (name: string) => ({ retry: { attempts: 2, backoff: { kind: "custom", name } } }) as const;
    const lost = job("lost", named("toString"));
    const plain = job("plain");
    const refused = { code: "invalid-option", message: expect.stringContaining("(fine, odd)") };
    await expect(v.run(v.mill.work([handler(lost, async () => {})]))).rejects.toMatchObject(refused);
    await expect(
      openVirtualMill({ defaults: { retry: { backoff: { kind: "custom", name: "gone" } } } }),
    ).rejects.toMatchObject({ code: "invalid-option" });
    const handles = [
      await v.run(v.mill.enqueue(plain, {}, named("gone"))),
      await v.run(v.mill.enqueue(plain, {}, named("odd"))),
    ];
    await v.run(v.mill.work([handler(plain, () => Promise.reject(new Error("no")))]));
    await expect(v.run(v.mill.enqueue(plain, {}, named("gone")))).rejects.toMatchObject(refused);
    for (const handle of handles)
      await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(errors.filter((message) => message.startsWith("The backoff "))).toEqual([
      'The backoff "gone" is not among the backoffs given to open here; the default backoff was taken instead.',
      'The backoff "odd" gave no duration (it: -1 is negative.); the default backoff was taken instead.',
    ]);
  });
});

describe("schemas", () => {
  const typed = job("typed", {
    input: z.object({ when: z.string().transform((text) => text.length) }),
    result: z.object({ ok: z.boolean() }),
  });

  test("the handler gets what the schema makes of the input, and the result is checked", async () => {
    await v.run(v.mill.work([handler(typed, async ({ input }) => ({ ok: input.when === 3 }))]));
    expect(await v.run((await v.run(v.mill.enqueue(typed, { when: "abc" }))).result())).toEqual({ ok: true });
  });

  test("a stored input that no longer matches ends as invalid-input before the handler runs", async () => {
    const old = job<unknown>("typed");
    let ran = false;
    await v.run(v.mill.work([handler(typed, async () => ({ ok: (ran = true) }))]));
    const handle = await v.run(v.mill.enqueue(old, { when: 7 }));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ reason: "invalid-input", attempt: 1 });
    expect(ran).toBe(false);
  });

  test("a result that does not match ends as invalid-result", async () => {
    await v.run(v.mill.work([handler(typed, async () => ({ ok: "yes" }) as never)]));
    const handle = await v.run(v.mill.enqueue(typed, { when: "abc" }));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ reason: "invalid-result" });
  });

  test("a result that cannot be encoded is a failed attempt", async () => {
    await v.run(v.mill.work([handler(plain, async () => (() => 1) as never)]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
  });
});

describe("batch handlers", () => {
  const item = job<number, number>("item", { retry: { attempts: 1 } });

  test("take up to their size and give each job its own outcome", async () => {
    const sizes: number[] = [];
    await v.run(
      v.mill.work([
        batchHandler(item, { size: 3, wait: "50ms" }, async (jobs) => {
          sizes.push(jobs.length);
          return jobs.map(({ input }) =>
            input === 2 ? new Error("two") : input === 5 ? new Snooze("1s") : input * 10,
          );
        }),
      ]),
    );
    const handles = await v.run(v.mill.enqueueMany([1, 2, 3, 4, 5].map((n) => item.with(n))));
    await v.advance(500);
    expect(sizes).toEqual([3, 2]);
    expect(await v.run((handles[0] as (typeof handles)[0]).result())).toBe(10);
    await expect(v.run((handles[1] as (typeof handles)[0]).result())).rejects.toMatchObject({
      code: "job-failed",
    });
    expect(await v.run(v.mill.jobs.get((handles[4] as (typeof handles)[0]).id))).toMatchObject({
      state: "scheduled",
    });
  });

  test("a thrown error fails all of the batch", async () => {
    await v.run(
      v.mill.work([batchHandler(item, { size: 10, wait: 10 }, () => Promise.reject(new Error("all")))]),
    );
    const handles = await v.run(v.mill.enqueueMany([1, 2].map((n) => item.with(n))));
    for (const handle of handles)
      await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
  });

  test("giving nothing back completes all", async () => {
    await v.run(v.mill.work([batchHandler(item, { size: 10 }, async () => {})]));
    const handles = await v.run(v.mill.enqueueMany([1, 2].map((n) => item.with(n))));
    for (const handle of handles) expect(await v.run(handle.result())).toBeUndefined();
    expect(await v.run((handles[0] as (typeof handles)[0]).peek())).toEqual({ status: "none" });
  });
});
