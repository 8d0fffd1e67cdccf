import { describe, expect, it } from "vitest";
import { compileRedaction, redact } from "./redact.ts";

describe("redaction", () => {
  it("hides named fields, fields of all items and whole subtrees in a copy", () => {
    const value = {
      card: { number: "4111", owner: "Ada" },
      items: [{ secret: 1, id: 2 }, { id: 3 }],
      auth: { token: "t" },
    };
    const before = structuredClone(value);
    expect(redact(value, ["card.number", "items.*.secret", "auth"])).toEqual({
      card: { number: "[redacted]", owner: "Ada" },
      items: [{ secret: "[redacted]", id: 2 }, { id: 3 }],
      auth: "[redacted]",
    });
    expect(value).toEqual(before);
  });

  it.each<[string, unknown, string, unknown]>([
    ["a list index", ["a", "b"], "1", ["a", "[redacted]"]],
    ["any key", { a: 1, b: null }, "*", { a: "[redacted]", b: "[redacted]" }],
    ["a key with a dot", { "a.b": 1, a: { b: 2 } }, "a\\.b", { "a.b": "[redacted]", a: { b: 2 } }],
    ["a key that is a star", { "*": 1, a: 2 }, "\\*", { "*": "[redacted]", a: 2 }],
    [
      "a Map's value",
      new Map<unknown, unknown>([
        ["pin", 1],
        [7, 2],
      ]),
      "pin",
      new Map<unknown, unknown>([
        ["pin", "[redacted]"],
        [7, 2],
      ]),
    ],
    [
      "items of a Set",
      { tags: new Set([{ key: 1 }]) },
      "tags.*.key",
      { tags: new Set([{ key: "[redacted]" }]) },
    ],
    ["bytes that a path leads into", { blob: new Uint8Array(3) }, "blob.*", { blob: "[redacted]" }],
  ])("reaches %s", (_, value, path, shown) => {
    expect(redact(value, [path])).toEqual(shown);
  });

  it("leaves a value without a match, and values that are no containers, as they are", () => {
    const hide = compileRedaction(["a.b.c", "length", "0"]);
    const value = { a: { x: 1 }, d: new Date(0) };
    expect(hide(value)).toBe(value);
    for (const single of [null, undefined, "text", 5, 5n]) expect(hide(single)).toBe(single);
  });

  it("touches no prototype and hides an own __proto__ like any other key", () => {
    const value = JSON.parse('{"__proto__":{"token":"t"},"a":1}') as object;
    const shown = redact(value, ["__proto__.token", "constructor.prototype", "toString"]) as object;
    expect(JSON.stringify(shown)).toBe('{"__proto__":{"token":"[redacted]"},"a":1}');
    expect(JSON.stringify(value)).toBe('{"__proto__":{"token":"t"},"a":1}');
    expect(Object.getPrototypeOf(shown)).toBe(Object.prototype);
  });

  it.each([
    "",
    ".",
    "a.",
    ".a",
    "a..b",
    "items[*].secret",
    "items[0]",
    "a*",
    "*a",
    "a.**",
    "a\\",
    "a.".repeat(40) + "a",
    "x".repeat(2000),
    5,
  ])("refuses the path %j", (path) => {
    expect(() => compileRedaction([path as string])).toThrow(
      expect.objectContaining({ code: "invalid-option" }),
    );
  });

  it("refuses paths that are no list", () => {
    expect(() => compileRedaction("card" as unknown as string[])).toThrow(
      expect.objectContaining({ code: "invalid-option" }),
    );
  });
});
