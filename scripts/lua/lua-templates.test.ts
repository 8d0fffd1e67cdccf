import { expect, test } from "vitest";
import { formatLuaTemplates } from "./lua-templates.ts";

const file = (...lines: string[]): string => ["const a = lua`", ...lines, "`;", ""].join("\n");

test("a template of Lua is formatted, and what it puts in stays", () => {
  const source = file(
    "local a   = ${one(`x`)}",
    "if a then",
    "  ${two({ b: 3 })}",
    "end",
    'return "${one(`x`)}"',
  );
  const formatted = file(
    ...["local a = ${one(`x`)}", "if a then", "  ${two({ b: 3 })}", "end"],
    'return "${one(`x`)}"',
  );
  expect(formatLuaTemplates("a.ts", source)).toBe(formatted);
  expect(formatLuaTemplates("a.ts", formatted)).toBe(formatted);
});

test("ten and more holes are told apart", () => {
  const source = file(...Array.from({ length: 12 }, (_, at) => `local a${at} = \${b${at}}`));
  expect(formatLuaTemplates("a.ts", source)).toBe(source);
});

test("other templates are left", () => {
  const source = "const a = sql`select   1`;\n";
  expect(formatLuaTemplates("a.ts", source)).toBe(source);
});
