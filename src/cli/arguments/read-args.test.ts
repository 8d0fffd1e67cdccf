// Arguments, as a shell hands them over.
import { describe, expect, test } from "vitest";
import { nodePlatform } from "../../platform/node-platform.ts";
import { didYouMean } from "../../model/did-you-mean.ts";
import { flag, list, text, whole } from "./option-kinds.ts";
import { readArgs } from "./read-args.ts";

const known = { limit: text("N", ""), store: text("URL", ""), json: flag(""), help: flag("") };

function read(...args: string[]): { words: readonly string[]; options: Record<string, string> } {
  const { words, texts } = readArgs(args, known);
  return { words, options: Object.fromEntries(texts) };
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

  test("that are letters after one dash are one word, also with an h among them", () => {
    expect(read("-xyz", "-she", "-h", "--json")).toEqual({
      words: ["-xyz", "-she"],
      options: { help: "", json: "" },
    });
  });

  test("are read as whole numbers inside their bounds, and as lists", () => {
    const n = (given: string, max: number): number => whole("N", "", 1, max).read(given, "--n", nodePlatform);
    expect(n("12", 12)).toBe(12);
    for (const given of ["1.5", "0x10"]) expect(() => n(given, 99)).toThrow(/whole number from 1 to 99/);
    expect(() => n("12", 11)).toThrow(/from 1 to 11, not "12"/);
    expect(list("A,B", "").read("a, b", "--list", nodePlatform)).toEqual(["a", "b"]);
  });

  test("that are nearly right get the name that was meant, and others get no guess", () => {
    expect(() => read("--limt", "1")).toThrow('unknown option "--limt" (did you mean "limit"?).');
    expect(() => read("--colour", "red")).toThrow('unknown option "--colour".');
    expect(didYouMean("lst", ["enqueue", "list", "lest"])).toBe(' (did you mean "list"?)');
  });
});
