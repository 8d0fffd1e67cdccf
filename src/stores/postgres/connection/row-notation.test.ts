import { describe, expect, test } from "vitest";
import { readRowText, rowText, unpackRow } from "./row-notation.ts";

describe("a row as one text", () => {
  test.each([
    ["(1)", ["1"]],
    ["()", [null]],
    ["(,)", [null, null]],
    ['("",a)', ["", "a"]],
    ['(1,"{1,2}",t,)', ["1", "{1,2}", "t", null]],
    ['("say ""hi"", (you)\\\\",x)', ['say "hi", (you)\\', "x"]],
    ['("a\nb","""""")', ["a\nb", '""']],
    ['("\\\\\\\\")', ["\\\\"]],
  ])("%j is read", (line, row) => {
    expect(readRowText(line)).toEqual(row);
  });

  test("a statement that answers anything else is an error", () => {
    expect(rowText("SELECT 1")).toBe("SELECT answer::text AS line FROM (SELECT 1) AS answer");
    expect(unpackRow({ line: "(1)" })).toEqual(["1"]);
    for (const row of [null, {}, { line: 1 }, ["(1)"]])
      expect(() => unpackRow(row)).toThrow(/changed the answer/);
  });
});
