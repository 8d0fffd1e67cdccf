/**
 * What the histories are worth for counters: each bug that is planted in the rule of adds (src/store/rules/add.ts), as
 * SQLite uses it, gives an answer that the reference model does not give. The reference has a rule of its own.
 */
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import type * as AddRule from "../../src/store/rules/add.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { docShape } from "./history-commands.ts";
import type { Command } from "./history-commands.ts";
import { HistoryWorld } from "./history-world.ts";

type Rule = typeof AddRule.addTo;

const bent = vi.hoisted(() => ({ rule: null as Rule | null }));
vi.mock("../../src/store/rules/add.ts", async (importOriginal) => {
  const real = await importOriginal<typeof AddRule>();
  const addTo = (...given: Parameters<Rule>): unknown => (bent.rule ?? real.addTo)(...given);
  return { ...real, addTo };
});
const { addTo: actual } = await vi.importActual<typeof AddRule>("../../src/store/rules/add.ts");

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .array(docShape, { minLength: 1, maxLength: 3 })
      .map((docs): Command => ({ do: "put", docs })),
  },
  {
    weight: 2,
    arbitrary: fc
      .array(docShape, { minLength: 1, maxLength: 2 })
      .map((docs): Command => ({ do: "submit", units: [{ jobs: [], docs }] })),
  },
  { weight: 1, arbitrary: fc.constantFrom(1, 20, 50).map((ms): Command => ({ do: "advance", ms })) },
  { weight: 1, arbitrary: fc.constant<Command>({ do: "prune", what: 0, olderThanMs: 0, max: 3 }) },
);

/** What was found in up to this many histories; null for nothing. */
async function findDifference(numRuns: number): Promise<string | null> {
  const property = fc.asyncProperty(fc.array(command, { minLength: 10, maxLength: 40 }), async (commands) => {
    const platform = createHeldPlatform();
    const store = await openSqliteStore({ path: ":memory:", platform });
    try {
      const { epoch } = await store.describe();
      await new HistoryWorld(store, platform, { epoch, sightings: new Map() }).run(commands);
    } finally {
      await store.close();
    }
  });
  const result = await fc.check(property, { numRuns, seed: 9, endOnFailure: true });
  return result.failed ? `after ${result.numRuns} histories: ${String(result.errorInstance)}` : null;
}

/** The rule with another put, or with another answer. */
const asked =
  (change: (put: Parameters<Rule>[1]) => Parameters<Rule>[1]["add"]): Rule =>
  (kept, put, floor, now) =>
    actual(kept, { ...put, add: change(put) }, floor, now);
const answered =
  (change: (outcome: AddRule.AddOutcome & { kind: "written" }) => AddRule.AddOutcome): Rule =>
  (...given) => {
    const outcome = actual(...given);
    return outcome.kind === "written" ? change(outcome) : outcome;
  };

const mutants: readonly { readonly bug: string; readonly planted: Rule }[] = [
  { bug: "an add has no ceiling", planted: asked(({ add }) => ({ ...add, ceiling: null })) },
  {
    bug: "the ceiling is looked at before the add",
    planted: asked(({ add }) => ({
      ...add,
      ceiling: add.ceiling === null || add.ceiling === undefined ? null : add.ceiling + Math.max(0, add.by),
    })),
  },
  {
    bug: "what takes away is refused above the ceiling, too",
    planted: (kept, put, floor, now) => {
      const outcome = actual(kept, put, floor, now);
      const { ceiling = null } = put.add;
      if (outcome.kind !== "written" || ceiling === null || outcome.number <= ceiling) return outcome;
      return { kind: "above", number: outcome.number - put.add.by };
    },
  },
  {
    bug: "an expired counter goes on from its number",
    planted: (kept, put, floor, now) =>
      actual(kept === null ? null : { ...kept, expiresAt: null }, put, floor, now),
  },
  {
    bug: "a new counter begins at version 1 whatever was deleted",
    planted: (kept, put, _floor, now) => actual(kept, put, () => 0, now),
  },
  { bug: "a passed mark leaves nothing", planted: answered((outcome) => ({ ...outcome, left: null })) },
  {
    bug: "a mark is passed again while the number stays above it",
    planted: asked(({ add }) => ({ ...add, marks: (add.marks ?? []).map((mark) => mark + 1) })),
  },
  {
    bug: "a counter does not expire",
    planted: answered((outcome) => ({ ...outcome, doc: { ...outcome.doc, expiresAt: null } })),
  },
  {
    bug: "what is no number counts as 0",
    planted: (kept, put, floor, now) =>
      actual(kept?.body === "" ? { ...kept, body: "0" } : kept, put, floor, now),
  },
];

afterEach(() => {
  bent.rule = null;
});

test("without a bug nothing is found", async () => {
  expect(await findDifference(100)).toBeNull();
});

test.each(mutants)("it is found that $bug", async ({ planted }) => {
  bent.rule = planted;
  expect(await findDifference(400)).not.toBeNull();
});
