import { describe, expect, test } from "vitest";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { openFloors } from "./floors.ts";

const offers = [{ routes: [1] }, { routes: [2, 3] }];
const fast = { lowest: [5, 9], pickUs: 200, jobs: 10, clock: null, now: 0 };
const slow = { ...fast, pickUs: 40_000 };

describe("claims under a long reader", () => {
  test("look at everything while finding is fast", () => {
    const floors = openFloors(createHeldPlatform());
    floors.learn(offers, floors.plan(offers, 15_000), fast);
    expect(floors.plan(offers, 15_000)).toEqual({ isBounded: false, floors: [null, null], knownClock: null });
  });

  test("begin where the last one began once finding is slow, and look at everything for a twentieth of the time", () => {
    const platform = createHeldPlatform();
    const floors = openFloors(platform);
    floors.learn(offers, floors.plan(offers, 15_000), slow);
    expect(floors.plan(offers, 15_000)).toMatchObject({ isBounded: true, floors: [5, 9] });
    floors.learn(offers, floors.plan(offers, 15_000), { ...fast, lowest: [7, null] });
    expect(floors.plan(offers, 15_000)).toMatchObject({ isBounded: true, floors: [7, 9] });
    platform.advance(799);
    expect(floors.plan(offers, 15_000).isBounded).toBe(true);
    platform.advance(1);
    expect(floors.plan(offers, 15_000).isBounded).toBe(false);
  });

  test("forget their floors when looking at everything is fast again", () => {
    const platform = createHeldPlatform();
    const floors = openFloors(platform);
    floors.learn(offers, floors.plan(offers, 15_000), slow);
    platform.advance(1000);
    floors.learn(offers, floors.plan(offers, 15_000), fast);
    expect(floors.plan(offers, 15_000).isBounded).toBe(false);
  });

  test("ask for the next clock only when it is not known or has rung", () => {
    const platform = createHeldPlatform();
    const floors = openFloors(platform);
    floors.learn(offers, floors.plan(offers, 15_000), { ...slow, clock: 300, now: 100 });
    expect(floors.plan(offers, 15_000).knownClock).toBe(300);
    // A lease that ends before the known clock may be the next to ring.
    expect(floors.plan(offers, 50).knownClock).toBeNull();
    platform.advance(200);
    expect(floors.plan(offers, 15_000).knownClock).toBeNull();
  });
});
