import fc from "fast-check";
import { expect, test } from "vitest";
import { packText, unpackText } from "./packed-text.ts";

const characters = [
  "a",
  "é",
  "🙂",
  "\0",
  "\x01",
  "\x02",
  "\x1e",
  "\x1f",
  "\ud800",
  "\udc00",
  "{",
  ",",
  '"',
  "\\",
];
const hard = fc.string({ unit: fc.constantFrom(...characters) });

test("a packed text comes back as given, whatever it holds, and is storable in between", () => {
  fc.assert(
    fc.property(hard, (text) => {
      const packed = packText(text);
      expect(packed).not.toMatch(/[\0\x02\x1e\x1f]/);
      expect(packed).not.toBe("");
      expect(packed.isWellFormed()).toBe(true);
      expect(unpackText(packed)).toBe(text);
    }),
  );
});
