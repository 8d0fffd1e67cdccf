/**
 * Puts the library together of its modules. A module names what it takes of others and what it gives to them, and has a
 * scope of its own: a Lua function has at most 200 locals and 60 names from outside; library.test.ts watches how much
 * of that is left. Also writes values as Lua has them.
 */

/** A template of Lua, which editors highlight by this name. What is put in keeps the indentation of its line. */
export function lua(strings: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  const indented = values.map((value, at) => {
    const line = (strings.raw[at] as string).split("\n").at(-1) as string;
    return String(value).replaceAll("\n", `\n${line.slice(0, line.length - line.trimStart().length)}`);
  });
  return String.raw(strings, ...indented);
}

export interface LuaModule {
  /** The path of its file in this store's folder, without its ending. */
  readonly name: string;
  /** Names that other modules give. */
  readonly takes: readonly string[];
  /** Names of its own that others may take; no two modules give the same. */
  readonly gives: readonly string[];
  readonly source: string;
}

/** Each text of takes and gives has several names by spaces. */
export function luaModule(module: Partial<LuaModule> & Pick<LuaModule, "name" | "source">): LuaModule {
  const { name, takes = [], gives = [], source } = module;
  const namesIn = (texts: readonly string[]): string[] => texts.flatMap((text) => text.split(" "));
  return { name, takes: namesIn(takes), gives: namesIn(gives), source: source.trim() };
}

/** Modules, each after those that it takes from. */
export function inOrder(modules: readonly LuaModule[]): readonly LuaModule[] {
  const giverOf = new Map<string, LuaModule>();
  for (const module of modules)
    for (const name of module.gives) {
      if (giverOf.has(name)) throw new Error(`${module.name} and ${giverOf.get(name)?.name} give ${name}`);
      giverOf.set(name, module);
    }
  const ordered = new Set<LuaModule>();
  const add = (module: LuaModule, users: readonly LuaModule[]): void => {
    if (users.includes(module)) throw new Error(`${module.name} takes what takes from it`);
    for (const name of module.takes) {
      const from = giverOf.get(name);
      if (from === undefined) throw new Error(`${module.name} takes ${name}, which no module gives`);
      if (!ordered.has(from)) add(from, [...users, module]);
    }
    ordered.add(module);
  };
  for (const module of modules) add(module, []);
  return [...ordered];
}

/** A module as it stands in the library. M has all that modules give. */
export function luaModuleText({ name, takes, gives, source }: LuaModule): string {
  const ofM = (names: readonly string[]): string => names.map((each) => `M.${each}`).join(", ");
  const taken = inLines(takes).map((names) => `local ${names.join(", ")} = ${ofM(names)}\n`);
  const given = inLines(gives).map((names) => `${ofM(names)} = ${names.join(", ")}\n`);
  return `-- ${name}\nmodule(function()\n${taken.join("")}\n${source}\n\n${given.join("")}end)\n`;
}

export function luaOf(modules: readonly LuaModule[]): string {
  const texts = modules.map(luaModuleText);
  return `local M = {}\nlocal function module(define) define() end\n\n${texts.join("\n")}`;
}

/** As many words on each line as fit where each is named twice. */
function inLines(words: readonly string[]): string[][] {
  const lines: string[][] = [];
  let width = Infinity;
  for (const word of words) {
    width += 2 * word.length + 6;
    if (width > 110) {
      lines.push([]);
      width = 2 * word.length + 6;
    }
    lines.at(-1)?.push(word);
  }
  return lines;
}

/**
 * A list that goes on in the next line. before: an operator that stands before each item but the first; else commas.
 */
export function wrapped(
  items: readonly string[],
  { before = "" }: { readonly before?: string } = {},
): string {
  const lines = [""];
  for (const [at, item] of items.entries()) {
    const text =
      before === "" ? `${item}${at === items.length - 1 ? "" : ","}` : `${at === 0 ? "" : before}${item}`;
    const line = lines.at(-1) as string;
    if (line !== "" && line.length + text.length > 72) lines.push(text);
    else lines[lines.length - 1] = line === "" ? text : `${line} ${text}`;
  }
  return lines.join("\n  ");
}

/** A text between quotes, for Lua. */
export function luaText(text: string): string {
  const escaped = text.replaceAll(
    /["\\]|[^\x20-\x7e]/g,
    (hard) => `\\${String(hard.charCodeAt(0)).padStart(3, "0")}`,
  );
  return `"${escaped}"`;
}

export function luaList(texts: readonly string[]): string {
  return `{ ${wrapped(texts.map(luaText))} }`;
}

/** A table that has these keys, each an expression, and nothing but true. */
export function luaSet(keys: readonly string[]): string {
  return `{ ${wrapped(keys.map((key) => `[${key}] = true`))} }`;
}

/** RETRY_SCHEDULED for retry-scheduled: a constant's name. */
export function luaConstant(word: string): string {
  return word.toUpperCase().replaceAll("-", "_");
}

/** `local A, B = "1", "2"`, of a table of codes. */
export function luaConstants(codes: Readonly<Record<string, string | number>>, prefix = ""): string {
  const names = Object.keys(codes).map((word) => `${prefix}${luaConstant(word)}`);
  const values = Object.values(codes).map((code) => luaText(String(code)));
  return `local ${wrapped(names)} =\n  ${wrapped(values)}`;
}
