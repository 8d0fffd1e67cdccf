/**
 * What the vectors of each rule ask: calls with their time after the start, from which the reference model makes the
 * files in vectors/. R4 and R7 have none (vectors.test.ts says why).
 */
import {
  aChange,
  aDoc,
  aJob,
  anAdd,
  aRoute,
  aSettle,
  askCancel,
  finish,
  handBack,
  remove,
  schedule,
} from "../support/builders.ts";
import { startAt } from "../support/virtual/held-platform.ts";
import { finishScripts, guardScripts } from "./guard-scripts.ts";
import { frameScripts, journalScripts, wakeScripts } from "./journal-scripts.ts";
import {
  submit,
  claim,
  lease,
  promote,
  put,
  due,
  settle,
  change,
  extend,
  keyed,
  running,
} from "./vector-calls.ts";
import type { Script } from "./vector-calls.ts";

export const ruleNames = [
  "r1-clock",
  "r2-guard",
  "r3-finish",
  "r5-promote",
  "r6-claim",
  "r8-unique",
  "r9-add",
  "r10-emit",
] as const;
export type RuleName = (typeof ruleNames)[number];

const marked = { marks: [10, 20], leaves: { kind: "deferred", id: "w" } };

export const scripts: Readonly<Record<RuleName, readonly Script[]>> = {
  "r1-clock": [
    [
      "relative times count from the store's now",
      submit(7, aJob({ id: "a", due: { inMs: 5 }, deadline: { inMs: 9 }, ttlMs: 3 })),
    ],
    [
      "a named instant stays as it is",
      submit(7, aJob({ id: "a", due: { at: startAt + 2 }, deadline: { at: startAt + 1 }, ttlMs: 3 })),
    ],
    [
      "due at once is ready, a millisecond later is scheduled",
      submit(0, aJob({ id: "a" }), aJob({ id: "b", due: { inMs: 1 } })),
    ],
    [
      "rank = rankBase + rankSlope * dueAt",
      submit(
        0,
        aJob({ id: "a", rankBase: 100, rankSlope: -1, due: { inMs: 5 } }),
        aJob({ id: "b", rankBase: -(2 ** 52) }),
      ),
    ],
    [
      "time does not go back",
      submit(50, aJob({ id: "a" })),
      submit(20, aJob({ id: "b", due: { inMs: 1 } })),
      claim(10),
      promote(51),
    ],
    [
      "the earliest clock of a waiting job: due time, then deadline, then time-to-live",
      submit(0, aJob({ id: "a", due: { inMs: 10 }, deadline: { inMs: 30 }, ttlMs: 10 })),
      claim(1),
      promote(10),
      claim(12, { offers: [] }),
      due(20, "ttl"),
      due(30, "deadline"),
    ],
    [
      "the earliest clock of a running job: lease, end of the attempt, deadline",
      submit(0, aJob({ id: "a", deadline: { inMs: 90 } })),
      claim(0, { leaseMs: 50 }),
      extend(1, [{ ...lease("a", 1, 1), attemptEndsInMs: 30 }], { leaseMs: 50 }),
      due(31, "attempt"),
      due(51, "lease"),
      extend(52, [{ ...lease("a", 1, 1), attemptEndsInMs: null }], { leaseMs: 500 }),
      due(90, "deadline"),
    ],
    [
      "a schedule counts its time-to-live from the new due time",
      submit(0, aJob({ id: "a" })),
      claim(0),
      settle(5, aSettle(lease("a", 1, 1), schedule(10, { ttlMs: 7 }))),
    ],
    ...wakeScripts,
  ],
  "r2-guard": [...guardScripts, ...journalScripts, ...frameScripts],
  "r3-finish": finishScripts,
  "r5-promote": [
    [
      "scheduled and due becomes ready, the earliest first",
      submit(
        0,
        aJob({ id: "a", due: { inMs: 20 } }),
        aJob({ id: "b", due: { inMs: 10 } }),
        aJob({ id: "c", due: { inMs: 30 } }),
      ),
      promote(9),
      promote(25, 1),
      promote(25, 1),
      promote(25, 1),
    ],
    [
      "the rank is the one of the due time",
      submit(0, aJob({ id: "a", due: { inMs: 10 } })),
      promote(500),
      claim(500),
    ],
    [
      "other clocks that have rung do not matter",
      submit(0, aJob({ id: "a", due: { inMs: 10 }, deadline: { inMs: 5 } }), aJob({ id: "b" })),
      claim(1, { leaseMs: 2 }),
      promote(20),
      claim(20),
    ],
  ],
  "r6-claim": [
    [
      "by rank, then seq, from the offered routes",
      submit(
        0,
        aJob({ id: "a", rankBase: 5 }),
        aJob({ id: "b", name: "x" }),
        aJob({ id: "c" }),
        aJob({ id: "d", rankBase: -5, name: "x" }),
        aJob({ id: "e", queue: "q" }),
      ),
      claim(1, {
        offers: [
          { routes: [aRoute(), aRoute({ name: "x" })], max: 3 },
          { routes: [aRoute({ queue: "q" })], max: 2 },
        ],
      }),
      claim(1, { offers: [{ routes: [aRoute(), aRoute({ name: "x" }), aRoute({ queue: "q" })], max: 9 }] }),
    ],
    [
      "never a job whose clock has rung",
      submit(
        0,
        aJob({ id: "a", deadline: { inMs: 5 } }),
        aJob({ id: "b", ttlMs: 5 }),
        aJob({ id: "c", ttlMs: 6 }),
      ),
      claim(5),
      claim(6),
    ],
    [
      "fence, attempt, lease and time-to-live",
      submit(0, aJob({ id: "a", ttlMs: 50 })),
      claim(1),
      settle(2, aSettle(lease("a", 1, 1), handBack)),
      claim(3),
      settle(4, aSettle(lease("a", 1, 2), schedule(0))),
      claim(5, { owner: "w2", leaseMs: 7 }),
    ],
    [
      "a key held until the start is freed by the first claim",
      submit(0, keyed("a", { hold: "started" }), keyed("b", { hold: "started" })),
      claim(1),
      submit(2, keyed("c", { hold: "started" })),
      settle(3, aSettle(lease("a", 1, 1), handBack)),
      submit(4, keyed("d", { hold: "started" })),
    ],
    [
      "what else is mine",
      submit(0, aJob({ id: "a" }), aJob({ id: "b" })),
      claim(1),
      extend(2, [lease("b", 2, 1)], { wantsOthers: true }),
      extend(3, [lease("a", 1, 7)], { owner: "w2", wantsOthers: true }),
    ],
  ],
  "r8-unique": [
    ["keep answers the holder's id", submit(0, keyed("a"), keyed("b")), claim(1), submit(2, keyed("c"))],
    [
      "replace takes the place of a holder that has not started",
      submit(0, keyed("a", {}, { tags: ["t"], deadline: { inMs: 9 } })),
      submit(1, keyed("b", { onHeld: "replace" }, { queue: "q", due: { inMs: 9 }, rankBase: 2, meta: "m" })),
      promote(10),
      claim(10, { offers: [{ routes: [aRoute({ queue: "q" })], max: 1 }] }),
      submit(11, keyed("c", { onHeld: "replace" })),
    ],
    [
      "replace moves a holder that has not started, and moves it again",
      submit(0, keyed("a", {}, { due: { inMs: 5 } })),
      submit(1, keyed("b", { onHeld: "replace" }, { due: { inMs: 9 }, ttlMs: 4, input: "2" })),
      submit(2, keyed("c", { onHeld: "replace" })),
      claim(3),
      submit(4, keyed("d", { onHeld: "replace" })),
    ],
    [
      "a time counts from the submit, and anew with a replace",
      submit(0, keyed("a", { hold: 10 })),
      submit(9, keyed("c", { hold: 10, onHeld: "replace" })),
      submit(18, keyed("d", { hold: 10 })),
      submit(19, keyed("e", { hold: 10 })),
    ],
    [
      "two of one unit collide like two of two",
      [
        0,
        "submit",
        [
          {
            jobs: [
              keyed("a"),
              keyed("b", { onHeld: "replace" }, { input: "2" }),
              keyed("c", { key: "other" }),
            ],
          },
        ],
      ],
    ],
    [
      "a given id is looked at before the key",
      submit(0, aJob({ id: "a", digest: "1" }), keyed("b")),
      submit(1, keyed("a", {}, { digest: "1" }), keyed("a", {}, { digest: "2" })),
    ],
  ],
  "r9-add": [
    [
      "an add answers the sum; absent and expired count as 0",
      put(0, anAdd("a", 5), anAdd("b", -2, {}, { expiresInMs: 10 })),
      put(9, anAdd("a", 1), anAdd("b", -2, {}, { expiresInMs: 3 })),
      put(12, anAdd("b", 4)),
      [12, "readDocs", { kind: "kv", ids: ["a", "b"] }],
    ],
    [
      "an add up to the ceiling is applied, one above it is refused, what takes away is always applied",
      put(0, ...[6, 4, 1, 0, -1].map((by) => anAdd("a", by, { ceiling: 10 }))),
      put(1, anAdd("a", 2, { ceiling: 10 }), anAdd("a", 1, { ceiling: 10 })),
      put(2, anAdd("a", -1, { ceiling: -50 }), anAdd("b", 1, { ceiling: 0 })),
    ],
    [
      "a mark is passed upwards by before < mark <= after, and leaves one document that is due now",
      put(0, anAdd("a", 9, marked)),
      [0, "readDueDocs", { max: 9, cursor: null }],
      put(1, anAdd("a", 1, marked)),
      put(2, anAdd("a", 9, marked)),
      [2, "readDueDocs", { max: 9, cursor: null }],
      put(3, anAdd("a", -15, marked), anAdd("a", 40, marked)),
      [3, "readDueDocs", { max: 9, cursor: null }],
    ],
    [
      "what is no whole number of 53 bits is neither counted nor made",
      put(
        0,
        ...["", "007", "-0", "1.5", "1e3", " 1", "9007199254740992"].map((body, at) => aDoc(`${at}`, body)),
      ),
      put(1, ...["0", "1", "2", "3", "4", "5", "6"].map((id) => anAdd(id, 1))),
      put(
        2,
        aDoc("max", "9007199254740991"),
        anAdd("max", 1),
        anAdd("max", 1, { ceiling: 5 }),
        anAdd("max", -1),
      ),
    ],
    [
      "a refused add refuses its unit, or the settle that it goes with",
      [0, "submit", [{ jobs: [aJob({ id: "a" })], docs: [anAdd("n", 4, { ceiling: 5 })] }]],
      [1, "submit", [{ jobs: [aJob({ id: "b" })], docs: [anAdd("m", 1), anAdd("n", 4, { ceiling: 5 })] }]],
      claim(2),
      settle(3, { ...running, effects: { docs: [anAdd("n", 2, { ceiling: 5 })] } }),
      settle(4, { ...running, effects: { docs: [anAdd("n", 1, { ceiling: 5 })] } }),
      [4, "readDocs", { kind: "kv", ids: ["m", "n"] }],
    ],
  ],
  "r10-emit": [
    [
      "one record per call that changed something",
      submit(0, aJob({ id: "a" }), aJob({ id: "b" })),
      submit(1, aJob({ id: "a", digest: "x" })),
      claim(2),
      claim(3),
      extend(4, [lease("a", 1, 1)]),
      [5, "recordIfLeased", [{ ...lease("a", 1, 1), progress: "1", logs: ["l"] }]],
      [6, "putDocs", [aDoc("d", "1")]],
      settle(7, running, aSettle(lease("b", 2, 1), schedule(5))),
    ],
    [
      "extra is the due time, the reason or the owner",
      submit(0, aJob({ id: "a" })),
      claim(1),
      change(2, aChange("a", ["running"], askCancel)),
      settle(3, aSettle(lease("a", 1, 1), schedule(4))),
      change(4, aChange("a", ["scheduled"], finish("cancelled", { reason: "r" }))),
      change(5, aChange("a", ["cancelled"], remove)),
    ],
    [
      "stateCounts follow every change",
      submit(0, aJob({ id: "a" }), aJob({ id: "b", name: "x", due: { inMs: 3 } }), aJob({ id: "c" })),
      claim(1, { max: 1 }),
      [1, "countJobs", null],
      settle(2, running),
      promote(3),
      [3, "countJobs", null],
      change(4, aChange("b", ["ready"], remove)),
      [
        5,
        "prune",
        {
          what: "history",
          outcome: "completed",
          queue: null,
          exceptQueues: [],
          olderThanMs: 1,
          max: 9,
          cursor: null,
        },
      ],
    ],
    [
      "the last record outlives a prune",
      submit(0, aJob({ id: "a" })),
      submit(1, aJob({ id: "b" })),
      [9, "prune", { what: "feed", olderThanMs: 0, max: 9 }],
      [9, "readFeed", { after: -1, max: 1 }],
      submit(9, aJob({ id: "c" })),
    ],
  ],
};
