/** Planted violations of who may run next: limits, rates, closed gates and capabilities; 33 to 37 and 56. */
import { foreverMs } from "../../../src/model/limits/gate.ts";
import type { NewJob } from "../../../src/store/records.ts";
import { withSnapshot, twoAttempts } from "./planted.ts";
import type { Planted, Write } from "./planted.ts";
import type { Scribe } from "../scribe.ts";

export const slack = "l:slack";
export const limited = (weight = 1): Pick<NewJob, "gates"> => ({ gates: [{ key: slack, weight }] });
export const tokens = (stepMs: number, burst: number) => ({
  rate: { stepUs: stepMs * 1000, burstUs: burst * stepMs * 1000 },
});

export function claimAndEnd(s: Scribe, ...ids: readonly string[]): void {
  for (const id of ids) {
    s.claim(id);
    s.settle(id, "completed");
  }
}

export function works(s: Scribe, ...capabilities: readonly string[]): void {
  const times = { invokedUs: 0, answeredUs: 0, order: null };
  s.operations.push({ kind: "work", actor: "p1", seen: "ok", capabilities, ...times });
}

/** Two jobs of a limit; the second is claimed N milliseconds after the first, which still runs. */
const twoAtOnce =
  (weight = 1): Write =>
  (s) => {
    s.submit({ id: "a", ...limited() }, { id: "b", ...limited(weight) });
    s.claim("a");
    s.now += 10;
    s.claim("b");
    s.settle("a", "completed");
    s.settle("b", "completed");
  };

export const plantedGates: readonly Planted[] = [
  [33, "one more runs than the cap of its limit", (s) => (s.put(slack, { cap: 1 }), twoAtOnce()(s))],
  [33, "a heavy job starts beside a light one", (s) => (s.put(slack, { cap: 2 }), twoAtOnce(2)(s))],
  [
    33,
    "a lowered cap does not hold for what is claimed after it",
    (s) => {
      s.put(slack, { cap: 3 });
      s.submit({ id: "a", ...limited() }, { id: "b", ...limited() }, { id: "c", ...limited() });
      s.claim(["a", "b"]);
      s.put(slack, { cap: 2 });
      s.claim("c");
      for (const id of ["a", "b", "c"]) s.settle(id, "completed");
    },
  ],
  [
    33,
    "a permit comes back before its lease has ended",
    (s) => {
      s.put(slack, { cap: 1 });
      s.submit({ id: "a", ...limited(), ...twoAttempts }, { id: "b", ...limited() });
      s.claim("a");
      s.now += 1500;
      s.claim("b");
      s.change("a", "reclaimed", "ready");
      s.claim("a");
      s.settle("b", "completed");
      s.settle("a", "completed");
    },
  ],
  [
    33,
    "two jobs of a queue run that has a concurrency of 1",
    (s) => {
      s.put("q:mail", { cap: 1 });
      s.submit({ id: "a" }, { id: "b" });
      s.claim(["a", "b"]);
      s.settle("a", "completed");
      s.settle("b", "completed");
    },
  ],
  [
    34,
    "a permit is never given back",
    (s) => (s.put(slack, { cap: 1 }), s.live("a", limited())),
    withSnapshot(({ gates }) => ({ gates: gates.map((gate) => ({ ...gate, held: 1 })) })),
  ],
  [
    35,
    "more start at once than the burst",
    (s) => {
      s.put(slack, tokens(1000, 2));
      for (const id of ["a", "b", "c"]) s.live(id, limited());
    },
  ],
  [
    35,
    "more start in a long time than its tokens",
    (s) => {
      s.put(slack, tokens(1000, 1));
      for (const id of ["a", "b", "c", "d"]) {
        s.live(id, limited());
        s.now += 970;
      }
    },
  ],
  [
    37,
    "a job starts in a paused queue",
    (s) => {
      s.submit({ id: "a" });
      s.act("close-gate", "q:mail", foreverMs);
      claimAndEnd(s, "a");
    },
  ],
  [
    37,
    "a resume ends a pause that came after it",
    (s) => {
      s.submit({ id: "a" });
      s.act("close-gate", "q:mail", foreverMs);
      s.act("open-gate", "q:mail");
      s.act("close-gate", "q:mail", foreverMs);
      claimAndEnd(s, "a");
    },
  ],
  [
    37,
    "a job starts while its limit cools down",
    (s) => {
      s.act("close-gate", slack, s.now + 500);
      s.live("a", limited());
    },
  ],
  [
    56,
    "a worker takes a job without a capability",
    (s) => (works(s, "eu"), s.live("a", { requires: ["eu", "gpu"] })),
  ],
];

/** True ones beside them, which the checker must accept. */
export const trueGates: Readonly<Record<string, Write>> = {
  "a cap that is lowered below what runs, which keeps its permits": (s) => {
    s.put(slack, { cap: 2 });
    s.submit({ id: "a", ...limited() }, { id: "b", ...limited() }, { id: "c", ...limited() });
    s.claim(["a", "b"]);
    s.put(slack, { cap: 1 });
    s.settle("a", "completed");
    s.settle("b", "completed");
    claimAndEnd(s, "c");
  },
  "a limit whose jobs are passed by plain ones behind them": (s) => {
    s.put(slack, { cap: 1 });
    s.submit({ id: "a", ...limited() }, { id: "b", ...limited() }, { id: "c" });
    s.claim(["a", "c"]);
    s.settle("a", "completed");
    s.settle("c", "completed");
    claimAndEnd(s, "b");
  },
  "a throttled job, which keeps its place and its attempt": (s) => {
    s.put(slack, { cap: 1 });
    s.submit({ id: "a", ...limited() }, { id: "b", ...limited() });
    s.claim("a");
    s.change("a", "throttled", "ready");
    s.act("close-gate", slack, s.now + 100);
    s.now += 98;
    s.claim("a", { counts: 0 });
    s.settle("a", "completed");
    claimAndEnd(s, "b");
  },
  "a rate that is used up to its last token": (s) => {
    s.put(slack, tokens(20, 2));
    for (const id of ["a", "b", "c", "d"]) s.live(id, limited());
  },
  "a pause, a resume, and a pause that another one shortens": (s) => {
    s.act("close-gate", "q:mail", foreverMs);
    s.act("open-gate", "q:mail");
    s.live("a");
    s.act("close-gate", "q:mail", foreverMs);
    s.act("close-gate", "q:mail", s.now + 50);
    s.now += 50;
    s.live("b");
  },
  "a worker that offers more than a job requires": (s) => {
    works(s, "eu", "gpu");
    s.live("a", { requires: ["gpu"] });
  },
};
