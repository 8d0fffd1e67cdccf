/**
 * The errors for a value that cannot be stored: they say which part of it is the problem and what to pass instead.
 * Messages name paths and types, never contents, because errors are logged and a payload may contain secrets.
 *
 * Realms: a value may come from another one (a vm context, as in some test runners), so types are recognised by
 * internal slots and by the length of the prototype chain, not by identity. A subclass has a longer chain and is
 * refused: it would come back as its base class.
 */
import { isMillraceError, MillraceError } from "../model/error.ts";

const SEGMENT_CHARACTERS_MAX = 64;

export function notEncodable(message: string, options: { cause?: unknown } = {}): MillraceError {
  return new MillraceError("payload-not-encodable", message, options);
}

/**
 * The error for what a walk over the caller's own value threw: a refusal, or an error of a getter, a proxy or a
 * detached buffer.
 */
export function asRefusal(cause: unknown, what: string): MillraceError {
  if (isMillraceError(cause)) return cause;
  return notEncodable(`Reading the ${what} threw an error: pass plain values.`, { cause });
}

export function tooLarge(what: string, maxBytes: number, bytes?: number): MillraceError {
  const size = bytes === undefined ? `more than ${maxBytes}` : String(bytes);
  return new MillraceError(
    "payload-too-large",
    `The ${what} takes ${size} bytes and the limit is ${maxBytes}: keep the bulk elsewhere and pass a reference, or raise payloadBytesMax.`,
  );
}

export function unreadable(reason: string, options: { cause?: unknown } = {}): MillraceError {
  return new MillraceError("payload-unreadable", `The stored payload cannot be read: ${reason}.`, options);
}

export function prototypeLevels(value: object): number {
  let levels = 0;
  // Longer chains than 8 all mean the same, and a proxy could answer without end.
  for (
    let next = Object.getPrototypeOf(value);
    next !== null && levels < 8;
    next = Object.getPrototypeOf(next)
  )
    levels++;
  return levels;
}

export function isPlainObject(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return true;
  // The Object.prototype of another realm: the end of its chain, with the methods that only it has.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf");
}

/** Segments are `.key`, `[3]`, `<value 3>` (of a Map) or `<item 3>` (of a Set). */
export function segmentsText(segments: readonly string[]): string {
  return segments.map(segmentText).join("");
}

function segmentText(segment: string): string {
  if (!segment.startsWith(".") || /^\.[A-Za-z_$][\w$]{0,63}$/.test(segment)) return segment;
  const key = segment.slice(1);
  const short = key.length > SEGMENT_CHARACTERS_MAX ? `${key.slice(0, SEGMENT_CHARACTERS_MAX)}...` : key;
  return `[${JSON.stringify(short)}]`;
}

export function describeRefused(value: object): { readonly is: string; readonly advice: string } {
  const name = constructorName(value);
  const is = `is an instance of ${name}`;
  if (value instanceof Error || Object.prototype.toString.call(value) === "[object Error]") {
    return { is, advice: "pass its name and message as plain fields" };
  }
  if (ArrayBuffer.isView(value)) return { is, advice: "pass its bytes as a Uint8Array" };
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") {
    return { is, advice: "it would come back as something else, so pass what its toJSON() returns" };
  }
  return { is, advice: "it would lose its class, so pass a plain object with its fields" };
}

function constructorName(value: object): string {
  const name: unknown = (value as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof name === "string" && /^[\w$]{1,64}$/.test(name) ? name : "a class";
}
