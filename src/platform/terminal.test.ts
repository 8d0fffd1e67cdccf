import { afterEach, expect, test } from "vitest";
import { nodeTerminal } from "./terminal.ts";

const sizes = ["columns", "rows"] as const;
const before = sizes.map((name) => Object.getOwnPropertyDescriptor(process.stdout, name));

afterEach(() => {
  for (const [at, name] of sizes.entries()) {
    const descriptor = before[at];
    if (descriptor === undefined) Reflect.deleteProperty(process.stdout, name);
    else Object.defineProperty(process.stdout, name, descriptor);
  }
});

test("a terminal that says it has no size, as in some containers, is drawn on like one of a usual size", () => {
  for (const name of sizes) Object.defineProperty(process.stdout, name, { value: 0, configurable: true });
  expect([nodeTerminal.columns, nodeTerminal.rows]).toEqual([100, 40]);
});
