// What a catalogue promises is somewhere done: an error code is thrown, an end reason is given, and an operation of the
// store contract is called by the tests that every store runs. A line that nobody uses is a step that was forgotten.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { errorCatalogue } from "../../src/model/error.ts";
import { endReasons } from "../../src/model/job/end-reason.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { openReference } from "../support/stores/reference-as-store.ts";
import { parseSource } from "./parsed-source.ts";

const root = join(import.meta.dirname, "..", "..");

function wordsIn(folder: string, isRead: (path: string) => boolean): ReadonlySet<string> {
  const paths = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  const sources = paths.filter((path) => path.endsWith(".ts") && isRead(path));
  const words = sources.map((path) => {
    const file = join(root, folder, path);
    return [...parseSource(file, readFileSync(file, "utf8")).words];
  });
  return new Set(words.flat());
}

const unusedOf = (catalogue: object, words: ReadonlySet<string>): string[] =>
  Object.keys(catalogue).filter((name) => !words.has(name));

test("each error code is thrown, and each end reason is given", () => {
  const words = wordsIn("src", (path) => !path.endsWith(".test.ts"));
  expect(unusedOf({ ...errorCatalogue, ...endReasons }, words)).toEqual([]);
});

test("each operation of the contract is called by the tests that every store runs", () => {
  const operations = openReference(createHeldPlatform(), 1);
  const words = wordsIn("test/contract", () => true);
  // Damage and transactions are made by the driver of each store, so each has its own tests of these.
  expect(unusedOf(operations, words)).toEqual(["readUnreadable", "deleteUnreadable", "inTransaction"]);
});

test("a key of a catalogue and a word in a comment or a template are no use", () => {
  const { words } = parseSource("a.ts", 'f({ "a-b": `c-d` }); // \'e-f\'\ng("h-i"); store.claim();');
  expect(unusedOf({ "a-b": 1, "c-d": 1, "e-f": 1, "h-i": 1, claim: 1 }, words)).toEqual([
    "a-b",
    "c-d",
    "e-f",
  ]);
});
