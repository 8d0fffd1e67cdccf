import fc from "fast-check";
import { expect, test } from "vitest";
import { mergePatch } from "./merge-patch.ts";

test("objects are merged, null deletes, and anything else replaces", () => {
  const cases: readonly (readonly [target: unknown, patch: unknown, merged: unknown])[] = [
    [undefined, { a: 1 }, { a: 1 }],
    [{ a: 1, b: 2 }, { b: null }, { a: 1 }],
    [{ a: { b: 1, c: 2 } }, { a: { b: 3, d: { e: null } } }, { a: { b: 3, c: 2, d: {} } }],
    [{ a: [1, 2] }, { a: [3] }, { a: [3] }],
    [{ a: 1 }, { a: { b: 1 } }, { a: { b: 1 } }],
    [{ a: 1 }, ["x"], ["x"]],
    [{ a: 1 }, "x", "x"],
    [["x"], { a: 1 }, { a: 1 }],
    [{}, null, null],
  ];
  for (const [target, patch, merged] of cases) expect(mergePatch(target, patch)).toEqual(merged);
});

test("nothing that was given is changed, and a key that is called __proto__ is one like any other", () => {
  const target = JSON.parse('{"a":{"b":1}}') as unknown;
  const patch = JSON.parse('{"a":{"c":2},"__proto__":{"x":1}}') as unknown;
  const merged = mergePatch(target, patch);
  expect(JSON.stringify(merged)).toBe('{"a":{"b":1,"c":2},"__proto__":{"x":1}}');
  expect([target, patch].map((value) => JSON.stringify(value))).toEqual([
    '{"a":{"b":1}}',
    '{"a":{"c":2},"__proto__":{"x":1}}',
  ]);
  expect(({} as { x?: number }).x).toBeUndefined();
});

test("a patch applied twice is the patch applied once", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (target, patch) => {
      const once = mergePatch(target, patch);
      expect(mergePatch(once, patch)).toEqual(once);
    }),
  );
});
