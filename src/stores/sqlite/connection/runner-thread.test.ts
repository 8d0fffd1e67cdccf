import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, expect, it } from "vitest";
import { threadFileBeside } from "./runner-thread.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-bundle-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("a bundle without the thread's file is told which file is missing and what to do", () => {
  const bundle = pathToFileURL(join(folder, "app.mjs")).href;
  const refusal = {
    code: "invalid-option",
    message: expect.stringContaining(join(folder, "thread-main.js")),
  };
  expect(() => threadFileBeside(bundle)).toThrow(expect.objectContaining(refusal));
  expect(() => threadFileBeside(bundle)).toThrow(/external/);
});

it("a bundle in CommonJS, which has no address of its own, is told the same", () => {
  expect(() => threadFileBeside(undefined)).toThrow(/thread-main.js.*external/);
});

it("sources and the built package have the file beside them", () => {
  expect(threadFileBeside(import.meta.url).href).toMatch(/thread-main.ts$/);
});
