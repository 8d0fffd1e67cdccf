// How the command line writes: escaped text, JSON, tables and times.
import { describe, expect, test } from "vitest";
import { escapeJson, escapeText, shorten } from "./escape.ts";
import { formatTable } from "./format-table.ts";
import { formatAge } from "./format-time.ts";
import { toJson, toJsonLine } from "./print-json.ts";

describe("escaping", () => {
  test("turns every control, direction mark and line separator into its escape, and nothing else", () => {
    expect(escapeText("\u001b[31m\u009b\u0000\u007f\n\t\u2028\u202e\u2066")).toBe(
      "\\u001b[31m\\u009b\\u0000\\u007f\\n\\t\\u2028\\u202e\\u2066",
    );
    const plain = `ünïcödé 日本 🎉 "quotes" \\ back`;
    expect(escapeText(plain)).toBe(plain);
  });

  test("replaces a lone surrogate, which no terminal can show", () => {
    expect(escapeText("a\ud800b")).toBe("a\ufffdb");
  });

  test("shows what hides, joins or reorders text", () => {
    expect(escapeText("a\u00adb\u202ec\u{e0041}d\u200de")).toBe("a\\u00adb\\u202ec\\udb40\\udc41d\\u200de");
  });

  test("of JSON keeps its value", () => {
    const value = { "\u009b\u202e": "\u2028\u007f\u200b" };
    const json = escapeJson(JSON.stringify(value));
    expect(json).not.toMatch(/[\u007f-\u009f\u2028\u202e\u200b]/);
    expect(JSON.parse(json)).toEqual(value);
  });

  test("comes before shortening, which counts whole characters", () => {
    expect(shorten("🎉🎉🎉🎉", 3)).toBe("🎉🎉…");
    expect(shorten("abc", 3)).toBe("abc");
    expect(shorten("\u001bx", 4)).toBe("\\u0…");
  });
});

describe("JSON", () => {
  test("shows what JSON has no word for as people would write it", () => {
    const value = [
      1n,
      Number.POSITIVE_INFINITY,
      new Date(0),
      new Date(Number.NaN),
      new Uint8Array([255]),
      new Map([["a", 1n]]),
    ];
    expect(toJsonLine(value)).toBe(
      '["1","Infinity","1970-01-01T00:00:00.000Z","Invalid Date","/w==",[["a","1"]]]',
    );
    expect(toJson(undefined)).toBe("null");
    expect(toJsonLine(undefined)).toBe("undefined");
  });

  test("keeps a field that is called __proto__", () => {
    expect(toJsonLine(JSON.parse('{"__proto__":{"a":1}}'))).toBe('{"__proto__":{"a":1}}');
  });
});

describe("tables", () => {
  test("are as wide as their widest cell, numbers to the right, one line per row", () => {
    const columns = [{ title: "name", charsMax: 5 }, { title: "n", isNumber: true }, { title: "" }];
    expect(
      formatTable(columns, [
        ["abcdefg", "10", "x"],
        ["b\nc", "9", ""],
      ]),
    ).toBe("name    n\nabcd…  10  x\nb\\nc    9");
  });
});

describe("times", () => {
  test("lie behind or ahead", () => {
    expect(formatAge(new Date(1000), 3000)).toBe("2s ago");
    expect(formatAge(new Date(3000), 1000)).toBe("in 2s");
  });
});
