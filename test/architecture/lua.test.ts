// The library of Lua functions of the Redis store as a program: luaparse reads all of it, every name is declared, and
// nothing in it is unused. Each rule is proved on a planted violation.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parseSync, Visitor } from "oxc-parser";
import { describe, expect, test } from "vitest";
import { servedFunctions } from "../../scripts/lua/lua-functions.ts";
import { luaNameTrouble } from "../../scripts/lua/lua-names.ts";
import { libraryModules, libraryText } from "../../src/stores/redis/library/library.ts";
import { inOrder, luaModule } from "../../src/stores/redis/library/lua.ts";
import type { LuaModule } from "../../src/stores/redis/library/lua.ts";

/** What the server and Lua 5.1 give to a function of a library. */
const globals = new Set(
  [
    "redis",
    "string",
    "table",
    "math",
    "tonumber",
    "tostring",
    "type",
    "pairs",
    "ipairs",
    "next",
    "unpack",
    "select",
  ]
    .concat(["error", "pcall", "assert", "rawget", "rawset", "rawequal", "setmetatable", "getmetatable"])
    .concat(["cjson", "cmsgpack", "struct", "bit"]),
);

/** The first line names the library for the server and is no Lua. */
const text = libraryText.replace(/^#!.*/, "");
const nameTrouble = (source: string): string[] => luaNameTrouble(source, globals);

/** What a module gives that no other takes. */
function untaken(modules: readonly LuaModule[]): string[] {
  const taken = new Set(modules.flatMap(({ takes }) => takes));
  return modules.flatMap(({ gives }) => gives).filter((name) => !taken.has(name));
}

/** The texts between quotes in a file of TypeScript, and how its templates begin. */
function textsIn(path: string, source: string): string[] {
  const texts: string[] = [];
  new Visitor({
    Literal: ({ value }) => void (typeof value === "string" && texts.push(value)),
    TemplateLiteral: ({ quasis }) => void texts.push(`${quasis[0]?.value.cooked}*`),
  }).visit(parseSync(path, source).program);
  return texts;
}

/** Functions that no text names. An operation of a flush goes by its own name. */
function uncalled(functions: readonly string[], texts: readonly string[]): string[] {
  const names = functions.map((name) => name.replace("OPERATIONS.", ""));
  return names.filter(
    (name) =>
      !texts.some((each) => (each.endsWith("_*") ? name.startsWith(each.slice(0, -1)) : each === name)),
  );
}

function storeTexts(): string[] {
  const folder = join(import.meta.dirname, "..", "..", "src", "stores", "redis");
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".lua.ts") && !path.endsWith(".test.ts"))
    .flatMap((path) => textsIn(path, readFileSync(join(folder, path), "utf8")));
}

describe("the library on Redis", () => {
  test("declares every name, and reads every local, parameter and function", () => {
    expect(nameTrouble(text)).toEqual([]);
  });

  test("has no line of more than 120 columns", () => {
    expect(text.split("\n").filter((line) => line.length > 120)).toEqual([]);
  });

  test("has no module that gives what no other takes", () => {
    expect(untaken(libraryModules)).toEqual([]);
  });

  test("has no function that the store never calls", () => {
    const functions = servedFunctions(text);
    expect(functions).toContain("mr1_enter");
    expect(functions).toContain("OPERATIONS.claim");
    expect(uncalled(functions, storeTexts())).toEqual([]);
  });
});

describe("the check refuses", () => {
  test.each([
    ["a global that nobody gives", "local a = 1\nserve(a)", ["2: serve is not declared"]],
    ["a global that is written", "redis = 1", ["1: redis is written but not declared"]],
    ["a local that is only written", "local a\na = 1", ["1: nothing reads the local a"]],
    [
      "a function that only calls itself",
      "local function f() return f() end",
      ["1: nothing reads the function f"],
    ],
    [
      "the last parameter, unread",
      "return function(a, b) return a end",
      ["1: nothing reads the parameter b"],
    ],
    ["a loop variable, unread", "for i = 1, 2 do redis.call() end", ["1: nothing reads the loop variable i"]],
    ["a name out of its scope", "do local a = 1 redis.call(a) end\nreturn a", ["2: a is not declared"]],
  ])("%s", (_, source, trouble) => {
    expect(nameTrouble(source)).toEqual(trouble);
  });

  test("what is no Lua", () => {
    expect(() => nameTrouble("local a = = 1")).toThrow(/unexpected symbol|<expression> expected/);
  });

  test("names that modules give and take", () => {
    const from = luaModule({ name: "a", gives: ["used unused"], source: "" });
    const to = luaModule({ name: "b", takes: ["used"], source: "" });
    expect(untaken([from, to])).toEqual(["unused"]);
    expect(inOrder([to, from])).toEqual([from, to]);
    expect(() => inOrder([to])).toThrow("b takes used, which no module gives");
    expect(() => inOrder([from, { ...from, name: "c" }])).toThrow("c and a give used");
    expect(() => inOrder([{ ...from, takes: ["unused"] }])).toThrow("a takes what takes from it");
  });

  test("a served function that no text names", () => {
    const functions = servedFunctions(
      'serve("a", x)\nserveAll("b_c", x)\nfunction OPERATIONS.d(c) return c end',
    );
    expect(functions).toEqual(["mr1_a", "mr1_b_c", "OPERATIONS.d"]);
    expect(uncalled(functions, textsIn("a.ts", "call(`mr1_b_${what}`);\n// mr1_a\ncall('d');"))).toEqual([
      "mr1_a",
    ]);
  });

  test("nothing of a parameter that keeps the place of the next", () => {
    expect(nameTrouble("return function(a, b) return b end")).toEqual([]);
  });
});
