/**
 * Values as they stand in records and arguments, whose fields are joined; store/packing/packed-text.ts says how a text
 * is escaped. An empty field means none.
 */
import { jobFields } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName } from "../../../store/job-fields.ts";
import { fieldEnd, itemEnd, packText, unpackText } from "../../../store/packing/packed-text.ts";
import { readRoute } from "./route-text.ts";

export { fieldEnd, itemEnd, packText, unpackText };

export function packNullable(text: string | null): string {
  return text === null ? "" : packText(text);
}

export function unpackNullable(text: string): string | null {
  return text === "" ? null : unpackText(text);
}

export function readNumber(text: string): number | null {
  return text === "" ? null : Number(text);
}

export function packValue(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return packText(value);
  if (Array.isArray(value)) return value.map(packText).join(itemEnd);
  return String(value);
}

const readers: Readonly<Record<JobField["type"], (text: string) => unknown>> = {
  integer: readNumber,
  flag: readNumber,
  text: unpackNullable,
  list: (text) => (text === "" ? null : text.split(itemEnd).map(unpackText)),
};

export function readerOf(name: JobFieldName): (text: string) => unknown {
  return name === "route" ? readRoute : readers[jobFields[name].type];
}

/** A job's seq as the library names it: its byte order is the order of numbers. */
export function handleOf(seq: number): string {
  const digits = String(seq);
  return String.fromCharCode(96 + digits.length) + digits;
}

export function seqOf(handle: string): number {
  return Number(handle.slice(1));
}

/** What names a lease beside its handle, as a state has it after its first field. */
export function leasePrefix({ id, fence }: { readonly id: string; readonly fence: number }): string {
  return `${fence}${fieldEnd}${packText(id)}${fieldEnd}`;
}

/** The rows of a flat list, of N values each. */
export function rowsOf<Row extends readonly unknown[]>(
  flat: readonly Row[number][],
  width: Row["length"],
): Row[] {
  return Array.from({ length: flat.length / width }, (_, at) =>
    flat.slice(at * width, (at + 1) * width),
  ) as never;
}
