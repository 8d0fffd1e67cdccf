import { zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { isMillraceError } from "../../../model/error.ts";
import { logName } from "../layout.ts";
import { bodyOf, decodeRecord, encodeRecord, noChain } from "./log-record.ts";
import type { Page, RecordHead } from "./log-record.ts";

const pageSize = 512;
const n = 7;
const head: RecordHead = {
  ...{ kind: "pages", n, epoch: 3, writer: "0123456789abcdef".repeat(2), at: 1_767_225_600_000 },
  ...{ chain: "fedcba9876543210".repeat(2), pageCount: 9, pageSize },
};
const pages: Page[] = [1, 9].map((number) => ({ number, image: Buffer.alloc(pageSize, `page ${number} `) }));
const encoded = (given: Partial<RecordHead> = {}, note = "") =>
  encodeRecord({ ...head, ...given }, zstdCompressSync(bodyOf(pages, pageSize, note)));

/** The refusal's message; null if it was taken. */
function refusalOf(bytes: Uint8Array): string | null {
  try {
    decodeRecord(n, bytes);
    return null;
  } catch (error) {
    return isMillraceError(error) && error.code === "store-corrupt"
      ? error.message
      : `not refused: ${String(error)}`;
  }
}

test("a record is read as it was written", () => {
  const { bytes, digest } = encoded({ kind: "end" }, "who");
  const { pages: read, ...rest } = decodeRecord(n, bytes);
  expect(rest).toEqual({ ...head, kind: "end", digest, note: "who" });
  expect(read.map(({ number, image }) => [number, Buffer.from(image)])).toEqual(
    pages.map(({ number, image }) => [number, image]),
  );
});

test("a record with any one bit or byte changed is refused as damaged, by its name", () => {
  const { bytes } = encoded();
  const taken: string[] = [];
  for (let at = 0; at < bytes.length; at++) {
    for (const flip of [1, 2, 4, 8, 16, 32, 64, 128, 255]) {
      const damaged = new Uint8Array(bytes);
      damaged[at]! ^= flip;
      const message = refusalOf(damaged);
      if (message?.includes(logName(n)) !== true) taken.push(`byte ${at} ^ ${flip}: ${message}`);
    }
  }
  expect(taken).toEqual([]);
});

test("a record that was cut short, or has bytes after its end, is refused as damaged, by its name", () => {
  const { bytes } = encoded();
  const others = Array.from({ length: bytes.length }, (_, length) => bytes.subarray(0, length));
  others.push(Buffer.concat([bytes, Buffer.alloc(1)]), Buffer.concat([bytes, bytes]));
  expect(others.filter((other) => refusalOf(other)?.includes(logName(n)) !== true)).toEqual([]);
});

test("a record under another number, of another kind of file, or with a body of another size is refused", () => {
  expect(refusalOf(encoded({ n: 8 }).bytes)).toMatch(/it is record 8/);
  expect(refusalOf(Buffer.from("{}"))).toMatch(/no record/);
  const short = encodeRecord(head, zstdCompressSync(bodyOf(pages, pageSize).subarray(0, -1)));
  expect(refusalOf(short.bytes)).toMatch(/damaged/);
  const none = encodeRecord({ ...head, chain: noChain }, zstdCompressSync(Buffer.alloc(3)));
  expect(refusalOf(none.bytes)).toMatch(/damaged/);
  const noZstd = encodeRecord(head, Buffer.from("this was never compressed"));
  expect(refusalOf(noZstd.bytes)).toMatch(/decompressed/);
});
