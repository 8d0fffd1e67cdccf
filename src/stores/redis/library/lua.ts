/**
 * Puts the library together of its modules, each a text of Lua with a scope of its own, and writes values as Lua has
 * them. A Lua function has at most 200 locals and 60 names from outside; library.test.ts watches how much of that is
 * left.
 */

/** What a module defines at the margin. */
const definition = /^local (?:function )?(\w+(?:, \w+)*)/gm;

/**
 * The modules in the order in which they use each other. What one module alone defines, those behind it may use; a name
 * that several define is each one's own.
 */
export function luaOf(modules: readonly string[]): string {
  const all = modules.map(
    (source) => new Set([...source.matchAll(definition)].flatMap(([, names = ""]) => names.split(", "))),
  );
  const isShared = (name: string): boolean => all.filter((names) => names.has(name)).length === 1;
  const known: string[] = [];
  const texts = modules.map((source, at) => {
    const taken = known.filter((name) => new RegExp(String.raw`(?<![.\w])${name}\b`).test(source));
    const given = [...(all[at] as Set<string>)].filter(isShared);
    known.push(...given);
    const inM = (names: readonly string[]): string => names.map((name) => `M.${name}`).join(", ");
    const imports = taken.length === 0 ? "" : `local ${taken.join(", ")} = ${inM(taken)}\n`;
    const gives = given.length === 0 ? "" : `${inM(given)} = ${given.join(", ")}\n`;
    // The semicolon parts a call in brackets from the line before it.
    return `;(function()\n${imports}${source}\n${gives}end)()\n`;
  });
  return `local M = {}\n${texts.join("")}`;
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
  return `{ ${texts.map(luaText).join(", ")} }`;
}

/** RETRY_SCHEDULED for retry-scheduled: a constant's name. */
export function luaConstant(word: string): string {
  return word.toUpperCase().replaceAll("-", "_");
}

/** `local A, B = "1", "2"`, of a table of codes. */
export function luaConstants(codes: Readonly<Record<string, string | number>>, prefix = ""): string {
  const names = Object.keys(codes).map((word) => `${prefix}${luaConstant(word)}`);
  const values = Object.values(codes).map((code) => luaText(String(code)));
  return `local ${names.join(", ")} = ${values.join(", ")}`;
}
