/**
 * Packed texts: how the stores on Postgres and Redis write a text into a list, a record or an event whose parts are
 * joined by control characters. Every text must come back as it was given, but Postgres stores no NUL and UTF-8 has no
 * lone surrogates. So a packed text escapes these as \x01 and four hex digits, and also the control characters that
 * join:
 *
 *  \x1e  between the items of a list        \x1f  between the fields of a record        \x02  an item that is null
 */
export const itemEnd = "\x1e";
export const fieldEnd = "\x1f";
/** Begins every escape. A list without this character has no escaped text, so it needs no unpacking. */
export const escapeMark = "\x01";

const hardCharacters = /[\0-\x02\x1e\x1f]/;
const hardInFields = /[\0-\x02\x1e]/;
const hardInItems = /[\0-\x02\x1f]/;
const hardOrSurrogate =
  /[\0-\x02\x1e\x1f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The empty text is escaped as "\x01e", because an empty list and a list of one empty text would look the same. */
export function packText(text: string): string {
  if (text !== "" && !hardCharacters.test(text) && text.isWellFormed()) return text;
  if (text === "") return "\x01e";
  return text.replace(hardOrSurrogate, (hard) => `\x01${hard.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * Packed texts as the fields of a record. Mostly none needs an escape: one check of all costs a third of a check of
 * each.
 */
export function packJoined(texts: readonly string[]): string {
  return packAll(texts, fieldEnd, hardInFields);
}

/** The same as the items of a list. */
export function packItems(texts: readonly string[]): string {
  return packAll(texts, itemEnd, hardInItems);
}

/** `hard` matches everything that needs an escape except the separator. */
function packAll(texts: readonly string[], separator: string, hard: RegExp): string {
  const joined = texts.join(separator);
  const isEasy =
    !hard.test(joined) && joined.isWellFormed() && hasParts(joined, { separator, count: texts.length });
  return isEasy ? joined : texts.map(packText).join(separator);
}

/** Whether this number of parts was joined, none of them empty: then no part contains the separator. */
function hasParts(
  joined: string,
  { separator, count }: { readonly separator: string; readonly count: number },
): boolean {
  let parts = 1;
  let from = 0;
  for (;;) {
    const end = joined.indexOf(separator, from);
    if (end === from) return false;
    if (end < 0) return from < joined.length && parts === count;
    parts += 1;
    from = end + 1;
  }
}

export function unpackText(packed: string): string {
  if (!packed.includes(escapeMark)) return packed;
  if (packed === "\x01e") return "";
  return packed.replace(/\x01([0-9a-f]{4})/g, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
}
