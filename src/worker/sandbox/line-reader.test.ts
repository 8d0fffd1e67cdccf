import fc from "fast-check";
import { expect, test } from "vitest";
import { LineReader } from "./line-reader.ts";

function readerOf(bytesMax = 1000): { reader: LineReader; lines: string[]; tooLong: () => number } {
  const lines: string[] = [];
  let count = 0;
  const reader = new LineReader({
    bytesMax,
    heard: (line) => void lines.push(line),
    tooLong: () => (count += 1),
  });
  return { reader, lines, tooLong: () => count };
}

test("lines come out whole, however their bytes are cut", () => {
  const line = fc
    .string({ unit: "grapheme", minLength: 1, maxLength: 20 })
    .filter((text) => text.trim() === text && !text.includes("\n"));
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat({ max: 7 })), (texts, cuts) => {
      const { reader, lines } = readerOf();
      const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(""));
      let from = 0;
      for (const cut of cuts) reader.read(bytes.subarray(from, (from += cut)));
      reader.read(bytes.subarray(from));
      expect(lines).toEqual(texts.filter((text) => text !== ""));
    }),
  );
});

test("what is behind the last end of a line waits for its rest", () => {
  const { reader, lines } = readerOf();
  reader.read(Buffer.from("one\ntw"));
  expect(lines).toEqual(["one"]);
  reader.read(Buffer.from("o\r\n\n"));
  expect(lines).toEqual(["one", "two"]);
});

test("a line that is too long is reported once, before it has ended, and nothing is read after it", () => {
  const { reader, lines, tooLong } = readerOf(10);
  for (let piece = 0; piece < 100; piece++) reader.read(Buffer.from("x".repeat(6)));
  reader.read(Buffer.from("\nshort\n"));
  expect([lines, tooLong()]).toEqual([[], 1]);
});

test("texts of a thread are lines too, and bounded as well", () => {
  const { reader, lines, tooLong } = readerOf(10);
  reader.read("one\ntwo\n");
  reader.read(`${"x".repeat(11)}\n`);
  reader.read("three\n");
  expect([lines, tooLong()]).toEqual([["one", "two"], 1]);
});
