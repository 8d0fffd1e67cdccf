/**
 * One part of the library with a scope of its own: a function that gives its exports back. The parts behind it see these names and no
 * other of its own. A Lua function has at most 200 locals and 60 outer names; library.test.ts watches how much of that is left.
 */
export interface LuaModule {
  readonly exports: readonly string[];
  readonly source: string;
}

export function luaOf({ exports, source }: LuaModule): string {
  const names = exports.join(", ");
  // The semicolon parts a call in brackets from the line before it.
  if (names === "") return `;(function()\n${source}\nend)()\n`;
  return `local ${names} = (function()\n${source}\nreturn ${names}\nend)()\n`;
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
