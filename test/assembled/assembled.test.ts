/**
 * The program text of the stores is what the snapshots say. After a change on purpose: `npm test -- test/assembled -u`,
 * and read the difference.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { assembledStores } from "./assembled-stores.ts";

describe.each(Object.entries(assembledStores))("%s", (store, { extension, texts }) => {
  const folder = join(import.meta.dirname, store);

  test.each([...texts()])("%s is as its snapshot says", async (name, text) => {
    await expect(`${text}\n`).toMatchFileSnapshot(join(folder, `${name}.${extension}`));
  });

  test("no snapshot is left of a function that is gone", () => {
    expect(readdirSync(folder).sort()).toEqual(
      [...texts().keys()].map((name) => `${name}.${extension}`).sort(),
    );
  });
});
