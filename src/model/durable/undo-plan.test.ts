import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EntryBody, JournalEntry } from "./journal-entry.ts";
import { decideEnd, endAfterUndos, endingOf, planUndos } from "./undo-plan.ts";

const entriesOf = (bodies: readonly EntryBody[]): JournalEntry[] =>
  bodies.map((body, at) => ({ number: at + 1, at: 1000 + at, key: `${at}`, body }));
const result = (call: string, hasUndo = true): EntryBody => ({
  ...{ kind: "result", call, as: "run", value: `"${call}"` },
  ...(hasUndo ? { hasUndo: true as const } : {}),
});
const undone = (call: string): EntryBody => ({ kind: "undone", call, as: "run" });
const stuck = (call: string, attempt: number, retryInMs: number | null): EntryBody => ({
  ...{ kind: "stuck", call, as: "run", attempt, error: "no", retryInMs },
});

describe("the end of a run", () => {
  const ending = { state: "cancelled", reason: "asked" } as const;
  test.each([
    ["completed", { state: "completed", reason: null }, { hasUndo: true, ending: null }, "end"],
    ["bad without an undo", ending, { hasUndo: false, ending: null }, "end"],
    ["bad with an undo", ending, { hasUndo: true, ending: null }, "append-ending"],
    ["bad for a second time", ending, { hasUndo: true, ending: { state: "failed", reason: "x" } }, "undo"],
    ["diverged", { state: "failed", reason: "diverged" }, { hasUndo: true, ending: null }, "end"],
  ] as const)("that is %s", (_title, end, journal, decision) => {
    expect(decideEnd(end, journal)).toBe(decision);
  });

  test("after its undos is the first ending, or undo-failed", () => {
    const entries = entriesOf([
      result("a"),
      { kind: "ending", ...ending },
      { kind: "ending", state: "failed", reason: "x" },
    ]);
    expect(endingOf(entries)).toEqual(ending);
    expect(endAfterUndos(ending, false)).toEqual(ending);
    expect(endAfterUndos(ending, true)).toEqual({ state: "failed", reason: "undo-failed" });
  });
});

describe("the plan of undos", () => {
  test("is the recorded steps with an undo in reverse order, less those that are done", () => {
    const { undos } = planUndos(
      entriesOf([result("a"), result("b", false), result("c"), result("d"), undone("d")]),
    );
    expect(undos.map(({ call }) => call)).toEqual(["c", "a"]);
  });

  test("waits for the retry of an undo that failed, and passes over one that was given up", () => {
    const entries = entriesOf([
      result("a"),
      result("b"),
      stuck("b", 1, null),
      stuck("a", 1, 50),
      stuck("a", 2, 70),
    ]);
    expect(planUndos(entries)).toEqual({
      undos: [{ call: "a", value: '"a"', attempt: 2, notBefore: 1074 }],
      hasGivenUp: true,
    });
  });

  test("whatever is recorded in its order ends with every undo done once, in reverse", () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 8 }), (hasUndo) => {
        const bodies = hasUndo.map((has, at) => result(`s${at}`, has));
        const done: string[] = [];
        for (let next = planUndos(entriesOf(bodies)).undos[0]; next !== undefined;) {
          done.push(next.call);
          bodies.push(undone(next.call));
          next = planUndos(entriesOf(bodies)).undos[0];
        }
        expect(done).toEqual(hasUndo.flatMap((has, at) => (has ? [`s${at}`] : [])).toReversed());
      }),
    );
  });
});
