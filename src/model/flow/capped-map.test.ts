import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  afterLook,
  allLooks,
  capOf,
  firstItems,
  freeItem,
  isHeld,
  nextLook,
  waitBehindCap,
} from "./capped-map.ts";
import type { KnownItems } from "./capped-map.ts";
import { newWaits } from "./flow-waits.ts";

/** Items of a map as a store has them, and processes that each know as much of them as their last look showed. */
class World {
  readonly cap: number;
  readonly isFree: boolean[];
  readonly hasEnded: boolean[];
  readonly known: KnownItems[];
  /** What the last look of a process found, and is not freed yet. */
  readonly decided: (readonly number[])[];

  constructor({ items, cap, processes }: { items: number; cap: number; processes: number }) {
    this.cap = cap;
    const { isHeld: isBornHeld } = firstItems(cap, items, false);
    this.isFree = Array.from({ length: items }, (_, item) => !isBornHeld(item));
    this.hasEnded = this.isFree.map(() => false);
    this.known = Array.from({ length: processes }, () => ({ going: [], next: 0 }));
    this.decided = this.known.map(() => []);
  }

  look(process: number): void {
    const lives = (item: number): boolean => this.hasEnded[item] === false;
    const { going, next } = this.known[process]!;
    let knows: KnownItems = { going: going.filter(lives), next };
    for (;;) {
      const look = nextLook(knows, this.cap, this.isFree.length);
      if (look === null) break;
      knows = afterLook(knows, look, look.items.filter(lives));
    }
    this.known[process] = knows;
    this.decided[process] = knows.going;
  }

  free(process: number): void {
    for (const item of this.decided[process] ?? []) this.isFree[item] = true;
  }

  get going(): readonly number[] {
    return [...this.isFree.keys()].filter((item) => this.isFree[item] === true && !this.hasEnded[item]);
  }

  get left(): readonly number[] {
    return [...this.isFree.keys()].filter((item) => !this.hasEnded[item]);
  }
}

const deed = fc.record({ what: fc.constantFrom("look", "free", "end"), which: fc.nat({ max: 1000 }) });
const story = fc.record({
  items: fc.integer({ min: 0, max: 40 }),
  cap: fc.integer({ min: 1, max: 12 }),
  processes: fc.integer({ min: 1, max: 3 }),
  deeds: fc.array(deed, { maxLength: 120 }),
});

describe("a map with a cap", () => {
  it("are never more than the cap, however old the look is by which a process frees", () => {
    fc.assert(
      fc.property(story, ({ deeds, ...given }) => {
        const world = new World(given);
        for (const { what, which } of deeds) {
          const { going } = world;
          if (what === "look") world.look(which % given.processes);
          else if (what === "free") world.free(which % given.processes);
          else if (going.length > 0) world.hasEnded[going[which % going.length]!] = true;
          expect(world.going.length).toBeLessThanOrEqual(given.cap);
        }
      }),
    );
  });

  it("belong to the first that have not ended, once somebody has looked and freed", () => {
    fc.assert(
      fc.property(story, ({ deeds, ...given }) => {
        const world = new World(given);
        for (const { what, which } of deeds) {
          const { going } = world;
          if (what === "end" && going.length > 0) world.hasEnded[going[which % going.length]!] = true;
          else {
            const process = which % given.processes;
            world.look(process);
            world.free(process);
            expect(world.going).toEqual(world.left.slice(0, given.cap));
          }
        }
      }),
    );
  });

  it("count those first that a replay has left free, and go on in order", () => {
    const behind = { going: [7], next: 0 };
    const look = nextLook(behind, 3, 10);
    expect(look).toEqual({ items: [0, 1], next: 2 });
    expect(nextLook(afterLook(behind, look!, [1]), 3, 10)).toEqual({ items: [2], next: 3 });
    expect(nextLook({ going: [1, 2, 7], next: 3 }, 3, 10)).toBeNull();
    expect(nextLook({ going: [9], next: 9 }, 3, 10)).toEqual({ items: [], next: 10 });
  });

  it("are looked at page by page in a new round, each item once", () => {
    expect(allLooks(0)).toEqual([]);
    const looks = allLooks(1001);
    expect(looks.map(({ next }) => next)).toEqual([500, 1000, 1001]);
    expect(looks.flatMap(({ items }) => items)).toEqual(Array.from({ length: 1001 }, (_, at) => at));
  });

  it("of new items are free up to the cap; those that a replay adds all wait", () => {
    expect(firstItems(2, 3, false)).toMatchObject({ need: 1 });
    expect(firstItems(2, 2, false)).toMatchObject({ need: 2 });
    expect([0, 1, 2].map(firstItems(2, 3, false).isHeld)).toEqual([false, false, true]);
    expect([0, 1, 2].map(firstItems(2, 3, true).isHeld)).toEqual([true, true, true]);
  });

  it("are waited for by a need that no edge meets, and end with it", () => {
    const waiting = newWaits(waitBehindCap("replayed").waits!);
    expect(isHeld({ state: "blocked", waits: waiting })).toBe(true);
    expect(isHeld({ state: "ready", waits: waiting })).toBe(false);
    expect(isHeld({ state: "blocked", waits: newWaits(freeItem.waits!) })).toBe(false);
  });

  it("are kept by maps that have a cap alone", () => {
    expect(capOf({ kind: "group", tolerate: 0, concurrency: 3 })).toBe(3);
    expect(capOf({ kind: "group", tolerate: 0 })).toBeNull();
    expect(capOf({ kind: "race", first: 1, cancelsRest: true })).toBeNull();
    expect(capOf(undefined)).toBeNull();
  });
});
