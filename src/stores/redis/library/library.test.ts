/**
 * The library has room to grow: Lua allows a function 200 locals and 60 names from outside it, and a pattern 32
 * captures. A real server loads it with as much more of each as should be left, and works with it.
 */
import { describe, expect, test } from "vitest";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { buildLibrary, libraryModules, libraryOf } from "./library.ts";
import type { LuaModule } from "./lua.ts";

const redis = useOwnRedis();

const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, at) => `${prefix}${at}`);
const localsOf = (own: readonly string[]): string => own.map((name) => `local ${name} = 1\n`).join("");
const load = (modules: readonly LuaModule[], before = ""): Promise<unknown> =>
  redis.admin.call("FUNCTION", "LOAD", "REPLACE", libraryOf(before + buildLibrary({ modules })));
const inEach = (before: string): LuaModule[] =>
  libraryModules.map((module) => ({ ...module, source: before + module.source }));

describe("a real server loads the library", () => {
  test("with 100 more names that everybody sees, and not with 200", async () => {
    await load(libraryModules, localsOf(names("more", 100)));
    await expect(load(libraryModules, localsOf(names("more", 200)))).rejects.toThrow(/200 local variables/);
  });

  test("with 100 more names of its own in each module", async () => {
    await expect(load(inEach(localsOf(names("own", 100))))).resolves.toBeDefined();
  });

  test("with 10 more names from outside in each module", async () => {
    const outer = names("outer", 10);
    const source = `local function sum() return ${outer.join(" + ")} end\n`;
    await expect(load(inEach(source), localsOf(outer))).resolves.toBeDefined();
  });
});

test("no pattern has more than 32 captures", () => {
  const patterns = [...buildLibrary().matchAll(/"\^[^"]*"/g)].map(([pattern]) => pattern);
  expect(patterns.length).toBeGreaterThan(10);
  for (const pattern of patterns) expect(pattern.split("(").length - 1).toBeLessThanOrEqual(32);
});
