import { describe, expect, test } from "vitest";
import { nowPlace, readCursor, startPlace, writeCursor } from "./event-cursor.ts";

describe("a cursor of events", () => {
  test("is a text from which the same places are read", () => {
    const places = [{ after: 12, skip: 3 }, { after: 0, skip: 0 }, startPlace, nowPlace];
    const text = writeCursor(places);
    expect(text).toBe("e1-12.3-0-s-n");
    expect(readCursor(text, 4)).toEqual(places);
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
