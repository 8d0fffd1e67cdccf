/**
 * What clients add to counters: to one of a few that all share, mostly under a ceiling, with a mark that leaves
 * deferred work of a job that is not there. What the store answers is in the history.
 */
import { deferredKind } from "../../../src/store/rules/flow/arrive.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { countKind } from "../../history/history.ts";
import { unlessRefused } from "./sim-gate-operator.ts";
import type { SimNode } from "./sim-node.ts";

const [countersMax, ceiling, mark] = [2, 5, 3];

/** Adds at most twice in one call. Never rejects: what is refused or lost is a part of the run. */
export async function addToCounters(node: SimNode, random: SeededRandom): Promise<void> {
  const place = `{c${random.whole(1, countersMax)}}`;
  const adds = Array.from({ length: random.whole(1, 2) }, () => ({
    kind: countKind,
    id: `${place}spent`,
    add: {
      by: random.pick([1, 2, 4, -3]),
      ceiling: random.chance(0.8) ? ceiling : null,
      marks: [mark],
      leaves: { kind: deferredKind, id: `${place}nobody` },
    },
  }));
  await unlessRefused(() => node.store.putDocs(adds));
}
