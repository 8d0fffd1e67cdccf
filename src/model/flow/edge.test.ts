import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { stateCodes, terminalStates } from "../job/job-state.ts";
import { bitsOf, edgesOfStep, everyEnd, hasBit, idOfNode, readEdge, writeEdge } from "./edge.ts";

describe("an edge", () => {
  test("is read as it was written, whatever its target is called", () => {
    const bits = fc.integer({ min: 0, max: everyEnd });
    fc.assert(
      fc.property(bits, bits, fc.string(), (meets, misses, target) => {
        expect(readEdge(writeEdge({ meets, misses, target }))).toEqual({ meets, misses, target });
      }),
    );
  });

  test("has one bit for each end", () => {
    fc.assert(
      fc.property(fc.subarray([...terminalStates]), (ends) => {
        const bits = bitsOf(...ends);
        for (const state of terminalStates)
          expect(hasBit(bits, stateCodes[state])).toBe(ends.includes(state));
      }),
    );
    // Stored data depends on these.
    expect(writeEdge({ meets: bitsOf("completed"), misses: everyEnd - 1, target: "fetch" })).toBe("1ufetch");
  });

  test("leads to a node beside its own, or to the flow", () => {
    expect(idOfNode("F.s", "x")).toBe("F.s.x");
    expect(idOfNode("F.s", "")).toBe("F.s");
  });

  test("of many is passed in steps that grow up to the most that one takes", () => {
    const limits = { edgesAtOnceMax: 64, edgesPerStepMax: 500 };
    expect([0, 64, 192, 576, 9000].map((passed) => edgesOfStep(passed, limits))).toEqual([
      ...[64, 128, 384, 500, 500],
    ]);
  });
});
