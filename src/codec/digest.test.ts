import { describe, expect, it } from "vitest";
import { canonicalText, compilePick, digestText } from "./digest.ts";

describe("canonical text", () => {
  it("does not depend on the order of keys, Map entries and Set items, nor on undefined properties", () => {
    expect(canonicalText({ b: 1, a: [2, { d: 3, c: 4 }] })).toBe('{"a":[2,{"c":4,"d":3}],"b":1}');
    expect(canonicalText({ a: undefined, b: 1 })).toBe(canonicalText({ b: 1 }));
    expect(canonicalText(new Set([2, 1]))).toBe(canonicalText(new Set([1, 2])));
    expect(
      canonicalText(
        new Map([
          ["b", 1],
          ["a", 2],
        ]),
      ),
    ).toBe(
      canonicalText(
        new Map([
          ["a", 2],
          ["b", 1],
        ]),
      ),
    );
  });

  it("tells types apart that look alike", () => {
    const alike = [
      1,
      "1",
      1n,
      [1],
      { 0: 1 },
      new Set([1]),
      new Map([[0, 1]]),
      null,
      "null",
      undefined,
      new Date(1),
      new Date(1).toISOString(),
      { "~bigint": "1" },
    ];
    expect(new Set(alike.map((value) => canonicalText(value))).size).toBe(alike.length);
    expect(canonicalText([1, 2])).not.toBe(canonicalText([2, 1]));
  });

  it("refuses what a payload cannot carry", () => {
    expect(() => canonicalText([() => 1], "input")).toThrow(/^input\[0\] is a function/);
  });
});

describe("digests", () => {
  it("are stable, short and safe in a key", () => {
    expect(digestText("")).toBe("47DEQpj8HBSa-_TImW-5JA");
    expect(digestText("abc")).toBe("ungWv48Bz-pBQUDeXa4iIw");
    expect(digestText("€")).toMatch(/^[\w-]{22}$/);
  });
});

describe("picked fields", () => {
  const pick = (value: unknown, paths: readonly string[]): unknown[] => compilePick(paths, "fields")(value);

  it("come in the order of the paths", () => {
    const value = { user: { id: 7, name: null }, list: ["a", "b"], map: new Map([["k", 1]]) };
    expect(pick(value, ["list.1", "user.id", "user.name", "map.k", "list.length"])).toEqual([
      ...["b", 7, null, 1, 2],
    ]);
  });

  it("that the value does not have are refused, and so is a prototype's", () => {
    for (const path of ["nam", "user.name.first", "list.7", "__proto__", "constructor.name", "toString"])
      expect(() => pick({ user: { name: "x" }, list: [] }, [path]), path).toThrow(
        /^fields: the input has no field/,
      );
  });

  it("must name one field", () => {
    expect(() => pick({}, ["items.*"])).toThrow(expect.objectContaining({ code: "invalid-option" }));
  });
});
