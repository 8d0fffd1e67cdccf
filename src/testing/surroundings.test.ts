/** millrace/testing in tests that also fake timers, and with code that enqueues inside its own transaction. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handler, job, Millrace } from "millrace";
import { testMillrace } from "millrace/testing";

const greet = job<{ name: string }, string>("greet");
const greets = handler(greet, async ({ input }) => `Hello ${input.name}`);

describe("with fake timers", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("enqueue, drain, the clock and the close work", async () => {
    await using t = await testMillrace({ handlers: [greets] });
    await t.enqueue(greet, { name: "Ada" });
    await t.enqueue(greet, { name: "Bob" }, { delay: "1h" });
    await t.drain();
    expect(t.completed(greet)).toHaveLength(1);
    await t.clock.advance("1h");
    await t.drain();
    expect(t.completed(greet).map(({ result }) => result)).toEqual(["Hello Ada", "Hello Bob"]);
  });

  test("a store and a worker outside of the helpers work", async () => {
    await using mill = await Millrace.open("sqlite::memory:", { log: false });
    await mill.work([greets]);
    const handle = await mill.enqueue(greet, { name: "Ada" }, { delay: 20 });
    expect(await handle.result()).toBe("Hello Ada");
  });
});

describe("inside the application's transaction", () => {
  const transaction = { query: async () => ({ rows: [] }) };

  test("in() of the helpers and of the real Millrace enqueue at once, and the next drain runs it", async () => {
    await using t = await testMillrace({ handlers: [greets], mode: "inline" });
    await t.in(transaction).enqueue(greet, { name: "Ada" });
    await t.mill.in(transaction).enqueueMany([greet.with({ name: "Bob" })]);
    expect(t.enqueued(greet).map(({ state }) => state)).toEqual(["ready", "ready"]);
    await t.drain();
    expect(t.completed(greet).map(({ result }) => result)).toEqual(["Hello Ada", "Hello Bob"]);
  });

  test("completeIn() completes the job with its result", async () => {
    const completes = handler(greet, async ({ input, completeIn }) => {
      await completeIn(transaction, `Hello ${input.name}`);
      return `Hello ${input.name}`;
    });
    await using t = await testMillrace({ handlers: [completes] });
    await t.enqueue(greet, { name: "Ada" });
    await t.drain();
    expect(t.completed(greet)).toMatchObject([{ result: "Hello Ada", errors: [], attempt: 1 }]);
  });

  test("step.runIn() records its result once, also over a sleep of the run", async () => {
    const pays = job<{ name: string }, string>("pays", { durable: { version: 1 } });
    let payments = 0;
    const paying = handler(pays, async ({ input, step }) => {
      const payment = await step.runIn(
        "pay",
        (use) => use(transaction),
        async () => `payment ${++payments} of ${input.name}`,
      );
      await step.sleep("rest", "1h");
      return payment;
    });
    await using t = await testMillrace({ handlers: [paying] });
    await t.enqueue(pays, { name: "Ada" });
    await t.drain();
    await t.clock.advance("1h");
    await t.drain();
    expect(t.completed(pays)).toMatchObject([{ result: "payment 1 of Ada" }]);
    expect(payments).toBe(1);
  });

  test("what is no object is refused as in production", async () => {
    await using t = await testMillrace();
    expect(() => t.in(undefined as never)).toThrow(
      expect.objectContaining({ code: "not-in-transaction" }) as Error,
    );
  });
});
