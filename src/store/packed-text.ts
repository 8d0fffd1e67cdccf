/**
 * Texts as they stand in the records, lists and events of stores that join them with control characters. Millrace promises that every text
 * comes back as it was given; yet Postgres holds no NUL, and UTF-8 no lone surrogate. So these are escaped with \x01, and so are
 * the characters that lists use:
 *
 *  \x1e  between the items of a list        \x1f  between the fields of a record        \x02  an item that is null
 */
export const itemEnd = "\x1e";
export const fieldEnd = "\x1f";
/** Absent from a list: none of its texts is escaped. */
export const escapeMark = "\x01";

const hardCharacters = /[\0-\x02\x1e\x1f]/;
const hardOrSurrogate =
  /[\0-\x02\x1e\x1f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The empty text is escaped too: an empty list and a list of one empty text would look the same. */
export function packText(text: string): string {
  if (text !== "" && !hardCharacters.test(text) && text.isWellFormed()) return text;
  if (text === "") return "\x01e";
  return text.replace(hardOrSurrogate, (hard) => `\x01${hard.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function unpackText(packed: string): string {
  if (!packed.includes(escapeMark)) return packed;
  if (packed === "\x01e") return "";
  return packed.replace(/\x01([0-9a-f]{4})/g, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
}
