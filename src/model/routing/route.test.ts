/** Route numbers: equal for equal content, different for different content, and the same for ever. */
import { describe, expect, test } from "vitest";
import { routeNumber, routeOf } from "./route.ts";

describe("the number of a route", () => {
  test("is a whole number of at most 47 bits, the same each time", () => {
    const number = routeNumber("mail", "send");
    expect(number).toBe(routeNumber("mail", "send"));
    expect(Number.isInteger(number) && number > 0 && number < 2 ** 47).toBe(true);
  });

  test("stays what it was: jobs in stores that exist wait under it", () => {
    expect([
      routeNumber("mail", "send"),
      routeNumber("default", "ü💌"),
      routeNumber("q", "n", ["gpu", "x"]),
    ]).toEqual([58200545712770, 94678249932798, 17633762194074]);
  });

  test("tells queue, name and capabilities apart, wherever one ends", () => {
    const numbers = [
      routeNumber("ab", "c"),
      routeNumber("a", "bc"),
      routeNumber("c", "ab"),
      routeNumber("ab", "c", ["d"]),
      routeNumber("ab", "c", ["d", "e"]),
      routeNumber("ab", "c", ["de"]),
    ];
    expect(new Set(numbers).size).toBe(numbers.length);
  });

  test("differs among 200,000 names that differ in few characters", () => {
    const numbers = new Set<number>();
    for (let at = 0; at < 200_000; at++)
      numbers.add(routeNumber(`queue-${at % 20}`, `job-${Math.floor(at / 20)}`));
    expect(numbers.size).toBe(200_000);
  });

  test("tells gates from capabilities of the same name, and weights from each other", () => {
    const gate = (weight: number) => routeNumber("mail", "send", [], [{ key: "l:a", weight }]);
    const numbers = [routeNumber("mail", "send"), routeNumber("mail", "send", ["l:a"]), gate(1), gate(2)];
    expect(new Set(numbers).size).toBe(4);
  });

  test("comes with its content", () => {
    expect(routeOf({ queue: "mail", name: "send" })).toEqual({
      queue: "mail",
      name: "send",
      requires: [],
      gates: [],
      number: routeNumber("mail", "send"),
    });
  });
});
