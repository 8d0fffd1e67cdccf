import { describe, expect, test } from "vitest";
import { nowPosition, readCursor, startPosition, writeCursor } from "./event-cursor.ts";

describe("a cursor of events", () => {
  test("is a text from which the same positions are read", () => {
    const positions = [{ after: 12, skip: 3 }, { after: 0, skip: 0 }, startPosition, nowPosition];
    const text = writeCursor(positions);
    expect(text).toBe("e1-12.3-0-s-n");
    expect(readCursor(text, 4)).toEqual(positions);
  });

  test.each([
    "",
    "e1",
    "e1-",
    "e1-x",
    "e1--1",
    "e2-5",
    "e1-5.",
    "e1-1.5.5",
    "e1-9999999999999999",
    "latest",
    "5",
  ])("%j is refused with a code of its own", (text) => {
    expect(() => readCursor(text, 1)).toThrow(expect.objectContaining({ code: "invalid-cursor" }));
  });

  test("of another number of partitions is refused", () => {
    expect(() => readCursor("e1-5-6", 1)).toThrow(/2 partitions/);
  });
});
