import { expect, test } from "vitest";
import { checkNodeVersion } from "./node-version.ts";

test.each(["22.18.0", "22.19.1", "23.0.0", "24.1.0", "26.10.0"])("Node.js %s will do", (version) => {
  expect(() => checkNodeVersion(version)).not.toThrow();
});

test.each(["20.20.2", "22.17.1", "22.5.0", "18.0.0"])("Node.js %s is refused by name", (version) => {
  expect(() => checkNodeVersion(version)).toThrow(
    expect.objectContaining({ code: "unsupported-node", message: expect.stringContaining(version) }),
  );
});
