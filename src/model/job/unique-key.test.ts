import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { keyOfScoped, readUnique, scopedKey } from "./unique-key.ts";
import type { UniqueScope } from "./unique-key.ts";

describe("unique options", () => {
  test.each<[unknown, object]>([
    ["invoice-7", { key: "invoice-7", fields: null, scope: "job", hold: "end", onHeld: "keep" }],
    [{ key: "k" }, { key: "k", fields: null, scope: "job", hold: "end", onHeld: "keep" }],
    [{ fields: ["user.id", "day"] }, { key: null, fields: ["user.id", "day"], hold: "end", onHeld: "keep" }],
    [{ key: "k", scope: "queue" }, { scope: "queue" }],
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
      { onHeld: "replace", hold: "started", needsDelay: true },
    ],
    [
      { key: "k", policy: "once-per", window: "1m" },
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
    [{ key: "k", policy: "once-per" }, "invalid-option"],
    [{ key: "k", policy: "once-per", window: "queued" }, "invalid-option"],
    [{ key: "k", policy: "once-per", window: "unfinished" }, "invalid-option"],
    [{ key: "k", ttl: 5 }, "invalid-option"],
  ])("%j is refused as %s", (options, code) => {
    expect(() => readUnique(options)).toThrow(expect.objectContaining({ code }));
  });
});

describe("scoped keys", () => {
  const scoped = (scope: UniqueScope, queue: string, name: string): string =>
    scopedKey({ scope, key: "k" }, { queue, name });

  test("are apart by the name of the job, by its queue, or not at all", () => {
    expect(scoped("job", "a", "x")).toBe(scoped("job", "b", "x"));
    expect(scoped("job", "a", "x")).not.toBe(scoped("job", "a", "y"));
    expect(scoped("queue", "a", "x")).toBe(scoped("queue", "a", "y"));
    expect(scoped("queue", "a", "x")).not.toBe(scoped("queue", "b", "x"));
    expect(scoped("global", "a", "x")).toBe(scoped("global", "b", "y"));
  });

  test("no choice of names makes two different keys one, and the key itself can be read back", () => {
    const text = fc.string({
      unit: fc.constantFrom("a", ":", "1", "j", "q", "g", "2"),
      minLength: 1,
      maxLength: 6,
    });
    const unique = fc.record({
      scope: fc.constantFrom<UniqueScope>("job", "queue", "global"),
      key: text,
      queue: text,
      name: text,
    });
    fc.assert(
      fc.property(unique, unique, (one, other) => {
        const within = { job: one.name === other.name, queue: one.queue === other.queue, global: true };
        const isSame = one.scope === other.scope && one.key === other.key && within[one.scope];
        expect(scopedKey(one, one) === scopedKey(other, other)).toBe(isSame);
        expect(keyOfScoped(scopedKey(one, one))).toBe(one.key);
      }),
      { numRuns: 2000 },
    );
  });
});
