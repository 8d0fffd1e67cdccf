import { expect, test } from "vitest";
import { storeLimits } from "../contract-limits.ts";
import { fitLines } from "./fit-lines.ts";

const linesMax = storeLimits.logLinesPerJobMax;

test("lines are numbered on from the last one", () => {
  expect(fitLines(0, ["a", "b"], "more")).toEqual([
    { number: 1, body: "a" },
    { number: 2, body: "b" },
  ]);
  expect(fitLines(7, ["a"], undefined)).toEqual([{ number: 8, body: "a" }]);
});

test("all lines that fit are kept, up to the very last one", () => {
  expect(fitLines(linesMax - 2, ["a", "b"], "more").map(({ body }) => body)).toEqual(["a", "b"]);
});

test("where more come than fit, the last one that fits says so, also when it is there already", () => {
  const last = { number: linesMax, body: "more" };
  expect(fitLines(linesMax - 2, ["a", "b", "c"], "more")).toEqual([
    { number: linesMax - 1, body: "a" },
    last,
  ]);
  expect(fitLines(linesMax - 1, ["a", "b"], "more")).toEqual([last]);
  expect(fitLines(linesMax, ["a"], "more")).toEqual([last]);
});

test("without a line for it, what does not fit is dropped", () => {
  expect(fitLines(linesMax - 1, ["a", "b"], undefined)).toEqual([{ number: linesMax, body: "a" }]);
  expect(fitLines(linesMax, ["a"], undefined)).toEqual([]);
});
