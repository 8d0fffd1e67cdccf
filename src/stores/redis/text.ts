/**
 * Texts as they stand in records and arguments. Redis keeps any bytes, but records join their fields with \x1f, lists inside a field with \x1e,
 * and UTF-8 has no lone surrogate; Millrace promises that every text comes back as it was given. So these are escaped with \x01, and
 * the empty text too, because an empty field means none.
 */
export const fieldEnd = "\x1f";
export const itemEnd = "\x1e";

const hardCharacters = /[\x01\x1e\x1f]/;
const hardOrSurrogate =
  /[\x01\x1e\x1f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function packText(text: string): string {
  if (text !== "" && !hardCharacters.test(text) && text.isWellFormed()) return text;
  if (text === "") return "\x01e";
  return text.replace(hardOrSurrogate, (hard) => `\x01${hard.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function packNullable(text: string | null): string {
  return text === null ? "" : packText(text);
}

export function unpackText(packed: string): string {
  if (!packed.includes("\x01")) return packed;
  if (packed === "\x01e") return "";
  return packed.replace(/\x01([0-9a-f]{4})/g, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
}

export function unpackNullable(packed: string): string | null {
  return packed === "" ? null : unpackText(packed);
}

export function packNumber(number: number | null | undefined): string {
  return number === null || number === undefined ? "" : String(number);
}

export function readNumber(text: string): number | null {
  return text === "" ? null : Number(text);
}

/** A job's seq as the library names it: its byte order is the order of numbers. */
export function handleOf(seq: number): string {
  const digits = String(seq);
  return String.fromCharCode(96 + digits.length) + digits;
}

export function seqOf(handle: string): number {
  return Number(handle.slice(1));
}

/** What names a lease beside its handle, as a state begins behind its status. */
export function leasePrefix({ id, fence }: { readonly id: string; readonly fence: number }): string {
  return `${fence}${fieldEnd}${packText(id)}${fieldEnd}`;
}
