/**
 * What Postgres does not check when it loads a function: the names in a body of PL/pgSQL, which it looks up when the
 * statement runs. (The syntax of every statement is checked by the load, which the tests of the store begin with.)
 */
import { describe, expect, test } from "vitest";
import { assembledStores } from "./assembled-stores.ts";

const columnsMax = 120;
const texts = assembledStores["postgres"]?.texts() ?? new Map<string, string>();
const functions = [...texts].filter(([name]) => name !== "tables");
const inTables = [...(texts.get("tables") ?? "").matchAll(/CREATE (?:UNLOGGED )?(?:TABLE|SEQUENCE) @(\w+)/g)];
const made = new Set([...inTables.map(([, name]) => name), ...functions.map(([name]) => name)]);

const plain = (text: string): string => text.replaceAll(/--.*$/gm, "").replaceAll(/'(?:[^']|'')*'/g, "''");
const namesIn = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([, name]) => name ?? "");

/** Parameters (p_) and variables (v_) that a text declares, and all that it names. */
export function variablesOf(text: string): { declared: string[]; used: string[] } {
  const code = plain(text);
  const body = code.indexOf("$$");
  const head = namesIn(code.slice(0, body), /[(,]\s*(?:OUT |INOUT )?([pv]_\w+) /g);
  const declare = /DECLARE([^]*?)\nBEGIN/.exec(code.slice(body))?.[1] ?? "";
  const variables = namesIn(declare, /(?:^|;)\s*([pv]_\w+) /g);
  const loops = namesIn(code, /\bFOR ([pv]_\w+) IN\b/g);
  const declared = [...head, ...variables];
  const counts = new Map<string, number>();
  for (const name of namesIn(code, /\b([pv]_\w+)/g)) counts.set(name, (counts.get(name) ?? 0) + 1);
  const isUsed = (name: string): boolean => (counts.get(name) ?? 0) > (declared.includes(name) ? 1 : 0);
  return { declared: [...declared, ...loops], used: [...counts.keys()].filter(isUsed) };
}

describe.each(functions)("%s", (name, text) => {
  test("names tables, sequences and functions that are there", () => {
    const named = namesIn(plain(text), /(?<!\w)@(\w+)/g);
    expect(named.filter((each) => !made.has(each))).toEqual([]);
  });

  test("declares the variables that it uses, and uses those that it declares", () => {
    const { declared, used } = variablesOf(text);
    expect(used.filter((each) => !declared.includes(each))).toEqual([]);
    expect(declared.filter((each) => !used.includes(each))).toEqual([]);
  });
});

test(`no line is wider than ${columnsMax} columns`, () => {
  const wide = [...texts].flatMap(([name, text]) =>
    text.split("\n").flatMap((line, at) => (line.length > columnsMax ? [`${name}:${at + 1}`] : [])),
  );
  expect(wide).toEqual([]);
});

test("a planted unknown name and an unused variable are found", () => {
  const text =
    "CREATE FUNCTION @f(p_a int4, p_b int4) AS $$\nDECLARE v_c int4; v_d int4;\nBEGIN\n  v_d := p_a + v_x;\nEND $$;";
  expect(variablesOf(text)).toEqual({ declared: ["p_a", "p_b", "v_c", "v_d"], used: ["p_a", "v_d", "v_x"] });
});
