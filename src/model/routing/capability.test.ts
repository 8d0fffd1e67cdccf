import { describe, expect, test } from "vitest";
import { missingCapabilities, readCapabilities } from "./capability.ts";

const read = (given: unknown): readonly string[] => readCapabilities(given, "requires", 3);

describe("a list of capabilities", () => {
  test("is sorted and without repeats, so that one set is one list", () => {
    expect(read(["gpu", "eu", "gpu"])).toEqual(["eu", "gpu"]);
    expect(read(["eu", "gpu"])).toEqual(read(["gpu", "eu"]));
    expect(read([])).toEqual([]);
  });

  test("has up to N names, counted without repeats", () => {
    expect(read(["a", "b", "c", "a"])).toHaveLength(3);
    expect(() => read(["a", "b", "c", "d"])).toThrow(
      expect.objectContaining({
        code: "invalid-option",
        message: "requires has 4 names; at most 3 are allowed.",
      }),
    );
  });

  test.each([
    ["gpu", "string"],
    [null, "null"],
    [{ gpu: true }, "object"],
    [7, "number"],
  ])("is refused when it is %j", (given, kind) => {
    expect(() => read(given)).toThrow(
      expect.objectContaining({
        code: "invalid-option",
        message: `requires must be a list of names, such as ["gpu"], not ${kind}.`,
      }),
    );
  });

  test.each([[""], [7], ["a\nb"], ["x".repeat(256)], ["\ud800"], [null]])(
    "is refused when %j is in it",
    (name) => {
      expect(() => read(["eu", name])).toThrow(expect.objectContaining({ code: "invalid-name" }));
    },
  );
});

test("what is missing is what was asked for and is not offered", () => {
  expect(missingCapabilities(["eu", "gpu"], ["gpu", "ssd"])).toEqual(["eu"]);
  expect(missingCapabilities(["eu"], new Set(["eu"]))).toEqual([]);
  expect(missingCapabilities([], [])).toEqual([]);
});
