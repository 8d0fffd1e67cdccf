/**
 * What a store sends to its server as program text, function by function, as it is after everything is put together.
 * `npm run assembled` prints it, and the snapshots beside this file keep it, so that a review sees what has changed.
 */
import { tablesSql } from "../../src/stores/postgres/connection/schema.sql.ts";
import { functionsSql } from "../../src/stores/postgres/functions/all-functions.sql.ts";
import { functionText, servedFunctions } from "../../scripts/lua/lua-functions.ts";
import { libraryModules, libraryText } from "../../src/stores/redis/library/library.ts";
import { luaModuleText } from "../../src/stores/redis/library/lua.ts";

interface AssembledStore {
  /** Of the language, as an editor knows it. */
  readonly extension: string;
  /** The texts by the names of the functions, or of the modules that hold them. */
  readonly texts: () => ReadonlyMap<string, string>;
  /** Of functions that modules hold: one of them with all that it calls, and the names of all. */
  readonly functionText?: (name: string) => string | undefined;
  readonly functions?: () => readonly string[];
}

/** Its first line names the library for the server and is no Lua. */
const redisLua = libraryText.replace(/^#!.*\n/, "");

export const assembledStores: Readonly<Record<string, AssembledStore>> = {
  postgres: { extension: "sql", texts: postgresTexts },
  redis: {
    extension: "lua",
    texts: redisTexts,
    functionText: (name) => functionText(redisLua, name),
    functions: () => servedFunctions(redisLua),
  },
};

function postgresTexts(): ReadonlyMap<string, string> {
  const texts = new Map([["tables", tablesSql]]);
  for (const text of functionsSql.split(/(?<=^(?:END )?\$\$;)\n+/m)) {
    const name = /^CREATE FUNCTION @(\w+)/m.exec(text)?.[1];
    if (name === undefined || texts.has(name)) throw new Error(`not one function of its own: ${text}`);
    texts.set(name, text);
  }
  return texts;
}

function redisTexts(): ReadonlyMap<string, string> {
  const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
  // What the modules stand between, too: names that all of them see, and how the library says its build.
  const modules = libraryModules.map(
    (module) => [nameOf(module.name), luaModuleText(module).trimEnd()] as const,
  );
  const [before = "", ...others] = redisLua.split(/^-- [a-z-]+\/[a-z-]+\nmodule\(/m);
  if (others.length !== modules.length) throw new Error("the library has other modules than its list");
  return new Map([["constants", before.trim()], ...modules]);
}
