import { describe, expect, test } from "vitest";
import {
  afterBudgetDefinition,
  afterBudgetEdit,
  boundsOfKey,
  budgetOf,
  readAmount,
  readBudget,
  readBudgetBody,
  readBudgetEdit,
  writeBudgetBody,
} from "./budget.ts";
import { decideBreach } from "./breach.ts";
import type { Reached } from "./breach.ts";

const coded = (code: string) => expect.objectContaining({ code });
const reset = { every: "1h" };
const defined = readBudget({ hard: 100, soft: 50, perKey: { hard: 10 }, reset }, "budget");
const body = { defined, edited: {}, acted: null };

describe("a definition", () => {
  test.each([
    ["a bound of zero", { hard: 0, reset }],
    ["a negative bound", { hard: -1, reset }],
    ["a fraction", { hard: 1.5, reset }],
    ["a bound above what counts exactly", { hard: 1e16, reset }],
    ["a warning at the hard bound", { hard: 10, soft: 10, reset }],
    ["a warning of keys above their bound", { perKey: { hard: 10, soft: 11 }, reset }],
    ["no bound at all", { reset }],
    ["no reset", { hard: 1 }],
    ["an unknown option", { hard: 1, reset, limit: 2 }],
    ["an unknown breach", { hard: 1, reset, onBreach: "explode" }],
    ["queues that are none", { hard: 1, reset, queues: "mail" }],
    ["no period to keep", { hard: 1, reset, keep: 0 }],
  ])("with %s is refused", (_what, options) => {
    expect(() => readBudget(options, "budget")).toThrow(coded("invalid-option"));
  });

  test("with a zone that does not exist is refused", () => {
    expect(() => readBudget({ hard: 1, reset: { every: "1d", zone: "Mars/Base" } }, "budget")).toThrow(
      coded("invalid-schedule"),
    );
  });

  test("is kept as it was read, and a text of nobody is none", () => {
    expect(readBudgetBody(writeBudgetBody(body))).toEqual(body);
    expect(readBudgetBody("{")).toBeNull();
  });
});

test.each([0, -1, 0.5, 1e13, Number.NaN, "5", null])("an amount of %s is refused", (amount) => {
  expect(() => readAmount(amount, "report")).toThrow(coded("invalid-option"));
});

describe("an edit", () => {
  test("comes before the definition until the definition itself changes", () => {
    const edited = afterBudgetEdit(body, readBudgetEdit({ hard: 200, perKey: { hard: 20 } }, "edit"));
    expect(budgetOf(edited)).toMatchObject({ hard: 200, soft: 50, perKey: { hard: 20, soft: null } });
    expect(
      afterBudgetDefinition(edited, readBudget({ hard: 100, soft: 50, perKey: { hard: 10 }, reset }, "b")),
    ).toBeNull();
    const other = afterBudgetDefinition(edited, { ...defined, hard: 300 });
    expect(other === null ? null : budgetOf(other)).toMatchObject({ hard: 300, perKey: { hard: 10 } });
  });

  test("with null takes a bound back to the definition", () => {
    const raised = afterBudgetEdit(body, { hard: 200 });
    expect(budgetOf(afterBudgetEdit(raised, readBudgetEdit({ hard: null }, "edit")))).toMatchObject({
      hard: 100,
    });
  });

  test("of one key comes before that of all keys", () => {
    const own = { defined: null, edited: { hard: 5 }, acted: null };
    expect([boundsOfKey(defined, null), boundsOfKey(defined, own)]).toEqual([
      { hard: 10, soft: null },
      { hard: 5, soft: null },
    ]);
  });

  test("of nothing, or of keys where a key is named, is refused", () => {
    expect(() => readBudgetEdit({}, "edit")).toThrow(coded("invalid-option"));
    expect(() => readBudgetEdit({ perKey: { hard: 1 } }, "edit", true)).toThrow(coded("invalid-option"));
  });
});

describe("what follows from a count", () => {
  const period = { id: "p1", startsAt: 0, endsAt: 1000 };
  const reached = (count: number, other: Partial<Reached> = {}): ReturnType<typeof decideBreach> =>
    decideBreach({
      ...{ bounds: { hard: 100, soft: 50 }, onBreach: "hold", count, period, acted: null },
      ...{ closedUntil: null, now: 10, ...other },
    });

  test("below the bounds nothing, at the soft one a warning, once per period", () => {
    expect(reached(49)).toBeNull();
    const warned = reached(50);
    expect(warned).toEqual({
      acted: { period: "p1", soft: true },
      closedUntil: null,
      emits: "budget-warned",
    });
    expect(reached(60, { acted: warned!.acted })).toBeNull();
    expect(reached(60, { acted: { period: "p0", soft: true } })).toMatchObject({ emits: "budget-warned" });
  });

  test("at the hard one the gate closes until the period ends, once per crossing", () => {
    const breach = reached(100);
    expect(breach).toEqual({
      ...{ acted: { period: "p1", soft: true, hard: true }, closedUntil: 1000, emits: "budget-breached" },
    });
    expect(reached(120, { acted: breach!.acted, closedUntil: 1000 })).toBeNull();
    // A write that was lost, or an operator's change of the reset.
    expect(reached(120, { acted: breach!.acted, closedUntil: 500 })).toMatchObject({
      closedUntil: 1000,
      emits: null,
    });
    const opened = reached(90, { acted: breach!.acted, closedUntil: 1000 });
    expect(opened).toEqual({ acted: { period: "p1", soft: true }, closedUntil: null, emits: null });
    expect(reached(100, { acted: opened!.acted })).toMatchObject({
      emits: "budget-breached",
      closedUntil: 1000,
    });
  });

  test("a breach that notifies closes nothing, and one that ends jobs says so until it is done", () => {
    expect(reached(100, { onBreach: "notify" })).toMatchObject({
      closedUntil: null,
      emits: "budget-breached",
    });
    const ending = reached(100, { onBreach: "cancel" });
    expect(ending).toMatchObject({ acted: { ending: true }, closedUntil: 1000 });
    expect(reached(101, { onBreach: "cancel", acted: ending!.acted, closedUntil: 1000 })).toBeNull();
  });
});
