/** Texts of the characters that stores join with, escape or cannot hold. */
import fc from "fast-check";

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

export const hardText = fc.string({ unit: fc.constantFrom(...characters) });
