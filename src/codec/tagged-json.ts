/**
 * JSON with tags, for values that standard JSON would lose. The text after the leading `~`:
 *
 *   {"~date":"2026-01-31T00:00:00.000Z"}   Date; null for an invalid one
 *   {"~bigint":"-12"}                      bigint
 *   {"~number":"NaN"}                      NaN, Infinity, -Infinity, -0
 *   {"~undefined":true}                    undefined in an array, a Map or a Set, or on its own
 *   {"~bytes":"base64"}                    Uint8Array; "~buffer" a Buffer, "~arraybuffer" an ArrayBuffer
 *   {"~map":[[key,value],...]}             Map            {"~set":[item,...]}   Set
 *   {"~~":{"~date":1}}                     a user's object that would read as a tag: one key, starting with ~
 *
 * Everything else that is not standard JSON is refused by its path. The text is written directly, not through a copy of
 * the value, so a key named `__proto__` is text like any other; reading writes only to properties that JSON.parse made.
 */
import { isAnyArrayBuffer, isDate, isMap, isSet, isSharedArrayBuffer, isUint8Array } from "node:util/types";
import type { MillraceError } from "../model/error.ts";
import { depthMax } from "./codec.ts";
import {
  describeRefused,
  isPlainObject,
  notEncodable,
  prototypeLevels,
  tooLarge,
  segmentsText,
  unreadable,
} from "./refusal.ts";

interface TaggedWriterOptions {
  readonly what: string;
  readonly maxBytes: number;
  /** Keys, Map entries and Set items in a fixed order: equal values make equal texts. */
  readonly sorted: boolean;
}

export class TaggedWriter {
  readonly #what: string;
  readonly #maxBytes: number;
  readonly #sorted: boolean;
  /** The position of the walk: one segment per open container, for messages only. */
  readonly #segments: string[] = [];
  readonly #open: object[] = [];
  #charactersLeft: number;

  constructor(options: TaggedWriterOptions) {
    this.#what = options.what;
    this.#maxBytes = options.maxBytes;
    this.#sorted = options.sorted;
    this.#charactersLeft = options.maxBytes;
  }

  write(value: unknown): string {
    if (typeof value === "object" && value !== null) return this.#container(value);
    const text = this.#primitive(value);
    this.#spend(text.length);
    return text;
  }

  #primitive(value: unknown): string {
    switch (typeof value) {
      case "number":
        if (Number.isFinite(value) && !Object.is(value, -0)) return String(value);
        return `{"~number":"${Object.is(value, -0) ? "-0" : value}"}`;
      case "bigint":
        return `{"~bigint":"${value}"}`;
      case "undefined":
        return `{"~undefined":true}`;
      case "function":
      case "symbol":
        throw this.#refusal(`is a ${typeof value}`, "leave it out or pass plain values");
      default:
        return JSON.stringify(value);
    }
  }

  #container(value: object): string {
    if (this.#open.length >= depthMax) throw this.#depthRefusal(value);
    this.#open.push(value);
    const text = this.#containerText(value);
    this.#open.pop();
    return text;
  }

  #containerText(value: object): string {
    this.#spend(2);
    if (Array.isArray(value)) {
      // Array.prototype and Object.prototype, of whichever realm.
      if (prototypeLevels(value) === 2) return `[${this.#items(value, (index) => `[${index}]`).join(",")}]`;
    } else if (isPlainObject(value)) {
      return this.#fields(value as Record<string, unknown>);
    } else if (isUint8Array(value)) {
      if (Object.getPrototypeOf(value) === Buffer.prototype) return this.#bytes("~buffer", value);
      if (prototypeLevels(value) === 3) return this.#bytes("~bytes", value);
    } else if (prototypeLevels(value) === 2) {
      if (isDate(value))
        return `{"~date":${Number.isNaN(value.getTime()) ? null : `"${value.toISOString()}"`}}`;
      if (isMap(value)) return this.#map(value);
      if (isSet(value)) {
        const items = this.#items([...value], (index) => `<item ${index}>`);
        return `{"~set":[${(this.#sorted ? items.sort() : items).join(",")}]}`;
      }
      if (isAnyArrayBuffer(value) && !isSharedArrayBuffer(value))
        return this.#bytes("~arraybuffer", new Uint8Array(value));
    }
    const { is, advice } = describeRefused(value);
    throw this.#refusal(is, advice);
  }

  #items(items: readonly unknown[], segment: (index: number) => string): string[] {
    const texts: string[] = [];
    // A loop instead of map(), which would skip holes.
    for (let index = 0; index < items.length; index++) texts.push(this.#at(segment(index), items[index]));
    return texts;
  }

  #fields(fields: Record<string, unknown>): string {
    const keys = Object.keys(fields).filter((key) => fields[key] !== undefined);
    if (this.#sorted) keys.sort();
    const texts = keys.map((key) => {
      this.#spend(key.length);
      return `${JSON.stringify(key)}:${this.#at(`.${key}`, fields[key])}`;
    });
    const text = `{${texts.join(",")}}`;
    return isTagKey(keys) ? `{"~~":${text}}` : text;
  }

  #map(map: ReadonlyMap<unknown, unknown>): string {
    const entries = [...map].map(
      ([key, value], index) => `[${this.#at(`<key ${index}>`, key)},${this.#at(`<value ${index}>`, value)}]`,
    );
    return `{"~map":[${(this.#sorted ? entries.sort() : entries).join(",")}]}`;
  }

  #bytes(tag: string, { buffer, byteOffset, byteLength }: Uint8Array): string {
    this.#spend(byteLength);
    return `{"${tag}":"${Buffer.from(buffer, byteOffset, byteLength).toString("base64")}"}`;
  }

  #at(segment: string, value: unknown): string {
    this.#segments.push(segment);
    const text = this.write(value);
    this.#segments.pop();
    return text;
  }

  /**
   * Counts each part of the text once, when it is made: their sum is a lower bound of the whole, known before the whole
   * is joined.
   */
  #spend(characters: number): void {
    this.#charactersLeft -= characters;
    if (this.#charactersLeft < 0) throw tooLarge(this.#what, this.#maxBytes);
  }

  #depthRefusal(value: object): MillraceError {
    const path = [...this.#open, value];
    const again = path.findIndex((part, index) => path.indexOf(part) < index);
    if (again < 0) return this.#refusal(`is nested deeper than ${depthMax} levels`, "flatten the value");
    this.#segments.length = again;
    return this.#refusal("contains itself", "pass a value without cycles");
  }

  #refusal(is: string, advice: string): MillraceError {
    return notEncodable(`${this.#what}${segmentsText(this.#segments)} ${is}: ${advice}.`);
  }
}

function isTagKey(keys: readonly string[]): boolean {
  return keys.length === 1 && keys[0]!.startsWith("~");
}

/** `text` is what follows the `~`. */
export function readTagged(text: string): unknown {
  let tagged: unknown;
  try {
    tagged = JSON.parse(text);
  } catch {
    throw unreadable("it is not valid tagged JSON");
  }
  return revive(tagged, 0);
}

function revive(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return reviveItems(value, depth + 1);
  const fields = value as Record<string, unknown>;
  const keys = Object.keys(fields);
  return isTagKey(keys)
    ? reviveTag(keys[0]!, fields[keys[0]!], depth)
    : reviveFields(fields, keys, depth + 1);
}

/** `depth` counts the open containers with this one; tags of single values open none. */
function reviveItems(items: unknown[], depth: number): unknown[] {
  checkDepth(depth);
  for (let index = 0; index < items.length; index++) items[index] = revive(items[index], depth);
  return items;
}

/**
 * Assigning is safe for `__proto__` too: JSON.parse made it an own property, and an own property shadows the setter.
 */
function reviveFields(fields: Record<string, unknown>, keys: readonly string[], depth: number): unknown {
  checkDepth(depth);
  for (const key of keys) fields[key] = revive(fields[key], depth);
  return fields;
}

function checkDepth(depth: number): void {
  if (depth > depthMax) throw unreadable(`it is nested deeper than ${depthMax} levels`);
}

function reviveTag(tag: string, content: unknown, depth: number): unknown {
  if (typeof content === "string") {
    if (tag === "~bigint" && /^-?\d+$/.test(content)) return BigInt(content);
    if (tag === "~number" && /^(NaN|-?Infinity|-0)$/.test(content)) return Number(content);
    if (tag === "~date" && !Number.isNaN(Date.parse(content))) return new Date(content);
    const bytes = Buffer.from(content, "base64");
    // Buffer skips characters that are not base64, so the text is whole only if it comes out the same again.
    if (bytes.toString("base64") === content) {
      if (tag === "~buffer") return bytes;
      if (tag === "~bytes") return new Uint8Array(bytes);
      if (tag === "~arraybuffer") return new Uint8Array(bytes).buffer;
    }
  }
  if (tag === "~date" && content === null) return new Date(Number.NaN);
  if (tag === "~undefined" && content === true) return undefined;
  if (Array.isArray(content)) {
    if (tag === "~set") return new Set(reviveItems(content, depth + 1));
    if (tag === "~map" && content.every((entry) => Array.isArray(entry) && entry.length === 2)) {
      return new Map(
        (content as unknown[][]).map((entry) => reviveItems(entry, depth + 1) as [unknown, unknown]),
      );
    }
  } else if (
    tag === "~~" &&
    typeof content === "object" &&
    content !== null &&
    isTagKey(Object.keys(content))
  ) {
    return reviveFields(content as Record<string, unknown>, Object.keys(content), depth + 1);
  }
  throw unreadable("it has a tag that this version does not know, or a damaged one");
}
