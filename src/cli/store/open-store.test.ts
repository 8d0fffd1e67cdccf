import { expect, test } from "vitest";
import { shownUrl } from "./open-store.ts";

test.each([
  ["sqlite:./jobs.db", '"./jobs.db"'],
  [
    "postgres://user:secret@host:5433/app?schema=jobs&sslmode=require",
    "postgres://host:5433/app in the schema jobs",
  ],
  [
    "redis://:se%40cret@one:6379,two:6379/?cluster=true&prefix=shop",
    "redis://one:6379,two:6379/ in the prefix shop",
  ],
  ["rediss://host", "rediss://host"],
  ["postgres:///app", "postgres:///app"],
])("%s is named as %s", (url, name) => {
  expect(shownUrl(url)).toBe(name);
});

test("a parameter of a sqlite URL is refused by its name as on the other stores, with what to do instead", () => {
  expect(() => shownUrl("sqlite:./jobs.db?mode=ro&cache=shared")).toThrow(
    expect.objectContaining({
      code: "invalid-option",
      message: expect.stringMatching(/"mode", "cache".*takes none.*durability and sqlite\.executor/),
    }),
  );
});
