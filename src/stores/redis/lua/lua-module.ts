/**
 * One part of the library with a scope of its own: a function that puts its exports into the table M, from which the
 * parts behind it take what they name. A Lua function has at most 200 locals and 60 names from outside; library.test.ts
 * watches how much of that is left.
 */
export interface LuaModule {
  readonly exports: readonly string[];
  readonly source: string;
}

/** The modules in the order in which they use each other. */
export function luaOf(modules: readonly LuaModule[]): string {
  const known: string[] = [];
  const texts = modules.map(({ exports, source }) => {
    const taken = known.filter((name) => new RegExp(String.raw`(?<![.\w])${name}\b`).test(source));
    known.push(...exports);
    const inM = (names: readonly string[]): string => names.map((name) => `M.${name}`).join(", ");
    const imports = taken.length === 0 ? "" : `local ${taken.join(", ")} = ${inM(taken)}\n`;
    const gives = exports.length === 0 ? "" : `${inM(exports)} = ${exports.join(", ")}\n`;
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
