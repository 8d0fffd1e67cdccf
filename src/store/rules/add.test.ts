import { expect, test } from "vitest";
import type { Add, Doc } from "../records.ts";
import { addTo } from "./add.ts";
import type { AddOutcome, KeptCounter } from "./add.ts";

const now = 1000;
const floor = (): number => 7;
const kept = (body: string, expiresAt: number | null = null): KeptCounter => ({
  version: 3,
  expiresAt,
  body,
});
const to = (counter: KeptCounter | null, add: Add): AddOutcome =>
  addTo(counter, { kind: "c", id: "a", add, expiresInMs: 5 }, floor, now);
const written = (outcome: AddOutcome): Doc => {
  if (outcome.kind !== "written") throw new Error(outcome.kind);
  return outcome.doc;
};

test("an absent counter begins at 0 and above the floor of versions, an expired one at 0 and above its own", () => {
  expect(written(to(null, { by: 4 }))).toMatchObject({ body: "4", version: 8, dueAt: null, expiresAt: 1005 });
  expect(written(to(kept("90", now), { by: 4 }))).toMatchObject({ body: "4", version: 4 });
  expect(written(to(kept("90", now + 1), { by: -94 }))).toMatchObject({ body: "-4", version: 4 });
});

test("an add up to the ceiling is applied, one above it is refused, and what takes away is never refused", () => {
  expect(to(kept("6"), { by: 4, ceiling: 10 })).toMatchObject({ kind: "written", number: 10 });
  expect(to(kept("6"), { by: 5, ceiling: 10 })).toEqual({ kind: "above", number: 6 });
  expect(to(kept("20"), { by: -1, ceiling: 10 })).toMatchObject({ kind: "written", number: 19 });
  expect(to(kept("20"), { by: 0, ceiling: 10 })).toMatchObject({ kind: "written", number: 20 });
  expect(to(kept("20"), { by: 1, ceiling: null })).toMatchObject({ kind: "written", number: 21 });
});

test("passing marks upwards leaves one document that is due now, and nothing else does", () => {
  const leaves = { kind: "deferred", id: "w" };
  const left = (before: string, by: number): unknown => {
    const outcome = to(kept(before), { by, marks: [10, 20], leaves });
    return outcome.kind === "written" ? outcome.left : outcome;
  };
  const put = { ...leaves, body: "", guard: "any", due: { inMs: 0 } };
  expect(left("9", 1)).toEqual(put);
  expect(left("0", 50)).toEqual(put);
  expect(left("10", 9)).toBeNull();
  expect(left("19", 1)).toEqual(put);
  expect(left("30", -15)).toBeNull();
  expect(to(kept("9"), { by: 1, marks: [10] })).toMatchObject({ left: null });
});

test("what is no whole number of 53 bits is neither counted nor made", () => {
  const max = Number.MAX_SAFE_INTEGER;
  for (const body of ["", "x", " 1", "1.5", "1e3", "007", "-0", "+1", "NaN", "9007199254740992"])
    expect(to(kept(body), { by: 1 }), body).toEqual({ kind: "uncountable" });
  expect(to(kept(String(max)), { by: 1 })).toEqual({ kind: "uncountable" });
  expect(to(kept(String(max)), { by: max })).toEqual({ kind: "uncountable" });
  expect(to(kept(String(-max)), { by: -1 })).toEqual({ kind: "uncountable" });
  expect(to(kept(String(max)), { by: 1, ceiling: max })).toEqual({ kind: "above", number: max });
  for (const by of [0.5, Number.NaN, Infinity, 2 ** 53])
    expect(to(null, { by })).toEqual({ kind: "uncountable" });
  expect(written(to(kept(String(-max)), { by: max })).body).toBe("0");
  expect(written(to(kept("5"), { by: -5 })).body).toBe("0");
});
