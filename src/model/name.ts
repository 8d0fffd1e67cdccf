/**
 * Names of queues, jobs, keys, tags and ids: 1 to 255 bytes of UTF-8 without control characters. Every such text is
 * valid (quotes, braces, colons, spaces, `__proto__`). Any other text is refused before a write.
 */
import { MillraceError } from "./error.ts";

export const nameBytesMax = 255;

// C0 controls, DEL, C1 controls and the two Unicode line separators that break log lines.
const controls = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;
const printableAscii = /^[\x20-\x7e]{1,255}$/;

export function checkName(value: unknown, what: string): string {
  if (typeof value !== "string")
    throw new MillraceError("invalid-name", `${what} must be a string, not ${typeof value}.`);
  if (printableAscii.test(value)) return value;
  if (value.length === 0)
    throw new MillraceError("invalid-name", `${what} is empty; give it 1 to ${nameBytesMax} bytes.`);
  if (controls.test(value))
    throw new MillraceError("invalid-name", `${what} has control characters; remove them.`);
  if (!value.isWellFormed())
    throw new MillraceError("invalid-name", `${what} is not well-formed Unicode (a lone surrogate).`);
  if (utf8Bytes(value) > nameBytesMax) {
    throw new MillraceError("invalid-name", `${what} is longer than ${nameBytesMax} bytes of UTF-8.`);
  }
  return value;
}

/** Several names, quoted, for a sentence. */
export function quoteNames(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(" and ");
}

export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let at = 0; at < text.length; at++) {
    const point = text.codePointAt(at) as number;
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (point >= 0x10000) at += 1;
  }
  return bytes;
}
