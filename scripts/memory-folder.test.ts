// Which folder in memory a test run gets, and that none is left behind.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeMemoryFolder } from "./memory-folder.ts";
import type { Memory } from "./memory-folder.ts";

let base: string;
beforeEach(() => void (base = mkdtempSync(join(tmpdir(), "millrace-memory-"))));
afterEach(() => rmSync(base, { recursive: true, force: true }));

const memory = (given: Partial<Memory> = {}): Memory => ({
  base,
  mounts: `proc /proc proc rw 0 0\ntmpfs ${base} tmpfs rw,relatime 0 0\n`,
  namespace: "7",
  freeBytes: 2 ** 40,
  ...given,
});

test("a run has a folder of its own, which goes with all that is in it", () => {
  const folder = makeMemoryFolder(memory());
  const path = folder?.path ?? "";
  expect(path).toBe(join(base, `millrace-tests-7-${process.pid}`));
  writeFileSync(join(path, "file"), "");
  folder?.remove();
  expect(existsSync(path)).toBe(false);
});

test("what a killed run left is removed by the next one, and what a living one or another container has stays", () => {
  const names = ["7-999999999", `7-${process.ppid}`, "8-999999999"].map((name) => `millrace-tests-${name}`);
  for (const name of names) mkdirSync(join(base, name));
  makeMemoryFolder(memory());
  expect(names.map((name) => existsSync(join(base, name)))).toEqual([false, true, true]);
});

test.each([
  ["there is none", null],
  ["it is too small", { freeBytes: 2 ** 30 }],
  ["programs cannot be started there", { mounts: "tmpfs BASE tmpfs rw,nosuid,noexec 0 0\n" }],
])("the disk serves if %s", (_why, given) => {
  const of = given === null ? null : memory(given);
  expect(makeMemoryFolder(of && { ...of, mounts: of.mounts.replace("BASE", base) })).toBeNull();
});
