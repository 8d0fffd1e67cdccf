import { expect, test } from "vitest";
import { errorCatalogue, isMillraceError, MillraceError, notYetSupported } from "./error.ts";
import type { ErrorCode } from "./error.ts";

const codes = Object.keys(errorCatalogue) as readonly ErrorCode[];

test("every code is kebab-case with a sentence and an HTTP status of an error", () => {
  for (const code of codes) {
    expect(code).toMatch(/^[a-z]+(-[a-z]+)*$/);
    expect(errorCatalogue[code].meaning).toMatch(/^[A-Z].*\.$/);
    expect(errorCatalogue[code].status >= 400 && errorCatalogue[code].status < 600).toBe(true);
  }
});

test("an error carries its code, its message, its cause and whether a later try may succeed", () => {
  const cause = new Error("inner");
  const error = new MillraceError("store-busy", "The store is busy.", { cause });
  expect(error).toMatchObject({
    name: "MillraceError",
    code: "store-busy",
    retryable: true,
    message: "The store is busy.",
    cause,
  });
  expect(error).toBeInstanceOf(Error);
  expect("cause" in new MillraceError("closed", "Closed.")).toBe(false);
});

test("nothing happened unless the error says that the outcome is unknown", () => {
  for (const code of codes) {
    expect(new MillraceError(code, "x").outcome).toBe(
      code === "outcome-unknown" ? "unknown" : "did-not-happen",
    );
  }
  expect(new MillraceError("store-unavailable", "x", { outcome: "unknown" }).outcome).toBe("unknown");
});

test("an error is known by its class and, if asked, by its code", () => {
  const error = notYetSupported("group");
  expect(isMillraceError(error)).toBe(true);
  expect(isMillraceError(error, "not-yet-supported")).toBe(true);
  expect(isMillraceError(error, "closed")).toBe(false);
  expect(isMillraceError({ code: "not-yet-supported" })).toBe(false);
  expect(error.message).toContain("group");
});
