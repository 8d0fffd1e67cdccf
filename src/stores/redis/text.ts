/**
 * Texts and numbers as they stand in records and arguments, whose fields are joined; store/packed-text.ts says how a text is escaped. An empty
 * field means none.
 */
import { fieldEnd, itemEnd, packText, unpackText } from "../../store/packed-text.ts";

export { fieldEnd, itemEnd, packText, unpackText };

export function packNullable(text: string | null): string {
  return text === null ? "" : packText(text);
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
