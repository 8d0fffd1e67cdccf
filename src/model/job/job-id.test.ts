import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createIdMinter, mintedPartition } from "./job-id.ts";

const byteOrder = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

describe("minted ids", () => {
  test("are 21 characters of the alphabet and begin with their minting time", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), fc.infiniteStream(random()), (now, stream) => {
        const id = createIdMinter({ now: () => now, random: drawFrom(stream) })();
        expect(id).toMatch(/^[0-9A-Z_a-z~]{21}$/);
        expect(timeOf(id)).toBe(now);
      }),
    );
  });

  test("sort by time in byte order, whatever the random source says", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(5), { maxLength: 200 }), fc.infiniteStream(random()), (steps, stream) => {
        let now = 1_700_000_000_000;
        const mint = createIdMinter({ now: () => now, random: drawFrom(stream) });
        const ids = steps.map((step) => {
          now += step;
          return mint();
        });
        expect([...ids].sort(byteOrder)).toEqual(ids);
      }),
    );
  });

  test("are unique and ascending over 100,000 in one millisecond", () => {
    for (const value of [0, 0.5, 1 - 2 ** -53]) {
      const mint = createIdMinter({ now: () => 1, random: () => value });
      const ids = Array.from({ length: 100_000 }, mint);
      expect(new Set(ids).size).toBe(100_000);
      for (let index = 1; index < ids.length; index++) {
        if ((ids[index - 1] as string) >= (ids[index] as string))
          throw new Error(`id ${index} does not sort behind the one before`);
      }
    }
  });

  test("go on counting when the clock steps back", () => {
    let now = 1000;
    const mint = createIdMinter({ now: () => now, random: () => 0.25 });
    const before = mint();
    now = 10;
    const after = mint();
    expect(after > before).toBe(true);
    expect(timeOf(after)).toBe(1000);
  });

  test("of different shards and partitions differ even with equal time and randomness", () => {
    const sources = { now: () => 5, random: () => 0.5 };
    const partitions = [
      [0, 0],
      [0, 1023],
      [1, 0],
      [255, 1023],
    ] as const;
    const ids = partitions.map(([shard, partition]) => createIdMinter(sources, { shard })(partition));
    expect(new Set(ids).size).toBe(partitions.length);
    expect([...ids].sort(byteOrder)).toEqual(ids);
    expect(ids.map(mintedPartition)).toEqual([0, 1023, 0, 1023]);
  });

  test("of one millisecond lie in one partition, over time in all of them, and where they are asked to", () => {
    let now = 1;
    let drawn = 0;
    const mint = createIdMinter({ now: () => now, random: () => (drawn++ % 7) / 7 }, { partitions: 4 });
    const seen = new Set<number | null>();
    for (; now < 100; now++) {
      const [one, other, asked] = [mint(), mint(), mint(2)] as [string, string, string];
      expect(mintedPartition(other)).toBe(mintedPartition(one));
      expect(mintedPartition(asked)).toBe(2);
      seen.add(mintedPartition(one));
    }
    expect(seen).toEqual(new Set([0, 1, 2, 3]));
  });

  test("are told from ids of another form", () => {
    for (const id of ["", "order-17", "a".repeat(20), "a".repeat(22), `${"a".repeat(20)}-`])
      expect(mintedPartition(id)).toBeNull();
  });
});

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

function timeOf(id: string): number {
  return Array.from(id.slice(0, 8)).reduce((ms, letter) => ms * 64 + letters.indexOf(letter), 0);
}

function random(): fc.Arbitrary<number> {
  return fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
}

function drawFrom(stream: Iterable<number>): () => number {
  const iterator = stream[Symbol.iterator]();
  return () => iterator.next().value as number;
}
