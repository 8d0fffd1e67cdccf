/**
 * One record of the log as bytes: a header of fixed size, then the zstd-compressed body. The header carries a checksum
 * of the body and a digest of the record before it, so that a torn, damaged or foreign object is found before any page
 * of it is applied.
 *
 * Kinds: `pages` has images of pages of the SQLite file; `fence` makes its writer the only one; `void` closes a slot
 * that a fence left empty; `end` has pages too, and says that the writer has closed; `restored` drops everything
 * before it, because a person has put the store back to an earlier record: it carries a mark.
 */
import { createHash } from "node:crypto";
import { crc32, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { damaged, logName } from "../layout.ts";

const kinds = ["pages", "fence", "void", "end", "restored"] as const;
export type RecordKind = (typeof kinds)[number];

export interface RecordHead {
  readonly kind: RecordKind;
  readonly n: number;
  readonly epoch: number;
  /** 32 hexadecimal digits that this opening of the store has drawn. */
  readonly writer: string;
  /** The writer's wall clock; shown to people, decides nothing. */
  readonly at: number;
  /** Digest of the record before this one; empty in fences and voids, which do not know it. */
  readonly chain: string;
  /** How many pages the file has after this record. */
  readonly pageCount: number;
  readonly pageSize: number;
}

export interface LogRecord extends RecordHead {
  /** Of this record, for the chain of the next one. */
  readonly digest: string;
  readonly pages: readonly Page[];
  /** Of a fence: who the writer is. Of a restore: the mark. */
  readonly note: string;
}

export interface Page {
  /** From 1 on, as SQLite counts. */
  readonly number: number;
  readonly image: Uint8Array;
}

const magic = 0x4d52_4c47;
const version = 1;
const headLength = 96;
const digestBytes = 16;

/** The bytes that are to be compressed. */
export function bodyOf(pages: readonly Page[], pageSize: number, note = ""): Uint8Array {
  const text = Buffer.from(note);
  const body = Buffer.allocUnsafe(8 + pages.length * (4 + pageSize) + text.length);
  body.writeUInt32LE(pages.length, 0);
  body.writeUInt32LE(text.length, 4);
  let at = 8;
  for (const { number } of pages) at = body.writeUInt32LE(number, at);
  for (const { image } of pages) {
    body.set(image, at);
    at += pageSize;
  }
  body.set(text, at);
  return body;
}

/** The whole record; `compressed` is what became of `bodyOf`. */
export function encodeRecord(
  head: RecordHead,
  compressed: Uint8Array,
): { readonly bytes: Uint8Array; readonly digest: string } {
  const bytes = Buffer.alloc(headLength + compressed.length);
  bytes.writeUInt32BE(magic, 0);
  bytes.writeUInt8(version, 4);
  bytes.writeUInt8(kinds.indexOf(head.kind), 5);
  bytes.writeDoubleLE(head.n, 8);
  bytes.writeDoubleLE(head.at, 16);
  bytes.writeUInt32LE(head.epoch, 24);
  bytes.writeUInt32LE(head.pageCount, 28);
  bytes.writeUInt32LE(head.pageSize, 32);
  bytes.writeUInt32LE(compressed.length, 36);
  bytes.writeUInt32LE(crc32(compressed), 40);
  bytes.write(head.writer, 48, "hex");
  bytes.write(head.chain, 64, "hex");
  bytes.writeUInt32LE(crc32(bytes.subarray(0, headLength - 4)), headLength - 4);
  bytes.set(compressed, headLength);
  return { bytes, digest: digestOf(bytes) };
}

/** A record without pages: what everybody but a writer puts. */
export function emptyRecord(
  kind: RecordKind,
  n: number,
  given: Pick<RecordHead, "epoch" | "writer" | "at" | "pageSize"> &
    Partial<Pick<LogRecord, "note" | "chain" | "pageCount">>,
): { readonly bytes: Uint8Array; readonly digest: string } {
  const { epoch, writer, at, pageSize, note = "", chain = noChain, pageCount = 0 } = given;
  const head = { kind, n, epoch, writer, at, chain, pageCount, pageSize };
  return encodeRecord(head, zstdCompressSync(bodyOf([], pageSize, note)));
}

/** Throws `store-corrupt`, naming the object, unless these are the whole bytes of record `n`. */
export function decodeRecord(n: number, given: Uint8Array): LogRecord {
  const bytes = Buffer.from(given.buffer, given.byteOffset, given.length);
  const refuse = (why: string, cause?: unknown) => damaged(logName(n), why, cause);
  if (bytes.length < headLength || bytes.readUInt32BE(0) !== magic) throw refuse("it is no record of a log");
  if (bytes.readUInt32LE(headLength - 4) !== crc32(bytes.subarray(0, headLength - 4)))
    throw refuse("the checksum of its header is wrong");
  const kind = kinds[bytes.readUInt8(5)];
  if (bytes.readUInt8(4) > version || kind === undefined) throw refuse("a newer Millrace wrote it");
  if (bytes.readDoubleLE(8) !== n) throw refuse(`it is record ${bytes.readDoubleLE(8)}`);
  const compressed = bytes.subarray(headLength);
  if (compressed.length !== bytes.readUInt32LE(36) || bytes.readUInt32LE(40) !== crc32(compressed))
    throw refuse("the checksum of its body is wrong");
  const pageSize = bytes.readUInt32LE(32);
  let body: Buffer;
  try {
    body = zstdDecompressSync(compressed);
  } catch (cause) {
    throw refuse("its body cannot be decompressed", cause);
  }
  if (!isWhole(body, pageSize)) throw refuse("its body has another length than it says");
  return {
    kind,
    n,
    epoch: bytes.readUInt32LE(24),
    writer: bytes.toString("hex", 48, 64),
    at: bytes.readDoubleLE(16),
    chain: bytes.toString("hex", 64, 64 + digestBytes),
    pageCount: bytes.readUInt32LE(28),
    pageSize,
    digest: digestOf(bytes),
    ...contentOf(body, pageSize),
  };
}

function isWhole(body: Buffer, pageSize: number): boolean {
  return body.length >= 8 && body.length === 8 + body.readUInt32LE(0) * (4 + pageSize) + body.readUInt32LE(4);
}

function contentOf(body: Buffer, pageSize: number): { pages: Page[]; note: string } {
  const count = body.readUInt32LE(0);
  const images = 8 + 4 * count;
  const pages = Array.from({ length: count }, (_, index) => {
    const from = images + index * pageSize;
    return { number: body.readUInt32LE(8 + 4 * index), image: body.subarray(from, from + pageSize) };
  });
  return { pages, note: body.toString("utf8", images + count * pageSize) };
}

/**
 * What the chain of the next record has to be. Fences and voids do not know the record before them, so the chain folds
 * them in: otherwise a lost record before a fence would not be missed.
 */
export function chainAfter(before: string, { kind, digest }: Pick<LogRecord, "kind" | "digest">): string {
  if (kind !== "fence" && kind !== "void") return digest;
  return createHash("sha256")
    .update(before + digest)
    .digest("hex")
    .slice(0, 2 * digestBytes);
}

/** The header holds the body's checksum, so a digest of the header is one of the record. */
function digestOf(bytes: Uint8Array): string {
  return createHash("sha256")
    .update(bytes.subarray(0, headLength))
    .digest("hex")
    .slice(0, 2 * digestBytes);
}

/** What stands in `chain` where the record before is not known. */
export const noChain = "0".repeat(2 * digestBytes);
