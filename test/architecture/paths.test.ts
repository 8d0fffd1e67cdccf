// Counts the paths of all stores (src/store/paths.ts). A path more or less has to be said here, in the same change.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { FastPath, StorePaths } from "../../src/store/paths.ts";

const stores = join(import.meta.dirname, "..", "..", "src", "stores");

/** What every store may have. Another path needs a decision record. */
const expected: Readonly<Record<string, readonly string[]>> = {
  postgres: [
    "submit: one job",
    "submit: flow members",
    "submit: set",
    "claim: lanes",
    "settle: set",
    "record: set",
    "change: set",
    "putDocs: set",
  ],
  redis: [
    "submit: set",
    "submit: flow members",
    "claim: lanes",
    "lease: set",
    "lease: flow members",
    "settle: flow members",
    "settle: set",
    "record: set",
    "arrive: flow members",
  ],
  sqlite: [
    "submit: set",
    "submit: flow members",
    "claim: lanes",
    "lease: set",
    "settle: flow members",
    "settle: set",
  ],
};

async function tables(): Promise<[store: string, paths: StorePaths][]> {
  const withTables = readdirSync(stores, { recursive: true, encoding: "utf8" })
    .filter((path) => /^[a-z]+[/\\]paths\.ts$/.test(path))
    .toSorted();
  return Promise.all(
    withTables.map(async (path): Promise<[string, StorePaths]> => {
      const exported = Object.values((await import(join(stores, path))) as Record<string, StorePaths>);
      expect(exported, `${path} exports its table and nothing else`).toHaveLength(1);
      return [path.split(/[/\\]/)[0] as string, exported[0] as StorePaths];
    }),
  );
}

test("a store has the paths that are named here, and no other", async () => {
  const listed = (await tables()).map(([store, paths]): [string, string[]] => [
    store,
    Object.entries<readonly FastPath[]>(paths).flatMap(([at, fast]) =>
      fast.map(({ path }) => `${at}: ${path}`),
    ),
  ]);
  expect(Object.fromEntries(listed)).toEqual(expected);
});

test("no choice has a path twice", async () => {
  for (const [store, paths] of await tables())
    for (const [at, fast] of Object.entries<readonly FastPath[]>(paths))
      expect(new Set(fast.map(({ path }) => path)).size, `${store}, ${at}`).toBe(fast.length);
});
