/**
 * Texts and lists as they travel to Postgres and back. Postgres text holds no NUL, and UTF-8 no lone surrogate; Millrace promises that every
 * text comes back as it was given. So what cannot be stored is escaped with \x01, and so are the few characters that lists use:
 *
 *  \x1e  between the items of a list        \x1f  between the fields of an event        \x02  an item that is null
 *
 * A list of texts is one parameter that Postgres splits: faster on both sides than an array literal, which quotes every item.
 */

/** As SQL literals. */
export const itemEnd = "E'\\x1e'";
export const fieldEnd = "E'\\x1f'";
export const nullItem = "E'\\x02'";

const hardCharacters = /[\0-\x02\x1e\x1f]/;
const hardOrSurrogate =
  /[\0-\x02\x1e\x1f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The empty text is escaped too: an empty list and a list of one empty text would look the same. */
export function packText(text: string): string {
  if (text !== "" && !hardCharacters.test(text) && text.isWellFormed()) return text;
  if (text === "") return "\x01e";
  return text.replace(hardOrSurrogate, (hard) => `\x01${hard.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function packNullable(text: string | null): string | null {
  return text === null ? null : packText(text);
}

export function unpackText(packed: string): string {
  if (!packed.includes("\x01")) return packed;
  if (packed === "\x01e") return "";
  return packed.replace(/\x01([0-9a-f]{4})/g, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
}

export function unpackNullable(packed: string | null): string | null {
  return packed === null ? null : unpackText(packed);
}

/** Packed texts as one parameter. */
export function textList(texts: readonly (string | null)[]): string {
  let list = "";
  for (let index = 0; index < texts.length; index++) {
    if (index > 0) list += "\x1e";
    list += texts[index] ?? "\x02";
  }
  return list;
}

/** The same, or null when no item is anything but null: the column is then left out. */
export function sparseTextList(texts: readonly (string | null)[]): string | null {
  return texts.some((text) => text !== null) ? textList(texts) : null;
}

export function numberList(numbers: readonly (number | null)[]): string {
  let list = "{";
  for (let index = 0; index < numbers.length; index++) {
    if (index > 0) list += ",";
    list += numbers[index] ?? "NULL";
  }
  return `${list}}`;
}

export function sparseNumberList(
  numbers: readonly (number | null)[],
  absent: number | null = null,
): string | null {
  return numbers.some((number) => number !== absent) ? numberList(numbers) : null;
}

/** What `string_agg` made of a column: the items, unpacked; null items as null. */
export function readTexts(list: string | null, length: number): (string | null)[] {
  if (list === null) return Array.from({ length }, () => null);
  const items: (string | null)[] = list.split("\x1e");
  const isPacked = list.includes("\x01");
  const hasNull = list.includes("\x02");
  if (!isPacked && !hasNull) return items;
  return items.map((item) => (item === "\x02" || item === null ? null : unpackText(item)));
}

/** An array of numbers as Postgres writes it. */
export function readNumbers(list: string | null): number[] {
  if (list === null || list.length <= 2) return [];
  return list.slice(1, -1).split(",").map(Number);
}

export function readNullableNumbers(list: string | null): (number | null)[] {
  if (list === null || list.length <= 2) return [];
  return list
    .slice(1, -1)
    .split(",")
    .map((item) => (item === "NULL" ? null : Number(item)));
}

export function readNumber(text: string | null): number | null {
  return text === null ? null : Number(text);
}
