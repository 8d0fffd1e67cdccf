// Arguments, as a shell hands them over.
import { describe, expect, test } from "vitest";
import { readArgs, readList, readWhole } from "./read-args.ts";

const known = {
  limit: { value: "N", meaning: "" },
  store: { value: "URL", meaning: "" },
  json: { meaning: "" },
  help: { meaning: "" },
};

function read(...args: string[]): { words: readonly string[]; options: Record<string, string> } {
  const { words, options } = readArgs(args, known);
  return { words, options: Object.fromEntries(options) };
}

describe("arguments", () => {
  test("are words, options with values in two forms, and flags, in any order", () => {
    expect(read("a", "--limit", "1", "b", "--json")).toEqual({
      words: ["a", "b"],
      options: { limit: "1", json: "" },
    });
    expect(read("--limit=1=2", "a")).toEqual({ words: ["a"], options: { limit: "1=2" } });
    expect(read("-h")).toEqual({ words: [], options: { help: "" } });
  });

  test("with one dash are words, and so is everything behind a double dash", () => {
    expect(read("-1", "-x", "-").words).toEqual(["-1", "-x", "-"]);
    expect(read("--json", "--", "--limit", "-h")).toEqual({
      words: ["--limit", "-h"],
      options: { json: "" },
    });
  });

  test("may give a value that starts with dashes behind an equals sign only", () => {
    expect(read("--limit=--json").options).toEqual({ limit: "--json" });
    expect(() => read("--limit", "--json")).toThrow("--limit needs a value: --limit=N.");
  });

  test("leave a blank store as it is, because it means unset, and refuse any other blank", () => {
    expect(read("--store", "").options).toEqual({ store: "" });
    expect(() => read("--limit=")).toThrow("--limit is blank.");
  });

  test.each([["--toString"], ["--__proto__=1"], ["--=1"], ["--json=1"], ["--json", "--json"]])(
    "refuse what is unknown, doubled or too much: %s %s",
    (...args) => {
      expect(() => read(...args)).toThrow(/unknown option|takes no value|given twice/);
    },
  );

  test("are read as whole numbers inside their bounds, and as lists", () => {
    const options = new Map([
      ["n", "12"],
      ["half", "1.5"],
      ["hex", "0x10"],
      ["list", "a, b"],
    ]);
    expect(readWhole(options, "n", [1, 12])).toBe(12);
    expect(readWhole(options, "none", [1, 12])).toBeUndefined();
    for (const name of ["half", "hex"])
      expect(() => readWhole(options, name, [1, 99])).toThrow(/whole number from 1 to 99/);
    expect(() => readWhole(options, "n", [1, 11])).toThrow(/from 1 to 11, not "12"/);
    expect(readList(options, "list")).toEqual(["a", "b"]);
  });
});
