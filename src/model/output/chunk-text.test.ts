import fc from "fast-check";
import { expect, test } from "vitest";
import { beginChunk, packFrame, readChunk } from "./chunk-text.ts";
import type { PackedFrame } from "./chunk-text.ts";

const plain = fc.record({ part: fc.constant(null), payload: fc.string() });
const ofRun = fc.record({ part: fc.constantFrom("think", "d3:x", "@1"), payload: fc.option(fc.string()) });

function write(origin: number, frames: readonly PackedFrame[]): string {
  let before: string | null = null;
  return frames.reduce((body, frame) => {
    const packed = packFrame(frame, before);
    before = frame.part;
    return body + packed;
  }, beginChunk(origin));
}

test("a chunk is read as it was written, whatever its frames hold", () => {
  const lists = fc.oneof(fc.array(plain), fc.array(ofRun));
  fc.assert(
    fc.property(fc.nat(), lists, (origin, frames) => {
      expect(readChunk(write(origin, frames))).toEqual({ origin, frames });
    }),
  );
});

test("a part is written once for the frames that follow each other", () => {
  const frame = { part: "think", payload: "1" };
  expect(write(7, [frame, frame, { part: "tool", payload: null }])).toBe("7;p5:thinkd1:1d1:1p4:toolr");
});

test("a text that is no chunk, or is cut, is refused", () => {
  const whole = write(7, [{ part: "think", payload: "12345" }]);
  for (let end = 0; end < whole.length; end++)
    if (!["7;", "7;p5:think"].includes(whole.slice(0, end)))
      expect(() => readChunk(whole.slice(0, end))).toThrow(RangeError);
  for (const text of ["", ";", "x;", "7", "7;z", "7;d-1:", "7;d:", "7;d1", "7;d9:a"])
    expect(() => readChunk(text), text).toThrow(RangeError);
});
