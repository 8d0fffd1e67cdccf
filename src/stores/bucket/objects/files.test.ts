import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import type { PathLike } from "node:fs";
import { link } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { openBucketStore } from "../bucket-store.ts";
import { openFiles } from "./files.ts";

let root: string;
beforeEach(() => void (root = mkdtempSync(join(tmpdir(), "millrace-files-"))));
afterEach(() => rmSync(root, { recursive: true, force: true }));
const bytes = new Uint8Array([1, 2, 3]);
const isRoot = process.getuid?.() === 0;

test("the folder is made if its parent exists, and otherwise refused by name", async () => {
  const objects = await openFiles(join(root, "store"), nodePlatform);
  await objects.close();
  expect(existsSync(join(root, "store"))).toBe(true);
  await expect(openFiles(join(root, "none", "store"), nodePlatform)).rejects.toMatchObject({
    kind: "no-bucket",
    message: expect.stringContaining(join(root, "none", "store")) as string,
  });
});

test("a process that only looks makes nothing, in a folder that is not there nor in one that it may only read", async () => {
  const missing = await openFiles(join(root, "store"), nodePlatform, { isMade: false });
  expect(await missing.get("millrace")).toBeNull();
  await missing.close();
  expect(readdirSync(root)).toEqual([]);
  mkdirSync(join(root, "store"));
  const there = await openFiles(join(root, "store"), nodePlatform, { isMade: false });
  expect(await there.get("millrace")).toBeNull();
  expect((await there.list("", null)).names).toEqual([]);
  expect(readdirSync(join(root, "store"))).toEqual([]);
  await there.put("millrace", bytes, true);
  rmSync(join(root, "store"), { recursive: true });
  await expect(there.get("millrace")).rejects.toMatchObject({ kind: "no-bucket" });
  await there.close();
  const lost = await openFiles(join(root, "none", "store"), nodePlatform, { isMade: false });
  await expect(lost.get("millrace")).rejects.toMatchObject({ kind: "no-bucket" });
  await lost.close();
});

test("a file in the place of the folder is refused", async () => {
  writeFileSync(join(root, "store"), "a file");
  await expect(openFiles(join(root, "store"), nodePlatform)).rejects.toMatchObject({ kind: "no-bucket" });
});

test.each(["EPERM", "ENOTSUP"])(
  "a file system without hard links (%s) is refused by that name, and no permission is blamed",
  async (code) => {
    const linkFile = () => Promise.reject(Object.assign(new Error(code), { code, syscall: "link" }));
    const objects = await openFiles(root, nodePlatform, { linkFile });
    const opening = openBucketStore({ objects, platform: nodePlatform });
    await expect(opening).rejects.toMatchObject({
      code: "durability-refused",
      message: expect.stringContaining(`${root} is on a file system without hard links`) as string,
    });
    expect(readdirSync(root, { recursive: true })).toEqual([".temporary"]);
  },
);

test("a folder that takes no link is one without permission, not a file system without links", async () => {
  const linkFile = (from: PathLike, to: PathLike): Promise<void> =>
    String(to).includes("log")
      ? Promise.reject(Object.assign(new Error("EPERM"), { code: "EPERM", syscall: "link" }))
      : link(from, to);
  const objects = await openFiles(root, nodePlatform, { linkFile });
  await expect(objects.put("log/1", bytes, true)).rejects.toMatchObject({ kind: "denied" });
  await objects.close();
  expect(readdirSync(join(root, ".temporary"))).toEqual([]);
});

test("a put leaves no temporary file, whatever it answered", async () => {
  const objects = await openFiles(root, nodePlatform);
  await objects.put("log/1", bytes, true);
  await objects.put("log/1", bytes, true);
  await objects.put("log/1", bytes, false);
  await objects.close();
  expect(readdirSync(join(root, ".temporary"))).toEqual([]);
  expect(readdirSync(join(root, "log"))).toEqual(["1"]);
});

test("temporaries are not listed; those of processes long gone are removed at open, those of an hour stay", async () => {
  const temporary = join(root, ".temporary");
  mkdirSync(temporary);
  writeFileSync(join(temporary, "old"), "left");
  writeFileSync(join(temporary, "young"), "left");
  const twoHoursAgo = statSync(join(temporary, "young")).mtimeMs / 1000 - 2 * 60 * 60;
  utimesSync(join(temporary, "old"), twoHoursAgo, twoHoursAgo);
  const objects = await openFiles(root, nodePlatform);
  expect(readdirSync(temporary)).toEqual(["young"]);
  expect((await objects.list("", null)).names).toEqual([]);
  await objects.close();
});

test("a folder that was removed while it was open is missing, not empty", async () => {
  const objects = await openFiles(join(root, "store"), nodePlatform);
  await objects.put("log/1", bytes, true);
  rmSync(join(root, "store"), { recursive: true });
  const missing = { kind: "no-bucket", outcome: "did-not-happen" };
  await expect(objects.get("log/1")).rejects.toMatchObject(missing);
  await expect(objects.list("log/", null)).rejects.toMatchObject(missing);
  await expect(objects.put("log/2", bytes, true)).rejects.toMatchObject(missing);
  await objects.close();
});

test("close waits for a put that is under way", async () => {
  const objects = await openFiles(root, nodePlatform);
  const put = objects.put("log/1", bytes, true);
  await objects.close();
  expect(existsSync(join(root, "log", "1"))).toBe(true);
  expect(await put).toBe("stored");
});

test.skipIf(isRoot)(
  "a folder without permission is denied (skipped for root, who may do anything)",
  async () => {
    const objects = await openFiles(root, nodePlatform);
    chmodSync(join(root, ".temporary"), 0o500);
    await expect(objects.put("log/1", bytes, true)).rejects.toMatchObject({
      kind: "denied",
      outcome: "did-not-happen",
    });
    chmodSync(join(root, ".temporary"), 0o700);
    await objects.close();
  },
);
