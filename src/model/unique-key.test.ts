import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readUnique, scopedKey } from "./unique-key.ts";

describe("unique options", () => {
  test.each<[unknown, object]>([
    ["invoice-7", { key: "invoice-7", fields: null, scope: "queue", hold: "end", onHeld: "keep" }],
    [{ key: "k" }, { key: "k", fields: null, scope: "queue", hold: "end", onHeld: "keep" }],
    [{ fields: ["user.id", "day"] }, { key: null, fields: ["user.id", "day"], hold: "end", onHeld: "keep" }],
    [{ key: "k", scope: "global" }, { scope: "global" }],
    [{ key: "k", window: "unfinished" }, { hold: "end" }],
    [{ key: "k", window: "queued" }, { hold: "started" }],
    [{ key: "k", window: "10m" }, { hold: 600_000 }],
    [{ key: "k", window: 5 }, { hold: 5 }],
    [{ key: "k", policy: "skip" }, { onHeld: "keep" }],
    [
      { key: "k", policy: "replace" },
      { onHeld: "replace", hold: "end" },
    ],
    [
      { key: "k", policy: "debounce", window: "queued" },
      { onHeld: "reschedule", hold: "started" },
    ],
    [
      { key: "k", policy: "throttle", window: "1m" },
      { onHeld: "keep", hold: 60_000 },
    ],
  ])("%j is understood", (options, plan) => {
    expect(readUnique(options)).toMatchObject(plan);
  });

  test.each<[unknown, string]>([
    ["", "invalid-name"],
    [5, "invalid-option"],
    [null, "invalid-option"],
    [{}, "invalid-option"],
    [{ key: "k", fields: ["a"] }, "invalid-option"],
    [{ key: 5 }, "invalid-name"],
    [{ fields: [] }, "invalid-option"],
    [{ fields: "a" }, "invalid-option"],
    [{ fields: [""] }, "invalid-name"],
    [{ fields: Array.from({ length: 33 }, () => "a") }, "invalid-option"],
    [{ key: "k", scope: "tenant" }, "invalid-option"],
    [{ key: "k", window: "for ever" }, "invalid-duration"],
    [{ key: "k", window: -1 }, "invalid-duration"],
    [{ key: "k", policy: "drop" }, "invalid-option"],
    [{ key: "k", policy: "throttle" }, "invalid-option"],
    [{ key: "k", policy: "throttle", window: "queued" }, "invalid-option"],
    [{ key: "k", policy: "throttle", window: "unfinished" }, "invalid-option"],
    [{ key: "k", ttl: 5 }, "invalid-option"],
  ])("%j is refused as %s", (options, code) => {
    expect(() => readUnique(options)).toThrow(expect.objectContaining({ code }));
  });
});

describe("scoped keys", () => {
  test("one key in two queues is two keys, in the global scope one", () => {
    expect(scopedKey("queue", "a", "k")).not.toBe(scopedKey("queue", "b", "k"));
    expect(scopedKey("global", "a", "k")).toBe(scopedKey("global", "b", "k"));
  });

  test("no choice of names makes two different keys one", () => {
    const name = fc.string({
      unit: fc.constantFrom("a", ":", "1", "q", "g", "2"),
      minLength: 1,
      maxLength: 6,
    });
    const scope = fc.constantFrom("queue" as const, "global" as const);
    fc.assert(
      fc.property(scope, name, name, scope, name, name, (scopeA, queueA, keyA, scopeB, queueB, keyB) => {
        const isSame = scopeA === scopeB && keyA === keyB && (scopeA === "global" || queueA === queueB);
        expect(scopedKey(scopeA, queueA, keyA) === scopedKey(scopeB, queueB, keyB)).toBe(isSame);
      }),
      { numRuns: 2000 },
    );
  });
});
