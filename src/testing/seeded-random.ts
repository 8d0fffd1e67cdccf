/**
 * Randomness that repeats: sfc32, a small generator of 128 bits of state that passes the usual batteries. The same seed
 * gives the same numbers on every machine, and `fork` gives a stream of its own, so that one user's draws do not shift
 * another's.
 */

export interface SeededRandom {
  /** Uniform in [0, 1). */
  next(): number;
  /** A whole number from `min` to `max`, both included. */
  whole(min: number, max: number): number;
  chance(probability: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
  bytes(count: number): Uint8Array;
  /** A stream that depends on this seed and the label alone, not on what was drawn before. */
  fork(label: string | number): SeededRandom;
}

/** FNV-1a, to turn a seed of any kind into four words. */
function hashText(text: string, basis: number): number {
  let hash = basis >>> 0;
  for (let index = 0; index < text.length; index++) {
    hash ^= text.charCodeAt(index);
    hash = Math.imul(hash, 0x01000193);
  }
  return hash >>> 0;
}

const warmUpRounds = 15;

export function createSeededRandom(seed: string | number): SeededRandom {
  const text = String(seed);
  let a = hashText(text, 0x811c9dc5);
  let b = hashText(text, 0x9e3779b9);
  let c = hashText(text, 0x85ebca6b);
  let counter = 1;
  const word = (): number => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    return sum >>> 0;
  };
  for (let round = 0; round < warmUpRounds; round++) word();
  const next = (): number => (word() * 2 ** 21 + (word() >>> 11)) / 2 ** 53;
  return {
    next,
    whole: (min, max) => min + Math.floor(next() * (max - min + 1)),
    chance: (probability) => next() < probability,
    pick: (items) => items[Math.floor(next() * items.length)] as (typeof items)[number],
    bytes: (count) => Uint8Array.from({ length: count }, () => word() & 0xff),
    fork: (label) => createSeededRandom(`${text}/${label}`),
  };
}
