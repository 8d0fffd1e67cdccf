import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { appendAttempt, describeError, logEntriesMax, readAttemptLog } from "./attempt-log.ts";
import type { AttemptRecord } from "./attempt-log.ts";

const failed = (attempt: number): AttemptRecord => ({ attempt, outcome: "failed", at: attempt * 10 });

describe("the attempt log", () => {
  test("of a fresh job is empty", () => {
    expect(readAttemptLog(null)).toEqual({ entries: [], dropped: 0 });
  });

  test("keeps entries in the order of the attempts", () => {
    let text: string | null = null;
    for (let attempt = 1; attempt <= 3; attempt++) text = appendAttempt(text, failed(attempt));
    expect(readAttemptLog(text)).toEqual({ entries: [failed(1), failed(2), failed(3)], dropped: 0 });
  });

  test("keeps the first ten and the latest, and counts what it dropped between them", () => {
    let text: string | null = null;
    for (let attempt = 1; attempt <= 1000; attempt++) text = appendAttempt(text, failed(attempt));
    const { entries, dropped } = readAttemptLog(text);
    expect(entries.length).toBe(logEntriesMax);
    expect(dropped).toBe(1000 - logEntriesMax);
    expect(entries.slice(0, 10).map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(entries.slice(10).map(({ attempt }) => attempt)).toEqual(
      Array.from({ length: 40 }, (_, index) => 961 + index),
    );
  });

  test("stays small however large the errors are", () => {
    const huge = new Error("m".repeat(100_000), { cause: new Error("c".repeat(100_000)) });
    huge.stack = "s".repeat(1_000_000);
    let text: string | null = null;
    for (let attempt = 1; attempt <= 60; attempt++)
      text = appendAttempt(text, { ...failed(attempt), error: describeError(huge) });
    expect((text as unknown as string).length).toBeLessThan(1_000_000);
  });
});

describe("describing what was thrown", () => {
  test("an error keeps its name, message, code, stack and chain of causes", () => {
    const cause = new TypeError("inner");
    const error = Object.assign(new RangeError("outer", { cause }), { code: "E_RANGE" });
    expect(describeError(error)).toEqual({
      name: "RangeError",
      message: "outer",
      code: "E_RANGE",
      stack: error.stack,
      cause: { name: "TypeError", message: "inner", stack: cause.stack },
    });
  });

  test.each([
    ["text", { name: "string", message: "text" }],
    [42, { name: "number", message: "42" }],
    [undefined, { name: "undefined", message: "undefined" }],
    [null, { name: "object", message: "null" }],
    [10n, { name: "bigint", message: "10" }],
    [Symbol("s"), { name: "symbol", message: "Symbol(s)" }],
    [{ a: 1 }, { name: "Error", message: '{"a":1}' }],
    [
      { name: "Mine", message: "m", code: 7 },
      { name: "Mine", message: "m", code: "7" },
    ],
    [Object.create(null), { name: "Error", message: "{}" }],
  ])("%o counts as well", (thrown, record) => {
    expect(describeError(thrown)).toEqual(record);
  });

  test("a cycle of causes ends", () => {
    const error = new Error("round");
    error.cause = error;
    let depth = 0;
    for (let record = describeError(error).cause; record !== undefined; record = record.cause) depth += 1;
    expect(depth).toBe(5);
  });

  test("values that fight back are described all the same", () => {
    const throwing = (): never => {
      throw new Error("no");
    };
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    const hostile: unknown[] = [
      Object.defineProperty({}, "message", { get: throwing }),
      new Proxy({}, { get: throwing, has: throwing, ownKeys: throwing }),
      revoked.proxy,
      cycle,
      { toJSON: throwing },
      { value: 10n },
      Object.assign(() => undefined, { toString: throwing }),
      { name: {}, message: [], code: null, stack: 5, cause: 0 },
      { toJSON: () => undefined },
    ];
    for (const thrown of hostile) {
      const record = describeError(thrown);
      expect(typeof record.name).toBe("string");
      expect(typeof record.message).toBe("string");
      expect(() => JSON.parse(appendAttempt(null, { ...failed(1), error: record })) as unknown).not.toThrow();
    }
  });

  test("whatever is thrown, the record is bounded text that survives storage", () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withNullPrototype: true, withSparseArray: true }),
        (thrown) => {
          const record = describeError(thrown);
          expect(record.name.length).toBeLessThanOrEqual(201);
          expect(record.message.length).toBeLessThanOrEqual(2001);
          const text = appendAttempt(null, { ...failed(1), error: record });
          expect(text.isWellFormed()).toBe(true);
          expect(readAttemptLog(text).entries[0]?.error).toEqual(record);
        },
      ),
      { numRuns: 1000 },
    );
  });
});
