/** The command line on a bucket in a folder: commands that look make nothing, and migrate makes the store. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { aFolder, lookingCommands, say, sayJson } from "./run-millrace.ts";

test.each([...lookingCommands, ["restore", "--list"], ["restore", "--until", "3"], ["enqueue", "a"]])(
  "%j refuses a folder without a store, and makes nothing there",
  async (...args) => {
    const folder = join(aFolder(), "mistyped");
    const { code, err } = await say([...args, "--store", `file://${folder}`]);
    expect(err).toMatch(/^millrace: store-missing: This bucket holds no store yet\. .*\n$/);
    expect(code).toBe(1);
    expect(existsSync(folder)).toBe(false);
  },
);

test("migrate says what it would do, makes the store, and has nothing to do after that", async () => {
  const folder = join(aFolder(), "jobs");
  const url = `file://${folder}`;
  const dry = await sayJson(["migrate", "--dry-run", "--store", url]);
  expect(dry).toMatchObject({ from: 0, to: 1, steps: [1], dryRun: true });
  expect(existsSync(folder)).toBe(false);
  expect((await say(["migrate", "--store", url])).out).toBe("there were no tables; migrated to version 1\n");
  const records = readdirSync(join(folder, "log"));
  expect((await say(["migrate", "--dry-run", "--store", url])).out).toMatch(/nothing to do/);
  expect(readdirSync(join(folder, "log"))).toEqual(records);
  expect((await say(["counts", "--store", url])).out).toBe("no jobs\n");
});

test("a change through a view is refused with the option that makes it, and done with that option", async () => {
  const url = `file://${join(aFolder(), "jobs")}`;
  await say(["migrate", "--store", url]);
  const refused = await say(["enqueue", "a", "--store", url]);
  expect(refused.code).toBe(1);
  expect(refused.err).toMatch(/^millrace: store-read-only: A view of a bucket can only be read.* --take/m);
  expect((await say(["enqueue", "a", "--take", "--store", url])).code).toBe(0);
  expect((await say(["counts", "--store", url, "--json"])).out).toContain('"ready": 1');
});
