import fc from "fast-check";
import { expect, test } from "vitest";
import { routeOf } from "../../../model/routing/route.ts";
import { contentText, readRoute, readRoutes, routeText } from "./route-text.ts";

test("the number of a route is eight characters, and comes back from them", () => {
  const numbers = fc.integer({ min: 0, max: 2 ** 48 - 1 });
  fc.assert(
    fc.property(numbers, (number) => {
      expect(routeText(number)).toMatch(/^[\w-]{8}$/);
      expect(readRoute(routeText(number))).toBe(number);
    }),
  );
});

test("the content of a route comes back from its text, whatever its names are", () => {
  const gates = ["l:a\x1e", "l:b\x1f"].map((key, at) => ({ key, weight: at + 1 }));
  const route = routeOf({ queue: "a\x1fb", name: "ünï\x1e", requires: ["gpu", "eu\x01"], gates });
  expect([...readRoutes([routeText(route.number), contentText(route)]).values()]).toEqual([route]);
});
