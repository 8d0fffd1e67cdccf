/** Planted violations of what counters promise (invariant 65), and histories that keep it. */
import type { Add, DocAdd } from "../../../src/store/records.ts";
import { anAdd } from "../../support/builders.ts";
import { countKind } from "../history.ts";
import type { Scribe } from "../scribe.ts";
import { withSnapshot } from "./planted.ts";
import type { Bend, Planted, Write } from "./planted.ts";

const ceiling = 10;
const marked = { marks: [5] };

const anAddOf = (by: number, add: Partial<Add> = {}): DocAdd => anAdd("spent", by, add, { kind: countKind });

/** Three adds of which the last is refused. */
function spend(s: Scribe): void {
  for (const by of [4, 4, 4]) s.count("spent", by, { ceiling, ...marked });
}

const keptAs = (body: string): Bend =>
  withSnapshot(({ counters }) => ({ counters: counters.map((doc) => ({ ...doc, body })) }));

/** A settle that says to add. */
function settleAdding(s: Scribe, answer: "ok" | "stale"): void {
  s.submit({ id: "a" });
  const { seq } = s.job("a");
  const settle = { id: "a", seq, fence: 9, next: {}, attempts: null, effects: { docs: [anAddOf(4)] } };
  s.call("settleIfLeased", [settle], [{ kind: answer }]);
}

export const trueCounters: Readonly<Record<string, Write>> = {
  "adds up to a ceiling, one that is refused, and one that takes away": (s) => {
    spend(s);
    s.count("spent", -6, { ceiling });
    s.count("spent", 4, { ceiling });
  },
  "an add whose reply was lost and that was applied, and one that was not": (s) => {
    s.count("spent", 4, { ceiling }, { told: null });
    s.call("putDocs", [anAddOf(3)], null, { seen: "unknown" });
    s.count("spent", 2);
  },
};

export const plantedCounters: readonly Planted[] = [
  [65, "an add is lost", spend, keptAs("4")],
  [65, "an add is counted twice", spend, keptAs("12")],
  [
    65,
    "a counter with an add of unknown outcome is less than the others",
    (s) => {
      s.count("spent", 4);
      s.count("spent", 3, {}, { told: null });
    },
    keptAs("3"),
  ],
  [
    65,
    "an add above the ceiling is applied",
    (s) => {
      s.count("spent", 8);
      s.call("putDocs", [anAddOf(4, { ceiling })], [{ kind: "ok", version: 2, number: 12 }]);
    },
    keptAs("12"),
  ],
  [
    65,
    "an add that the ceiling allows is refused",
    (s) => {
      s.count("spent", 4);
      s.call("putDocs", [anAddOf(2, { ceiling })], [{ kind: "above", number: 4 }]);
    },
  ],
  [
    65,
    "a mark is passed by two adds",
    (s) => {
      s.count("spent", 4, marked);
      s.count("spent", 4, marked);
      s.call("putDocs", [anAddOf(4, marked)], [{ kind: "ok", version: 2, number: 8 }]);
    },
    keptAs("12"),
  ],
  [
    65,
    "an add of a refused settle is counted",
    (s) => (s.count("spent", 4), settleAdding(s, "stale")),
    keptAs("8"),
  ],
  [65, "an add of a settle is not counted", (s) => (s.count("spent", 4), settleAdding(s, "ok"))],
];
