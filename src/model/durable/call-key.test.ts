import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { branchPrefix, CallScope, itemPrefix, nameOfCall, waitKey } from "./call-key.ts";

describe("a scope", () => {
  test("counts the calls of each name, whatever their kind", () => {
    const scope = new CallScope();
    expect([scope.nextKey("run", "a"), scope.nextKey("sleep", "a"), scope.nextKey("run", "b")]).toEqual([
      ...["a#1", "a#2", "b#1"],
    ]);
  });

  test("counts the waits for each signal by themselves, so that a token can name one before it is made", () => {
    const scope = new CallScope();
    scope.nextKey("run", "paid");
    expect(scope.nextKey("wait", "paid")).toBe(waitKey("paid", 1));
    expect(scope.nextKey("approval", "paid")).toBe(waitKey("paid", 2));
  });
});

/** A call as it lies in branches of races and items of lists. */
const place = fc.record({
  within: fc.array(
    fc.record({
      isRace: fc.boolean(),
      name: fc.string(),
      count: fc.integer({ min: 1, max: 3 }),
      part: fc.string(),
    }),
    { maxLength: 3 },
  ),
  kind: fc.constantFrom("run" as const, "wait" as const),
  name: fc.string(),
  count: fc.integer({ min: 1, max: 3 }),
});

function keyOf({
  within,
  kind,
  name,
  count,
}: typeof place extends fc.Arbitrary<infer T> ? T : never): string {
  let prefix = "";
  for (const each of within) {
    const scope = new CallScope(prefix);
    for (let at = 1; at < each.count; at++) scope.nextKey(each.isRace ? "race" : "each", each.name);
    const key = scope.nextKey(each.isRace ? "race" : "each", each.name);
    prefix = each.isRace ? branchPrefix(key, each.part) : itemPrefix(key, each.part);
  }
  const scope = new CallScope(prefix);
  for (let at = 1; at < count; at++) scope.nextKey(kind, name);
  return scope.nextKey(kind, name);
}

test("a key says the name that the handler gave, wherever the call was made", () => {
  fc.assert(
    fc.property(place, (one) => {
      expect(nameOfCall(keyOf(one))).toBe(one.name);
    }),
  );
});

test("two calls that differ in place, name or count never have one key, whatever characters their names have", () => {
  const hostile = fc.constantFrom("a", "a#1", "a#1.b/c", "a[b]/", "?a", "%23", "#", "", "]/x#1");
  const near = fc
    .tuple(place, place, hostile, hostile)
    .map(([one, other, name, part]) => [
      one,
      { ...other, name, within: other.within.map((each) => ({ ...each, part })) },
    ]);
  fc.assert(
    fc.property(near, ([one, other]) => {
      const areEqual = JSON.stringify(one) === JSON.stringify(other);
      expect(keyOf(one as never) === keyOf(other as never)).toBe(areEqual);
    }),
    { numRuns: 1000 },
  );
});
