/** Planted violations of what lanes ask: groups and keys of limits; 33 to 35, 37 and 57. */
import { limitGateKey } from "../../../src/model/limits/gate.ts";
import {
  groupGateKey,
  groupLane,
  keyedGate,
  keysLane,
  laneStepOf,
  writeKeyUse,
} from "../../../src/model/routing/lane.ts";
import type { LaneOrder } from "../../../src/model/routing/lane.ts";
import type { NewJob } from "../../../src/store/records.ts";
import { withSnapshot } from "./planted.ts";
import type { Planted, Write } from "./planted.ts";
import { claimAndEnd, tokens } from "./planted-gates.ts";
import type { Scribe } from "../scribe.ts";

const waitMs = 100;
const backoff = { kind: "fixed", delayMs: waitMs, jitter: "none" };

type LaneSpec = Pick<NewJob, "laneKey" | "laneStep" | "laneGates"> & Partial<Pick<NewJob, "policy">>;

/** A job of a group of the queue "mail" that has two attempts. @param cap null for a group that only takes turns. */
function grouped(
  key: string,
  cap: number | null,
  { order = "rank" as LaneOrder, holdsGroup = cap === 1, holdsGroupFailed = false } = {},
): LaneSpec {
  const gate = keyedGate(groupGateKey("mail"), key);
  return {
    laneKey: groupLane("mail", key, order),
    laneStep: order === "turn" ? laneStepOf(1) : null,
    laneGates: cap === null ? null : [writeKeyUse({ key: gate, weight: 1, cap })],
    policy: JSON.stringify({ attempts: 2, backoff, holdsGroup, holdsGroupFailed }),
  };
}

const api = limitGateKey("api");
const ofApi = (key: string): string => keyedGate(api, key);

/** A job that takes from a key of a limit. */
function keyed(key: string, weight = 1): LaneSpec {
  const use = writeKeyUse({ key: ofApi(key), weight, cap: null });
  return { laneKey: keysLane(1, use), laneStep: null, laneGates: [use] };
}

const perKey = (cap: number): object => ({ perKey: { cap, rate: null } });

/** A moment later, so that what was ready before was so by the store's clock. */
function submitAll(s: Scribe, ...specs: readonly (Partial<NewJob> & { readonly id: string })[]): void {
  s.submit(...specs);
  s.now += 10;
}

/** The first of a key that failed jobs hold has failed. */
function failFirst(s: Scribe): void {
  const strict = grouped("ann", 1, { holdsGroupFailed: true });
  submitAll(s, { id: "a", ...strict }, { id: "b", ...strict });
  s.claim("a");
  s.settle("a", "failed", { reason: "unrecoverable" });
  s.now += 10;
}

const twoAtOnce =
  (one: LaneSpec, other: LaneSpec): Write =>
  (s) => {
    submitAll(s, { id: "a", ...one }, { id: "b", ...other });
    s.claim("a");
    s.claim("b");
    s.settle("a", "completed");
    s.settle("b", "completed");
  };

/** The first of a group fails and is to come again; the second is claimed in the meantime. */
const passedInItsWait =
  (spec: LaneSpec, meanwhile: Write = () => undefined): Write =>
  (s) => {
    submitAll(s, { id: "a", ...spec }, { id: "b", ...spec });
    s.claim("a");
    s.settle("a", "retry", { inMs: waitMs });
    s.now += 10;
    meanwhile(s);
    claimAndEnd(s, "b");
    s.now += waitMs;
    if (s.job("a").state === "scheduled") s.change("a", "promoted", "ready");
    claimAndEnd(s, "a");
  };

export const plantedLanes: readonly Planted[] = [
  [
    33,
    "two jobs of a group run that has a concurrency of 1",
    twoAtOnce(grouped("ann", 1), grouped("ann", 1)),
  ],
  [
    33,
    "a job with a smaller cap of its own starts beside another of its group",
    twoAtOnce(grouped("ann", 2), grouped("ann", 1)),
  ],
  [
    33,
    "the next of a FIFO key starts while the first waits for its retry",
    passedInItsWait(grouped("ann", 1)),
  ],
  [
    33,
    "an edit of a waiting retry lets the next of its key start",
    passedInItsWait(grouped("ann", 1), (s) => s.change("a", "edited", "scheduled", s.now + 90)),
  ],
  [33, "the next of a key starts although a failed job holds it", (s) => (failFirst(s), claimAndEnd(s, "b"))],
  [
    33,
    "more of one key run than its limit allows each",
    (s) => (s.put(api, perKey(1)), twoAtOnce(keyed("ann"), keyed("ann"))(s)),
  ],
  [
    33,
    "an edit of each key does not hold for what is claimed after it",
    (s) => {
      s.put(api, perKey(2));
      submitAll(s, { id: "a", ...keyed("ann") }, { id: "b", ...keyed("ann") });
      s.claim("a");
      s.put(api, perKey(1));
      s.claim("b");
      for (const id of ["a", "b"]) s.settle(id, "completed");
    },
  ],
  [
    33,
    "an edit of one key is not heeded",
    (s) => {
      s.put(api, perKey(5));
      s.put(ofApi("ann"), { cap: 1 });
      twoAtOnce(keyed("ann"), keyed("ann"))(s);
    },
  ],
  [
    34,
    "a key of a limit is held though nothing runs",
    (s) => (s.put(ofApi("ann"), { cap: 1 }), s.live("a", keyed("ann"))),
    withSnapshot(({ gates }) => ({ gates: gates.map((gate) => ({ ...gate, held: 1 })) })),
  ],
  [
    35,
    "more of one key start at once than the burst of each",
    (s) => {
      s.put(api, { perKey: { cap: null, ...tokens(1000, 2) } });
      for (const id of ["a", "b", "c"]) s.live(id, keyed("ann"));
    },
  ],
  [
    37,
    "a job starts while its key cools down",
    (s) => {
      s.act("close-gate", ofApi("ann"), s.now + 500);
      s.live("a", keyed("ann"));
    },
  ],
  [
    57,
    "the second of a key goes first, across names",
    (s) => {
      submitAll(s, { id: "a", ...grouped("ann", 1), name: "other" }, { id: "b", ...grouped("ann", 1) });
      claimAndEnd(s, "b", "a");
    },
  ],
  [
    57,
    "the second of a key that runs two at once goes first",
    (s) => {
      submitAll(s, { id: "a", ...grouped("ann", 2) }, { id: "b", ...grouped("ann", 2) });
      claimAndEnd(s, "b", "a");
    },
  ],
  [
    57,
    "the second of a group that takes turns goes first",
    (s) => {
      const fair = grouped("ann", null, { order: "turn" });
      submitAll(s, { id: "a", ...fair }, { id: "b", ...fair });
      claimAndEnd(s, "b", "a");
    },
  ],
  [
    57,
    "a retry that holds its key comes back behind the next",
    (s) => {
      submitAll(s, { id: "a", ...grouped("ann", 1) }, { id: "b", ...grouped("ann", 1) });
      s.claim("a");
      s.settle("a", "retry", { inMs: waitMs });
      s.now += waitMs;
      s.change("a", "promoted", "ready");
      s.now += 10;
      claimAndEnd(s, "b", "a");
    },
  ],
  [
    57,
    "a failed job that holds its key comes back behind the next",
    (s) => (failFirst(s), s.change("a", "replayed", "ready"), (s.now += 10), claimAndEnd(s, "b", "a")),
  ],
];

/** True ones beside them, which the checker must accept. */
export const trueLanes: Readonly<Record<string, Write>> = {
  "keys in turn, each in its order, and a failed job that frees its key": (s) => {
    const [ann, bob] = [grouped("ann", 1), grouped("bob", 1)];
    submitAll(s, { id: "a", ...ann }, { id: "b", ...ann }, { id: "c", ...bob });
    s.claim(["a", "c"]);
    s.settle("a", "retry", { inMs: waitMs });
    s.settle("c", "completed");
    s.now += waitMs;
    s.change("a", "promoted", "ready");
    s.claim("a");
    s.settle("a", "failed", { reason: "retries-exhausted" });
    claimAndEnd(s, "b");
  },
  "a retry that does not hold its key, which the next of it passes": passedInItsWait(
    grouped("ann", 1, { holdsGroup: false }),
  ),
  "a retry that somebody rescheduled, which the next of its key passes": passedInItsWait(
    grouped("ann", 1),
    (s) => s.change("a", "rescheduled", "scheduled", s.now + 100),
  ),
  "a retry that keeps its place before what came in the meantime": (s) => {
    submitAll(s, { id: "a", ...grouped("ann", 1) });
    s.claim("a");
    s.settle("a", "retry", { inMs: waitMs });
    submitAll(s, { id: "b", ...grouped("ann", 1) });
    s.now += waitMs;
    s.change("a", "promoted", "ready");
    claimAndEnd(s, "a", "b");
  },
  "a failed job that holds its key until its replay has completed": (s) => {
    failFirst(s);
    s.change("a", "replayed", "ready");
    claimAndEnd(s, "a", "b");
  },
  "a failed job that holds its key until it is deleted": (s) => {
    failFirst(s);
    s.remove("a");
    claimAndEnd(s, "b");
  },
  "jobs of one group with different caps, each within its own": twoAtOnce(
    grouped("ann", 1),
    grouped("ann", 2),
  ),
  "groups that take turns, whose ranks say nothing": (s) => {
    const [ann, bob] = ["ann", "bob"].map((key) => grouped(key, null, { order: "turn" }));
    submitAll(s, { id: "a", ...ann }, { id: "b", ...ann }, { id: "c", ...bob });
    s.claim(["a", "c"]);
    s.claim("b");
    for (const id of ["a", "b", "c"]) s.settle(id, "completed");
  },
  "a key that an edit lets more run than the others": (s) => {
    s.put(api, perKey(1));
    s.put(ofApi("ann"), { cap: 2 });
    twoAtOnce(keyed("ann"), keyed("ann"))(s);
  },
};
