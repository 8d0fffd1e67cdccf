import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isMillraceError } from "./error.ts";
import { checkName, nameBytesMax } from "./name.ts";

describe("names", () => {
  test.each([
    ["a"],
    ["email.send"],
    ["with space"],
    [" "],
    ["quo\"te's"],
    ["{brace}"],
    ["a:b/c\\d"],
    ["__proto__"],
    ["constructor"],
    ["%_*?[]"],
    ["'; drop table millrace_job; --"],
    ["größe"],
    ["名前"],
    ["👩‍👩‍👧"],
    ["x".repeat(255)],
    ["é".repeat(127)],
    ["🙂".repeat(63)],
  ])("%j is a name like any other", (name) => {
    expect(checkName(name, "queue")).toBe(name);
  });

  test.each([
    [""],
    ["x".repeat(256)],
    ["é".repeat(128)],
    ["🙂".repeat(64)],
    ["a\u0000b"],
    ["a\nb"],
    ["\u007f"],
    ["\u0085"],
    ["\u2028"],
    ["pay\u202egpj.exe"],
    ["re\u2067ports"],
    ["e\u00admail"],
    ["e\u200bmail"],
    ["email\u{e0041}"],
    ["\ufeffemail"],
    ["\ud83d"],
    ["a\udc00b"],
    [5],
    [null],
    [undefined],
    [["a"]],
    [{ toString: () => "a" }],
  ])("%j is refused as invalid-name", (name) => {
    expect(() => checkName(name, "queue")).toThrow(expect.objectContaining({ code: "invalid-name" }));
  });

  test("a text is a name exactly if it has 1 to 255 bytes, nothing hidden and no lone surrogate", () => {
    const text = fc.string({
      unit: fc.oneof(
        fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
        fc.constantFrom("\ud800", "\n", "\u202e", "\u{e0041}", "x"),
      ),
      maxLength: 300,
    });
    fc.assert(
      fc.property(text, (name) => {
        const bytes = new TextEncoder().encode(name).length;
        const isPlain =
          name.isWellFormed() && !/[\p{Cc}\p{Cf}\u2028\u2029]/u.test(name.replace(/[\u200c\u200d]/g, ""));
        const isName = isPlain && bytes >= 1 && bytes <= nameBytesMax;
        try {
          return checkName(name, "tag") === name && isName;
        } catch (error) {
          return isMillraceError(error, "invalid-name") && !isName;
        }
      }),
      { numRuns: 1000 },
    );
  });
});
