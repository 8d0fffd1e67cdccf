/**
 * Every command prints one JSON document. Values that JSON has no word for are shown as what people would write: dates
 * as ISO text, bigints as digits, binary as base64, Maps as pairs, Sets as lists.
 */
import { escapeJson } from "./escape.ts";

export function toJson(value: unknown): string {
  return escapeJson(JSON.stringify(jsonReady(value), null, 2) ?? "null");
}

/** The value as one line of JSON, for people. */
export function toJsonLine(value: unknown): string {
  return escapeJson(JSON.stringify(jsonReady(value)) ?? "undefined");
}

function jsonReady(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  if (ArrayBuffer.isView(value))
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
  if (value instanceof ArrayBuffer) return Buffer.from(value).toString("base64");
  if (value instanceof Map) return [...value].map(([key, item]) => [jsonReady(key), jsonReady(item)]);
  if (value instanceof Set) return [...value].map(jsonReady);
  if (Array.isArray(value)) return value.map(jsonReady);
  // fromEntries defines properties, so that a field called __proto__ stays a field.
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, jsonReady(item)]));
}
