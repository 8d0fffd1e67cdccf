import { afterEach, expect, test } from "vitest";
import { hideSqliteWarning } from "./quiet-warnings.ts";

const before = process.listeners("warning");
afterEach(() => {
  process.removeAllListeners("warning");
  for (const listener of before) process.on("warning", listener);
});

test("only the warning about the embedded SQLite is hidden", () => {
  const told: string[] = [];
  process.removeAllListeners("warning");
  process.on("warning", ({ message }) => told.push(message));
  hideSqliteWarning();
  for (const [name, message] of [
    ["ExperimentalWarning", "SQLite is an experimental feature and might change at any time"],
    ["ExperimentalWarning", "another feature is experimental"],
    ["Warning", "SQLite is full"],
  ] as const)
    process.emit("warning", Object.assign(new Error(message), { name }));
  expect(told).toEqual(["another feature is experimental", "SQLite is full"]);
});
