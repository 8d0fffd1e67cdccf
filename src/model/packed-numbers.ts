/**
 * Whole numbers as short text. A number is written in digits of five bits, the lowest first, one letter per digit.
 * Every letter but the last of a number has the sixth bit set. Numbers below 32 take one letter, those below 1024 two.
 */
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const values = new Map(Array.from(letters).map((letter, value) => [letter.charCodeAt(0), value]));
const base = 32;

/** @param numbers whole, from 0 to 2^53 - 1. */
export function packNumbers(numbers: Iterable<number>): string {
  let text = "";
  for (const number of numbers) {
    let rest = number;
    while (rest >= base) {
      text += letters[base + (rest % base)];
      rest = Math.floor(rest / base);
    }
    text += letters[rest];
  }
  return text;
}

/** Returns the next number with each call; throws after the end and for invalid text. */
export interface PackedNumbers {
  (): number;
  isAtEnd(): boolean;
}

export function unpackNumbers(text: string): PackedNumbers {
  let at = 0;
  const next = (): number => {
    let number = 0;
    for (let scale = 1; ; scale *= base) {
      const value = values.get(text.charCodeAt(at));
      if (value === undefined || scale > Number.MAX_SAFE_INTEGER)
        throw new RangeError("packed numbers cannot be read");
      at += 1;
      number += (value % base) * scale;
      if (value < base) return number;
    }
  };
  return Object.assign(next, { isAtEnd: () => at >= text.length });
}
