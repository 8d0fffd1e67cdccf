/** Fleets in which not all workers are alike: a rolling change of keys, a rolling change of a schema. */
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import type { MillraceOptions } from "../../client/millrace-options.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../handler.ts";

const keys = { old: "11".repeat(32), new: "22".repeat(32) };
const withOld = { encryption: { current: "old", keys: { old: keys.old } } };
const withBoth = { encryption: { current: "new", keys } };
const secret = job<{ n: number }, number>("secret", { retry: { attempts: 1 } });

const v = useVirtualMill(withBoth);
const others: Millrace[] = [];
afterEach(async () => {
  for (const mill of others.splice(0)) await v.run(mill.close());
});

function another(options: MillraceOptions): Millrace {
  const mill = millOn({ ...v.store, close: async () => undefined }, options, v.platform);
  others.push(mill);
  return mill;
}

describe("a worker that lacks the key of an input", () => {
  test("hands the job back without burning its attempt, and a worker that has the key runs it", async () => {
    const warnings: string[] = [];
    const log = {
      debug: () => undefined,
      info: () => undefined,
      warn: (line: string) => void warnings.push(line),
      error: (line: string) => void warnings.push(line),
    };
    const behind = another({ ...withOld, log });
    let called = 0;
    const late = await v.run(behind.work([handler(secret, async () => ++called)]));
    const handle = await v.run(v.mill.enqueue(secret, { n: 7 }));
    await v.advance(1000 * 60 * 10);
    expect(called).toBe(0);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "scheduled", attempts: [] });
    const told = await v.run(v.mill.explain(handle.id));
    expect(told?.why).toMatch(/handed back \d+ times, last by .*: key-missing\. .*"new"/);
    expect(told?.why).not.toContain("has ended");
    // Ten minutes: pauses that grow to a minute, and one line about them.
    expect(Number(/back (\d+) times/.exec(told?.why ?? "")?.[1])).toBeLessThan(30);
    expect(warnings.filter((line) => line.includes("key-missing"))).toHaveLength(1);
    await v.run(late.stop());
    await v.run(v.mill.work([handler(secret, async ({ input, attempt }) => input.n * 10 + attempt)]));
    expect(await v.run(handle.result())).toBe(71);
    expect((await v.run(v.mill.explain(handle.id)))?.why).toBe("It has completed.");
  });

  test("a cancel of the waiting job ends it", async () => {
    const behind = another(withOld);
    await v.run(behind.work([handler(secret, async () => 1)]));
    const handle = await v.run(v.mill.enqueue(secret, { n: 7 }));
    await v.advance(500);
    expect(await v.run(v.mill.jobs.cancel(handle.id))).toBe("cancelled");
  });
});

describe("an input that the schema of a worker refuses", () => {
  const retry = { attempts: 5, backoff: { kind: "fixed", delay: "1s", jitter: "none" } } as const;
  const second = z.object({ name: z.string() });
  const first = z.object({ title: z.string() });
  const untyped = (definition: unknown): never => definition as never;

  test("ends the job as invalid-input by default", async () => {
    const old = job("doc", { input: first, retry });
    await v.run(v.mill.work([handler(old, async () => 1)]));
    const handle = await v.run(v.mill.enqueue(job("doc", { input: second, retry }), { name: "x" }));
    await v.advance(100);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      state: "failed",
      reason: "invalid-input",
      attempt: 1,
    });
  });

  test('is a failed attempt where the enqueuing definition says onInvalidInput: "retry"', async () => {
    const old = job("doc", { input: first, retry });
    const worker = await v.run(v.mill.work([handler(old, async () => 1)]));
    const changed = job("doc", { input: second, retry, onInvalidInput: "retry" });
    const handle = await v.run(v.mill.enqueue(changed, { name: "x" }));
    await v.advance(1500);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "scheduled", attempt: 2 });
    await v.run(worker.stop());
    await v.run(v.mill.work([handler(changed, async ({ input }) => input.name)]));
    expect(await v.run(handle.result())).toBe("x");
  });

  test("fails for good with its last attempt, also with retries", async () => {
    const old = job("doc", { input: first, retry });
    await v.run(v.mill.work([handler(old, async () => 1)]));
    const changed = job("doc", { input: second, retry, onInvalidInput: "retry" });
    const handle = await v.run(v.mill.enqueue(changed, { name: "x" }));
    await v.advance(10_000);
    const view = await v.run(v.mill.jobs.get(handle.id));
    expect(view).toMatchObject({ state: "failed", reason: "retries-exhausted", attempt: 5 });
    expect(view?.failures.at(-1)?.error?.code).toBe("invalid-input");
  });

  test("another value of the option is refused by name", () => {
    expect(() => job("doc", { onInvalidInput: untyped("again") })).toThrow(/onInvalidInput/);
  });
});
