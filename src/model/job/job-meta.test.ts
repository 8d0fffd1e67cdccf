import { expect, test } from "vitest";
import { readMeta, writeMeta } from "./job-meta.ts";

test("headers and trace survive being written, and nothing is written as nothing", () => {
  const meta = { headers: { tenant: "42" }, trace: { traceparent: "00-1" } };
  expect(readMeta(writeMeta(meta))).toEqual(meta);
  expect(readMeta(writeMeta({ headers: {} }))).toEqual({ headers: {} });
  expect(writeMeta({})).toBeNull();
  expect(readMeta(null)).toEqual({});
});

test("a damaged text counts as saying nothing", () => {
  for (const text of ["", "{", "null", "7", '"text"']) expect(readMeta(text)).toEqual({});
});
