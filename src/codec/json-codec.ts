/**
 * The default codec: standard JSON if the value allows it, else tagged JSON (which begins with `~`).
 *
 * Standard JSON is exactly what JSON.stringify makes of the value, so people can read and query it in SQL.
 * One cheap walk decides: it answers false for anything unusual, and the slower tagged writer then encodes it or
 * refuses it by its path. Like in JSON, properties that are undefined, have symbol keys or are not enumerable are left
 * out, an object without a prototype comes back with one, and extra properties of arrays are lost. Holes of arrays come
 * back as undefined.
 *
 * The walk always counts a lower bound of the text's length, so a value that repeats a large part many times is refused
 * before the text is built; decoding never touches a prototype and never exhausts the stack.
 */
import { type Codec, depthMax, payloadBytesCeiling } from "./codec.ts";
import { asRefusal, isPlainObject, prototypeLevels, tooLarge, unreadable } from "./refusal.ts";
import { readTagged, TaggedWriter } from "./tagged-json.ts";

const TILDE = 0x7e;

/**
 * What is left of the size limit in the walk that runs now; encoding is synchronous, so one variable serves all calls.
 */
let charactersLeft = 0;

function isStandardJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case "string":
      charactersLeft -= value.length;
      return charactersLeft >= 0;
    case "number":
      return Number.isFinite(value) && (value !== 0 || 1 / value > 0);
    case "boolean":
      return true;
    case "object":
      return value === null || isStandardContainer(value, depth);
    default:
      return false;
  }
}

function isStandardContainer(value: object, depth: number): boolean {
  if (depth >= depthMax) return false;
  const prototype: object | null = Object.getPrototypeOf(value);
  if (Array.isArray(value)) {
    if (prototype !== Array.prototype && prototypeLevels(value) !== 2) return false;
    charactersLeft -= 2 * value.length;
    if (charactersLeft < 0) return false;
    for (let index = 0; index < value.length; index++) {
      if (!isStandardJson(value[index], depth + 1)) return false;
    }
    return true;
  }
  if (prototype !== Object.prototype && !isPlainObject(value)) return false;
  const fields = value as Record<string, unknown>;
  // for-in takes half the time of Object.keys. It also visits what somebody put on Object.prototype, which can only
  // make the answer false; the tagged writer then reads own keys alone.
  for (const key in fields) {
    const item = fields[key];
    if (item === undefined) continue;
    charactersLeft -= key.length + 4;
    if (charactersLeft < 0 || !isStandardJson(item, depth + 1)) return false;
  }
  return true;
}

function encode(value: unknown, what = "value", maxBytes = payloadBytesCeiling): string {
  charactersLeft = maxBytes;
  try {
    if (isStandardJson(value, 0)) return JSON.stringify(value);
    if (charactersLeft < 0) throw tooLarge(what, maxBytes);
    return "~" + new TaggedWriter({ what, maxBytes, sorted: false }).write(value);
  } catch (cause) {
    throw asRefusal(cause, what);
  }
}

function decode(payload: string | Uint8Array): unknown {
  if (typeof payload !== "string") throw unreadable("it is bytes, and the JSON codec reads text");
  if (payload.charCodeAt(0) === TILDE) return readTagged(payload.slice(1));
  try {
    return JSON.parse(payload);
  } catch {
    // No cause: the engine's message quotes the text, and a payload may contain secrets.
    throw unreadable("it is not valid JSON");
  }
}

export const jsonCodec = { name: "json", encode, decode } satisfies Codec;
