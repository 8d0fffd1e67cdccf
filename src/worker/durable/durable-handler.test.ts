import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { job } from "../../engine/submit/job-definition.ts";
import { createPolicyReader, writePolicy } from "../../model/job/job-policy.ts";
import { batchHandler, handler } from "../handler.ts";
import { fileHandler } from "../sandbox/sandbox-handler.ts";
import { commandHandler } from "../sandbox/command-handler.ts";
import type { Arrived } from "./step.ts";

const order = job("order", {
  input: z.object({ id: z.string(), cents: z.number().default(0) }),
  result: z.object({ ref: z.string() }),
  signals: { paid: z.object({ ref: z.string() }) },
  durable: { version: 2, idle: "1s" },
});
const plain = job("plain", { input: z.object({ id: z.string() }) });

describe("a durable job", () => {
  test("freezes the names of its signals with the job; a plain job says nothing of them", () => {
    const { policy } = order.options;
    expect(writePolicy(policy)).toBe('{"durable":["paid"]}');
    expect(createPolicyReader()(writePolicy(policy)).durable).toEqual(["paid"]);
    expect(writePolicy(plain.options.policy)).toBeNull();
    expect(createPolicyReader()(null).durable).toBeNull();
    expect(order.durable).toEqual({ version: 2, idleMs: 1000, hasEvents: false });
    expect(plain.durable).toBeNull();
  });

  test("gives its handler a step that knows its signals, and takes code of older versions", () => {
    const made = handler(
      order,
      async ({ input, step }) => {
        expectTypeOf(input).toEqualTypeOf<{ id: string; cents: number }>();
        const paid = await step.waitFor("paid");
        expectTypeOf(paid).toEqualTypeOf<Arrived<{ ref: string }>>();
        // @ts-expect-error -- no such signal
        await step.waitFor("unknown");
        return { ref: paid.value.ref };
      },
      { older: { 1: async ({ step }) => step.run("old", () => 1) } },
    );
    expect([...(made.older?.keys() ?? [])]).toEqual([1]);
    // @ts-expect-error -- a plain job has no steps
    handler(plain, async ({ step }) => step);
    // @ts-expect-error -- what happens with the end of a plain job is a step of a run
    handler(order, async ({ enqueue }) => (enqueue(plain, { id: "a" }), { ref: "" }));
  });

  test.each<[what: string, make: () => unknown, says: RegExp]>([
    ["a batch handler", () => batchHandler(order, { size: 2 }, async () => []), /is durable/],
    ["a command", () => commandHandler(order, { allow: ["true"] }, () => ({ argv: ["true"] })), /is durable/],
    ["a file", () => fileHandler(order, { file: new URL("file:///no.ts"), run: "thread" }), /is durable/],
    ["signals of a plain job", () => job("a", { signals: {} } as never), /only a durable job has signals/],
    ["a version of 0", () => job("a", { durable: { version: 0 } }), /durable.version/],
    ["an unknown option", () => job("a", { durable: { version: 1, ides: 1 } as never }), /ides/],
    [
      "a signal without a schema",
      () => job("a", { durable: { version: 1 }, signals: { paid: 1 } as never }),
      /paid/,
    ],
    [
      "the current version as an older one",
      () => handler(order, (() => 1) as never, { older: { 2: () => 1 } }),
      /older.2/,
    ],
    [
      "an older version of a plain job",
      () => handler(plain, () => 1, { older: { 1: () => 1 } }),
      /only a durable job/,
    ],
    [
      "an older version without code",
      () => handler(order, (() => 1) as never, { older: { 1: 1 as never } }),
      /older.1/,
    ],
  ])("is refused %s", (_what, make, says) => {
    expect(make).toThrow(says);
  });
});
