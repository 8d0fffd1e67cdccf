import { expect, test } from "vitest";
import { BoundedMap } from "./bounded-map.ts";

test("one entry too many pushes the oldest out, and a key that is set again counts as new", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2).set("a", 3).set("c", 4);
  expect([...map]).toEqual([
    ["a", 3],
    ["c", 4],
  ]);
});
