// Random histories of budgets on every store, with lost calls and replies. MILLRACE_BUDGETS=1000 runs so many on each;
// MILLRACE_BUDGETS_FROM=N begins with number N.
import { describe, expect, test } from "vitest";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { runBudgetHistory } from "../history/budget-history.ts";
import type { PlantedBug } from "../history/budget-history.ts";
import { usePlaces } from "../support/servers/use-places.ts";

const count = Number(process.env["MILLRACE_BUDGETS"] ?? 6);
const from = Number(process.env["MILLRACE_BUDGETS_FROM"] ?? 1);
const plantedTries = 40;

function drawsOf(seed: number): () => number {
  const random = createSeededRandom(seed);
  return () => random.next();
}

describe.each(usePlaces())("histories of budgets on %s", (title, place) => {
  test(
    "keep counts exact, reservations below the bound, gates in line with counts, and act once per crossing",
    async () => {
      const store = await place()();
      for (let seed = from; seed < from + count; seed++)
        expect(await runBudgetHistory(store, `b${seed}`, drawsOf(seed)), `history ${seed}`).toBeNull();
      await store.close();
    },
    60_000 + count * 5_000,
  );

  const bugs: readonly PlantedBug[] =
    title === "sqlite" ? ["repeats adds", "ignores ceilings", "acts twice"] : [];
  test.each(bugs)("find a store that %s", async (bug) => {
    const store = await place()();
    let found = null;
    for (let seed = 1; seed <= plantedTries && found === null; seed++)
      found = await runBudgetHistory(store, `p${seed}`, drawsOf(seed), bug);
    expect(found).not.toBeNull();
    await store.close();
  });
});
