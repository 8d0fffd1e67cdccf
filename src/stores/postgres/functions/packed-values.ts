/**
 * Texts and lists in the form in which they are sent to Postgres and back; store/packing/packed-text.ts says how a text
 * is escaped. A list of texts is one parameter that Postgres splits. That is faster on both sides than an array
 * literal, which quotes every item.
 */
import { packItems, packText, unpackText } from "../../../store/packing/packed-text.ts";
import type { Value } from "../connection/database.ts";

export { packText, unpackText };

/** Separators as SQL literals. */
export const itemEnd = "E'\\x1e'";
export const fieldEnd = "E'\\x1f'";
export const nullItem = "E'\\x02'";

/** The items of a list that came as one text. */
export const texts = (parameter: string): string => `string_to_array(${parameter}, ${itemEnd}, ${nullItem})`;

/** A value as Postgres reads it from text. */
export function valueText(value: Value): string | null {
  if (value === null || typeof value === "string") return value;
  if (typeof value !== "object") return String(value);
  return `{${value.map((item) => `"${item.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

export function packNullable(text: string | null | undefined): string | null {
  return text === null || text === undefined ? null : packText(text);
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

/** The same, or null if all items are null: the column is then left out. */
export function sparseTextList(texts: readonly (string | null)[]): string | null {
  return texts.some((text) => text !== null) ? textList(texts) : null;
}

/** The same for texts that are not packed yet. */
export function packedList(texts: readonly (string | null)[]): string | null {
  if (texts.includes(null)) return sparseTextList(texts.map(packNullable));
  return texts.length === 0 ? null : packItems(texts as readonly string[]);
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

/** One item if all are the same; null if there is none. */
export function briefNumberList(numbers: readonly number[]): string | null {
  const [first] = numbers;
  if (first === undefined) return null;
  return numbers.every((number) => number === first) ? `{${first}}` : numberList(numbers);
}

/**
 * The item at an index of a column that has one item if all are the same. Filling a list with that item took longer
 * than reading all other columns.
 */
export function itemAt<Item>(items: readonly Item[], index: number): Item {
  return items[items.length === 1 ? 0 : index] as Item;
}

const nothing = [null] as const;

/** The items of a column that `string_agg` joined, unpacked; null items as null. Without a list all are null. */
export function readTexts(list: string | null): readonly (string | null)[] {
  if (list === null) return nothing;
  const items = list.split("\x1e");
  if (!list.includes("\x01") && !list.includes("\x02")) return items;
  return items.map((item) => (item === "\x02" ? null : unpackText(item)));
}

/** The first fields of an answer, and after them its events, which contain the same separator. */
export function splitEvents(answer: string, count: number): string[] {
  const fields = answer.split("\x1f");
  return [...fields.slice(0, count), fields.slice(count).join("\x1f")];
}

/**
 * An array of numbers as Postgres writes it. Except for its braces it is JSON; splitting it and reading each item took
 * three times as long.
 */
export function readNumbers(list: string | null): number[] {
  return list === null ? [] : (JSON.parse(`[${list.slice(1, -1)}]`) as number[]);
}

/** A list of numbers as a claim answers it: one item if all are the same, no list if all are null. */
export function readBrief(list: string | null): readonly (number | null)[] {
  if (list === null) return nothing;
  return readNumbers(list.includes("NULL") ? list.replaceAll("NULL", "null") : list);
}

export function readNumber(text: string | null): number | null {
  return text === null ? null : Number(text);
}
