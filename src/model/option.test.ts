import { expect, test } from "vitest";
import { checkBoolean, checkOptions, checkWhole } from "./option.ts";

const invalid = expect.objectContaining({ code: "invalid-option" });

test("an options object comes back as it is when every key is known", () => {
  const given = { delay: 5 };
  expect(checkOptions(given, "enqueue", ["delay", "tags"])).toBe(given);
});

test.each([[null], [undefined], ["text"], [5], [[]]])("%j is no options object", (value) => {
  expect(() => checkOptions(value, "enqueue", ["delay"])).toThrow(invalid);
});

test("an unknown key is refused by name, also one that every object inherits", () => {
  expect(() => checkOptions({ delya: 5 }, "enqueue", ["delay"])).toThrow(
    /unknown option "delya"; known are delay/,
  );
  expect(() => checkOptions(JSON.parse('{"__proto__":1}'), "enqueue", ["delay"])).toThrow(invalid);
  expect(() => checkOptions({ toString: 1 }, "enqueue", ["delay"])).toThrow(invalid);
});

test("a whole number must be one, inside its bounds", () => {
  expect(checkWhole(1, "attempts", 1, 10)).toBe(1);
  expect(checkWhole(10, "attempts", 1, 10)).toBe(10);
  for (const value of [0, 11, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "5", null, undefined, 5n]) {
    expect(() => checkWhole(value, "attempts", 1, 10)).toThrow(invalid);
  }
});

test("a flag must be true or false", () => {
  expect([checkBoolean(true, "x"), checkBoolean(false, "x")]).toEqual([true, false]);
  for (const value of [0, 1, "true", null, undefined])
    expect(() => checkBoolean(value, "x")).toThrow(invalid);
});
