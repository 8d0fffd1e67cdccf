/**
 * Names of queues, jobs, keys, tags and ids: 1 to 255 bytes of UTF-8 without control characters and invisible ones.
 * Every such text is valid (quotes, braces, colons, spaces, `__proto__`). Any other text is refused before a write.
 */
import { MillraceError } from "./error.ts";
import { escapeHidden, hiddenInNames } from "./hidden-text.ts";

export const nameBytesMax = 255;

const printableAscii = /^[\x20-\x7e]{1,255}$/;

export function checkName(value: unknown, what: string): string {
  if (typeof value !== "string")
    throw new MillraceError("invalid-name", `${what} must be a string, not ${typeof value}.`);
  if (printableAscii.test(value)) return value;
  if (value.length === 0)
    throw new MillraceError("invalid-name", `${what} is empty; give it 1 to ${nameBytesMax} bytes.`);
  if (!value.isWellFormed())
    throw new MillraceError("invalid-name", `${what} is not well-formed Unicode (a lone surrogate).`);
  const hidden = hiddenInNames.exec(value);
  if (hidden !== null) {
    throw new MillraceError(
      "invalid-name",
      `${what} has control characters or invisible ones (${escapeHidden(hidden[0])}); remove them.`,
    );
  }
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
